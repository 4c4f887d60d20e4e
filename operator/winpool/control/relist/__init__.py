"""Which pools there are: as the watch tells it, and as lists confirm it."""
