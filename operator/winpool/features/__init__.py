"""PURE. The features of a pool: one function each, from the snapshot to what nodes are to have."""
