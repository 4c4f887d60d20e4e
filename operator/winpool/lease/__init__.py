"""Which of several operators may write: a Lease of our own in the namespace winpool-system."""
