"""The loops that get samples of memory, step the detector of each node, and wake pools where a level changes.

- ``collector``      all of it: what passes ask for and read, and the loops
- ``watched``        the nodes that are watched, and what is known of each
- ``kubelet_polls``  polls kubelets by the schedule of ``winpool.kubelet``
- ``source_polls``   queries Prometheus
- ``readings``       what a source reports, as a sample of the detector

The detector is in ``winpool.memory``, the clients are in ``winpool.kubelet``.
"""
