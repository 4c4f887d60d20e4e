"""The loops: one task per pool, woken when something it depends on has changed.

- ``loops``       the loop of each pool, who wakes it, and what the loops are made of
- ``reconcile``   one pass: observe, decide, act, report
- ``act``         performs what was decided, a lane for each kind of act
- ``patience``    when a write may be tried again
- ``report``      writes the status, and emits events
- ``pod_survey``  lists pods, all of them or those of a node
- ``memory``      polls kubelets and Prometheus, and steps the detector of each node
- ``relist``      which pools there are
- ``leftovers``   removes from nodes what no pool removes any more

``clock`` passes time in, ``stats`` has the counters. The reflector in ``cluster`` has the nodes.
"""
