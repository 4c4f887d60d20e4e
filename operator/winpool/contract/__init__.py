"""PURE. The node contract: what the spec asks for on nodes, when it may be written, and which nodes have it.

- ``room``             the room: what is wanted on each node, and what is found of it
- ``brake``            which taints have to wait, or are held, since pods do not tolerate them
- ``validate``         startup taints of a node that joins, and what it has to show
- ``judge``            the verdict of the support matrix on a node, and the labels that report it
- ``reserved_memory``  what a kubelet reserves, compared with what is declared; ``reserved_judge`` for a pass
- ``acceptance``       whether a spec can be acted on
- ``questions``        what a pool needs to know of all pods

Which pool has a node, the ownership record and the patch are in ``ownership``.
"""
