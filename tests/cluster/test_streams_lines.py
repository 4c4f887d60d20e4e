"""Lines of a watch that come twice, come late, or do not come at all (P1, P4)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from harness.nodes import labels_of
from harness.streams import NODES_WATCH, Stage, kept_in
from harness.waiting import eventually, holds
from testbed.faults import alter, drop, event, insert, replay
from winpool.api.keys import OS_LABEL, OS_WINDOWS, POOL_LABEL


def test_lines_sent_once_more_turn_nothing_back(stage: Stage) -> None:
    name, other = stage.quiet.pop(), stage.quiet.pop()
    with stage.unshaken(drifted=[name]):
        replayed = stage.proxy.add(NODES_WATCH, replay(after_lines=4), nth=1)
        stage.drift(name)  # this line and that of the repair will be among them
        stage.wait_repaired(name)
        for value in ("once", "twice"):
            stage.touch(other, value)
        stage.proxy.wait_for(lambda each: "replay" in each.actions)
        holds(lambda: stage.is_repaired(name), seconds=1)
    assert replayed.hits == 1


def test_an_old_deletion_of_a_node_that_is_there_is_not_believed(stage: Stage) -> None:
    name, other = stage.quiet.pop(), stage.quiet.pop()
    seen: list[bytes] = []
    stage.wait_watching("nodes")
    with stage.proxy.add(NODES_WATCH, alter(kept_in(seen), where=event("MODIFIED", name=name))):
        for value in ("then", "now"):
            stage.touch(name, value)
        eventually(lambda: len(seen) >= 2, what="two lines about the node")
    with stage.unshaken(drifted=[other]):
        stage.proxy.add(NODES_WATCH, insert(seen[0].replace(b"MODIFIED", b"DELETED", 1)), nth=1)
        stage.drift(other)  # the pass that repairs it reports how many nodes there are
    stage.world.wait_up_to_date(stage.pool, nodes=stage.nodes)


def test_a_lost_line_about_a_node_is_made_up_for_by_the_next_list(stage: Stage) -> None:
    name, other = stage.quiet.pop(), stage.quiet.pop()
    with stage.unshaken(drifted=[name, other]):
        with stage.proxy.add(NODES_WATCH, drop(where=event("MODIFIED", name=name))) as lost:
            stage.drift(name)
            stage.drift(other)
            stage.wait_repaired(other)
            assert not stage.is_repaired(name)
        stage.expire()
    assert lost.hits == 1


def test_a_new_node_that_the_watch_is_silent_about_is_taken_in_after_the_next_list(stage: Stage) -> None:
    """The control plane goes on writing to a new node: a write of ours may come too late, and once more."""
    name = f"ghost-{stage.world.suffix}"
    silent = drop(where=event("ADDED", "MODIFIED", name=name))
    with stage.proxy.add(NODES_WATCH, silent) as lost, an_extra_node(stage, name):
        eventually(lambda: lost.hits, what="the line is lost")
        assert stage.world.status(stage.pool)["nodes"] == stage.nodes
        assert POOL_LABEL not in labels_of(stage.world.node(name))
        stage.expire()
        eventually(lambda: POOL_LABEL in labels_of(stage.world.node(name)), what="the new node taken in")
        stage.world.wait_written(stage.pool, nodes=stage.nodes + 1)


def test_a_node_that_goes_without_a_word_is_missed_in_the_next_list(stage: Stage) -> None:
    name = f"ghost-{stage.world.suffix}"
    with stage.proxy.add(NODES_WATCH, drop(where=event("DELETED", name=name))) as lost:
        with an_extra_node(stage, name):
            stage.world.wait_written(stage.pool, nodes=stage.nodes + 1)
        eventually(lambda: lost.hits, what="the line is lost")
        assert stage.world.status(stage.pool)["nodes"] == stage.nodes + 1
        stage.expire()
        stage.wait_counted(stage.nodes)
    stage.world.wait_up_to_date(stage.pool, nodes=stage.nodes)


@contextmanager
def an_extra_node(stage: Stage, name: str) -> Iterator[None]:
    """Create a Windows node of this world that has no kubelet, for as long as the context lasts."""
    labels = {OS_LABEL: OS_WINDOWS, **stage.world.selector}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
    stage.world.kubectl("create", "-f", "-", stdin=json.dumps(node))
    try:
        yield
    finally:
        stage.world.kubectl("delete", "node", name)
