"""Lists pods: all of them from time to time, those of a single node where a pool waits for them."""
