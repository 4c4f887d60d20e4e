"""PURE. The gates: what has to be open before a node may be upgraded, each in one small function.

- ``table``   all of them: meaning, what opens it, and whether it is judged for the pool or for each node
- ``world``   what they are judged by, made once for a pass
- ``target``  the release and revision that nodes are brought to: SupportMatrix, EndOfSupport, RevisionFloor
- ``times``   ControlPlane, MaintenanceWindow
- ``health``  the nodes of the pool: PoolHealth, Budget
- ``node``    the versions of one node: ReleaseChange, VersionSkew
- ``pods``    what runs on one node: Capacity, Images, PodDisruptionBudgets

All are judged in every pass, also where one of them is closed. What is not known does not open a gate.
"""
