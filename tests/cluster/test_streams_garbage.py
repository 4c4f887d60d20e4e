"""Lines of a watch that mean nothing, or are far too long, change nothing (P4, P7)."""

from __future__ import annotations

from typing import Final

import psutil
import pytest

from harness.streams import NODES_WATCH, POOLS, POOLS_WATCH, Stage
from testbed.faults import alter, event, insert, line_of, on

GARBAGE: Final = {
    "html": b"<html><body>502 Bad Gateway</body></html>",
    "binary": b"\xff\xfe\x00\x80",
    "deep": b"[" * 100_000,
    "nobody": line_of({"type": "MODIFIED", "object": {}}),
    "renamed": line_of({"type": "RENAMED", "object": {"metadata": {"resourceVersion": "1"}}}),
}
MEMORY_BYTES: Final = 64 * 1024 * 1024
"""By which the operator may grow over a few lines of 1.4 MB: they are never held for long."""


@pytest.mark.parametrize(
    ("resource", "kind"), [*(("nodes", kind) for kind in GARBAGE), (POOLS, "html")], ids=lambda value: value
)
def test_garbage_in_a_watch_is_no_news(stage: Stage, resource: str, kind: str) -> None:
    name = stage.quiet.pop()
    with stage.unshaken(drifted=[name]):
        stage.proxy.add(on("watch", resource), insert(GARBAGE[kind]), nth=1)
        stage.drift(name)
    if resource == POOLS:
        stage.wait_heard()


def test_a_line_of_megabytes_is_taken_in_and_memory_stays_bounded(stage: Stage) -> None:
    process = psutil.Process(stage.world.operator.pid)
    before = process.memory_info().rss
    big = b'{"padding":"' + b"x" * 1_400_000 + b'",'
    name = stage.quiet.pop()
    with stage.unshaken(drifted=[name]):
        for match in (NODES_WATCH, POOLS_WATCH):
            stage.proxy.add(match, alter(lambda line: big + line[1:], where=event("MODIFIED")), nth=1)
        stage.drift(name)
        stage.world.kubectl("annotate", "wnp", stage.pool, "example.com/touched=yes")
        for resource in ("nodes", POOLS):
            stage.proxy.wait_for(on("watch", resource, where=lambda each: "alter" in each.actions))
    for match in (NODES_WATCH, POOLS_WATCH):
        watches = [each for each in stage.proxy.log if match(each)]
        assert [("alter" in each.actions, each.done) for each in watches] == [(True, False)]
    assert stage.requests("list", "nodes") == [], "there was no need to list anew"
    assert process.memory_info().rss - before < MEMORY_BYTES
