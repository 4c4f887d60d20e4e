"""PURE. The node contract: what the spec asks for on nodes, and when it may be written."""
