"""A Windows Kubernetes cluster on one machine, without Windows, containers or root.

``testbed.cluster.Testbed`` is the Python door, ``python -m testbed`` the command. See README.md.
"""
