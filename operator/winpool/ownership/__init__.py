"""PURE. Whose a node is, what of it is ours, and the one patch that makes it as it is to be.

- ``membership``  which nodes a selector takes, and whose a node is when two pools ask for it
- ``members``     all nodes that concern a pool, and whose each is
- ``record``      the ownership record on each node: what is ours, and what stood there before
- ``reading``     reads it, from whoever wrote it
- ``rights``      by what records are believed
- ``goals``       what is to stand on a node: as rooms ask for it, and put together
- ``brief``       the short way: whether a node is so already
- ``patch``       the one patch that makes a node so; ``edits`` and ``recording`` have its steps
- ``release``     the patch that takes exactly ours off again
- ``conformity``  what comes of either: the patch, and what people are to be told
- ``dues``        what is due on each node of a pool
- ``leftovers``   what a pool left behind that cannot take it off itself any more
"""
