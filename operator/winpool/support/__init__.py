"""The support matrix: which Windows runs where, until when, and why. Pure; the data is ``matrix.yaml``."""
