"""PURE. Memory pressure on Windows nodes: how bad it is, whether an eviction can help, and of which pod."""
