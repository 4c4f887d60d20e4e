"""PURE. Which pool a node belongs to, what on it is ours, and the one patch that brings it to its target.

- ``membership``  which nodes a selector selects, and which pool has a node when two pools select it
- ``members``     all nodes that concern a pool, and which pool has each
- ``record``      the ownership record on each node: what is ours, and the values from before
- ``reading``     reads it, without trust in who wrote it
- ``rights``      decides which records are believed
- ``goals``       what a node is to have: as rooms want it, and merged
- ``brief``       the quick check: whether a node has that already
- ``patch``       the one patch that brings a node there; ``edits`` and ``recording`` have its steps
- ``release``     the patch that removes exactly what is ours
- ``conformity``  the result of either: the patch, and what is reported
- ``dues``        what is due on each node of a pool
- ``leftovers``   what a pool left behind that cannot remove it itself any more
"""
