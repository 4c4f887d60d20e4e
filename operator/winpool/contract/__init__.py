"""PURE. The node contract: which nodes are a pool's, what they carry, and how it comes off again.

- ``membership``  which nodes a selector takes, and whose a node is when two pools ask for it
- ``record``      the ownership record on each node: what is ours, and what stood there before
- ``conform``     the one patch that makes a node as the pool wants it, or takes exactly ours off again
- ``assess``      all nodes of one pool: whose each is, and what is to be done there
- ``leftovers``   what a pool left behind that cannot take it off itself any more
- ``questions``   what a pool wants to know of all pods
"""
