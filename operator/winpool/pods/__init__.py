"""PURE. What pods tell: taints they tolerate, whether they are on the wrong machine, what looks found.

- ``pod``       what is asked of a single pod
- ``survey``    what pools want to know about all pods, and the answers
- ``surveyor``  answers them while the pods go by
- ``evidence``  what is known of the pods of a node, and what it permits
"""
