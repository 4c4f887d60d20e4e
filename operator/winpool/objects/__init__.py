"""PURE. The objects of the cluster as records: no I/O, no clock, no rules.

``cluster/`` makes them from the answers of the API server, the pure modules read them, ``control/`` passes
them from one to the other.
"""
