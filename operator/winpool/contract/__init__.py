"""PURE. The node contract: what the spec asks for on nodes, when it may come, and how they stand to it.

- ``room``             the room: what is wanted on each node, and what is found of it
- ``brake``            which taints have to wait, or are held back, since pods do not tolerate them
- ``validate``         startup taints of a node that joins, and what it has to show
- ``judge``            what the support matrix says of a node, and the labels that tell it
- ``reserved_memory``  what a kubelet holds back against what is declared; ``reserved_judge`` for a pass
- ``acceptance``       whether a spec can be acted on
- ``questions``        what a pool wants to know of all pods

Whose a node is, the ownership record and the patch are no part of it: ``ownership``.
"""
