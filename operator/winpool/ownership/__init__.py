"""PURE. Which pool a node belongs to, what on it is ours, and the patch to its desired state."""
