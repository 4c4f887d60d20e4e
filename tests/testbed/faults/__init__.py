"""A proxy between the operator and the API server that can be told to do harm. See README.md.

.. code-block:: python

    with FaultProxy(testbed) as proxy:
        proxy.add(on("patch", "nodes"), answer(409), first=2)
        proxy.add(on("watch", "nodes"), cut_stream(after_lines=3, in_line=True), nth=1)
        …  # run the operator with proxy.kubeconfig("winpool")
"""

from testbed.faults.actions import When, answer, call, cut, delay, kill, rewrite, stall
from testbed.faults.errors import FaultError
from testbed.faults.kinds import bookmark_line, error_line, event, line_of, status_object
from testbed.faults.proxy import FaultProxy
from testbed.faults.record import PROGRESS, Match, Record, on
from testbed.faults.rule import Rule
from testbed.faults.stream import alter, cut_stream, drop, insert, replay, silence
from testbed.faults.target import READS, WRITES

__all__ = [
    "PROGRESS",
    "READS",
    "WRITES",
    "FaultError",
    "FaultProxy",
    "Match",
    "Record",
    "Rule",
    "When",
    "alter",
    "answer",
    "bookmark_line",
    "call",
    "cut",
    "cut_stream",
    "delay",
    "drop",
    "error_line",
    "event",
    "insert",
    "kill",
    "line_of",
    "on",
    "replay",
    "rewrite",
    "silence",
    "stall",
    "status_object",
]
