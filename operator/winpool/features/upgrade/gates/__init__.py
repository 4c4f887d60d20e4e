"""PURE. The gates: what has to be open before a node may be upgraded, each in one small function."""
