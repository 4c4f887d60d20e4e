"""PURE. OS upgrades: why a node is due, what keeps it from being upgraded now, and the plan."""
