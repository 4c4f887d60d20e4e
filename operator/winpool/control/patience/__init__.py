"""When a write may be tried again, by the outcome of the last try."""
