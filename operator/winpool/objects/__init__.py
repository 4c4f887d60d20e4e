"""PURE. The objects of the cluster as records: no I/O, no clock, no rules.

``cluster/`` makes them from what the API server says, the pure rooms read them, ``control/`` carries them
from one to the other.
"""
