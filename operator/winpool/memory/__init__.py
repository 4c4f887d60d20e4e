"""PURE. Memory pressure on Windows nodes: how bad it is, whether an eviction can help, and of which pod.

- ``samples``      what one source reports of one node at one time
- ``settings``     the lines of a pool, and every other number with its reason
- ``sources``      which samples are fresh, by the times that they have themselves
- ``axes``         what a sample says of the two axes: commit, and physical memory
- ``slope``        the trend, and the time until memory is exhausted
- ``levels``       which lines a reading is over, and of which it is clear
- ``hysteresis``   how long it has been so
- ``attribution``  whether the memory belongs to pods at all
- ``evictions``    what the evictions so far have achieved
- ``state``        all of that for one node, and ``detector`` what a sample changes about it
- ``view``         what a pass reads of it: level, numbers, and whether an eviction is right
- ``candidates``   pods, and which of them are never evicted; ``victims`` which of the others is next
- ``candidacy``    makes candidates of the pods of a node
- ``intents``      the evictions that are recorded on a node, and ``intent_text`` how they are written
- ``progress``     the progress of one, ``situation`` that of all of a node, and why the operator stands aside
- ``evicting``     what to do next on a node (``steps``), and ``turns`` which nodes of the pool are next
- ``breaker``      how many nodes of a pool may be in trouble, and how many may evict

Every time is a number of seconds on one clock of the operator, passed in with each sample.
"""
