"""PURE. What is found out about the Windows and the memory of a node, for every room alike.

- ``judge``            the verdict of the support matrix on a node, and the labels that report it
- ``release``          whether a node runs the release and revision that its pool asks for
- ``reserved_memory``  what a kubelet reserves, compared with what is declared; ``reserved_judge`` for a pass

A room decides what follows. Rooms do not import each other, so what several of them need is here.
"""
