"""PURE. The node contract: what the spec asks for on nodes, when it may be written, and which nodes have it.

- ``room``        the room: what is wanted on each node, and what is found of it
- ``brake``       which taints have to wait, or are held, since pods do not tolerate them
- ``validate``    startup taints of a node that joins, and what it has to show
- ``acceptance``  whether a spec can be acted on
- ``questions``   what a pool needs to know of all pods

Which pool has a node, the ownership record and the patch are in ``ownership``; the verdicts on a
node are in ``judging``.
"""
