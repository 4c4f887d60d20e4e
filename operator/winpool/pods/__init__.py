"""PURE. What is known of pods: taints they tolerate, whether they are on the wrong machine, what lists found.

- ``pod``       a single pod, and the rules about it
- ``survey``    what pools want to know about all pods, and the answers
- ``surveyor``  makes the answers from the pods, one after the other
- ``workloads`` what runs on each node, for pools that ask
- ``evidence``  what is known of the pods of a node, and what it permits
"""
