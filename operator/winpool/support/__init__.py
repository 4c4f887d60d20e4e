"""PURE. The support matrix: which Windows runs where, until when, and why."""
