"""PURE. The node contract: which nodes are a pool's, what they carry, and how it comes off again.

- ``membership``  which nodes a selector takes, and whose a node is when two pools ask for it
- ``record``      the ownership record on each node: what is ours, and what stood there before
- ``conform``     from a node as it is to the one patch that makes it as the pool wants it
- ``release``     from a node as it is to the one patch that takes exactly ours off again
"""
