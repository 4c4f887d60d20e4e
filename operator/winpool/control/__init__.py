"""The loops: one task per pool, woken when something it depends on has changed.

- ``loops``       the loop of each pool, who wakes it, and what the loops are made of
- ``reconcile``   one pass: observe, decide, act, report
- ``act``         performs what was decided, a lane for each kind of act
- ``patience``    when a write may be tried again
- ``report``      writes the status, and says events
- ``pod_survey``  looks at pods, all of them or those of a node
- ``relist``      which pools there are
- ``leftovers``   takes off nodes what no pool takes off any more

``clock`` is how time is handed in, ``stats`` what is counted. Nodes are held by the reflector in ``cluster``.
"""
