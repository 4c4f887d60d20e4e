"""One pass of one pool: what it writes, what it must not, and when the pool is let go."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from harness.builders import (
    Nodes,
    a_node,
    a_pool,
    a_record,
    a_snapshot,
    a_spec,
    deleted,
    edited,
    record_on,
    unreadable,
)
from harness.writes import acted, nothing_is_written, relabelled, retainted, settled
from winpool.api.keys import APPLIED_ANNOTATION, OS_LABEL, POOL_LABEL, RELEASE_FINALIZER
from winpool.decide import decide

LABELS = {"team": "a"}
TAINT = "os=windows:NoSchedule"
OURS = (RELEASE_FINALIZER,)


def on(*names: str, **changes: Any) -> Nodes:
    return {name: a_node(name, **changes) for name in names}


# The finalizer


def test_the_finalizer_comes_with_the_first_write() -> None:
    decision = decide(a_snapshot(a_pool(finalizers=("example.com/keep",)), on("w1")))
    assert decision.writes.finalizers == ("example.com/keep", RELEASE_FINALIZER)
    assert len(decision.writes.patches) == 1


def test_the_finalizer_is_not_written_twice() -> None:
    decision = decide(a_snapshot(a_pool(finalizers=OURS), on("w1")))
    assert decision.writes.finalizers is None
    assert len(decision.writes.patches) == 1


def test_a_pool_without_nodes_gets_no_finalizer() -> None:
    assert nothing_is_written(decide(a_snapshot(a_pool())))


def test_a_pool_under_deletion_gets_no_finalizer_any_more() -> None:
    """The API server refuses new ones then; what stands on nodes is released all the same."""
    _, nodes = settled(a_pool(labels=LABELS), on("w1"))
    decision = decide(a_snapshot(deleted(a_pool(labels=LABELS, finalizers=("example.com/keep",))), nodes))
    assert decision.writes.finalizers is None
    assert len(decision.writes.patches) == 1
    assert not decision.writes.releases_pool


def test_the_finalizer_stays_while_nodes_are_being_released() -> None:
    pool, nodes = settled(a_pool(labels=LABELS), on("w1", "w2"))
    decision = decide(a_snapshot(deleted(pool), nodes))
    assert len(decision.writes.patches) == 2
    assert (decision.writes.finalizers, decision.writes.releases_pool) == (None, False)


def test_the_finalizer_stays_while_a_node_is_held_back() -> None:
    pool, nodes = settled(a_pool(labels=LABELS), on("w1", "w2"))
    first = decide(a_snapshot(deleted(pool), nodes, held_back=[nodes["w1"].uid]))
    assert [patch.node.name for patch in first.writes.patches] == ["w2"]
    after = acted(first, nodes)
    second = decide(a_snapshot(deleted(pool), after, held_back=[nodes["w1"].uid]))
    assert (second.writes.patches, second.writes.finalizers, second.writes.releases_pool) == ((), None, False)
    assert decide(a_snapshot(deleted(pool), after)).writes.patches


@pytest.mark.parametrize("changes", [{"agentpool": "blue"}, {OS_LABEL: "linux"}, {OS_LABEL: None}])
def test_the_finalizer_stays_for_a_node_that_is_not_selected_any_more(changes: dict[str, str | None]) -> None:
    pool, nodes = settled(a_pool(labels=LABELS), on("w1"))
    nodes["w1"] = relabelled(nodes["w1"], **changes)
    decision = decide(a_snapshot(deleted(pool), nodes))
    assert (len(decision.writes.patches), decision.writes.finalizers) == (1, None)


def test_the_finalizer_comes_off_when_nothing_is_left_and_others_stay() -> None:
    pool, nodes = settled(a_pool(labels=LABELS, finalizers=("example.com/keep",)), on("w1"))
    pool = deleted(pool)
    nodes = acted(decide(a_snapshot(pool, nodes)), nodes)
    decision = decide(a_snapshot(pool, nodes))
    assert (decision.writes.patches, decision.writes.finalizers) == ((), ("example.com/keep",))
    assert decision.writes.releases_pool


def test_a_pool_that_is_let_go_is_let_go_once() -> None:
    pool = deleted(a_pool(finalizers=("example.com/keep",)))
    decision = decide(a_snapshot(pool, on("w1")))
    assert nothing_is_written(decision)
    assert not decision.writes.releases_pool


def test_a_living_pool_keeps_its_finalizer_while_something_of_it_is_on_a_node() -> None:
    pool, nodes = settled(a_pool(labels=LABELS), on("w1"))
    for now in (pool, unreadable(pool), edited(pool, a_spec(labels=LABELS, mode="Paused"))):
        assert decide(a_snapshot(now, nodes)).writes.finalizers is None


@pytest.mark.parametrize("mode", ["Active", "Paused", "DryRun", "unreadable"])
def test_a_finalizer_that_was_removed_comes_back_while_something_of_the_pool_is_on_a_node(mode: str) -> None:
    pool, nodes = settled(a_pool(labels=LABELS), on("w1", "w2"))
    stripped = replace(
        unreadable(pool) if mode == "unreadable" else edited(pool, a_spec(labels=LABELS, mode=mode)),
        finalizers=("example.com/keep",),
    )
    decision = decide(a_snapshot(stripped, nodes))
    assert decision.writes.finalizers == ("example.com/keep", RELEASE_FINALIZER)
    assert decision.writes.restores_finalizer
    assert decision.writes.patches == ()


def test_a_finalizer_comes_back_for_a_node_that_has_no_record_any_more_but_the_label() -> None:
    pool, nodes = settled(a_pool(labels=LABELS, mode="Active"), on("w1"))
    nodes["w1"] = replace(nodes["w1"], annotations={})
    paused = replace(edited(pool, a_spec(labels=LABELS, mode="Paused")), finalizers=())
    assert decide(a_snapshot(paused, nodes)).writes.finalizers == OURS


def test_a_finalizer_does_not_come_back_for_what_another_pool_has_on_nodes() -> None:
    rival = a_pool("rival")
    node = a_node("w1", annotations=a_record(rival.uid), labels={POOL_LABEL: "rival"})
    assert decide(a_snapshot(a_pool(labels=LABELS), [node], rivals=[rival])).writes.finalizers is None


def test_a_finalizer_that_comes_for_the_first_time_is_not_put_back() -> None:
    decision = decide(a_snapshot(a_pool(), on("w1")))
    assert (decision.writes.finalizers, decision.writes.restores_finalizer) == (OURS, False)


# What keeps it from writing


@pytest.mark.parametrize("mode", ["Paused", "DryRun"])
def test_nothing_is_written_to_nodes_in_dry_run_and_paused(mode: str) -> None:
    pool, nodes = settled(a_pool(labels=LABELS, taints=[TAINT]), on("w1", "w2", "w3"))
    nodes["w1"] = relabelled(nodes["w1"], team="x")
    nodes["w2"] = relabelled(nodes["w2"], agentpool="blue")
    nodes |= on("new")
    held = edited(pool, a_spec(labels={"team": "b"}, mode=mode))
    assert nothing_is_written(decide(a_snapshot(held, nodes)))


@pytest.mark.parametrize("mode", ["Active", "Paused", "DryRun"])
def test_deleting_a_pool_undoes_in_every_mode(mode: str) -> None:
    before = on("w1", "w2", labels={"team": "x"}, taints=["os=linux:NoSchedule"])
    pool, nodes = settled(a_pool(labels=LABELS, taints=[TAINT]), before)
    assert nodes != before
    pool = deleted(edited(pool, a_spec(mode=mode)))
    assert acted(decide(a_snapshot(pool, nodes)), nodes) == before


def test_deleting_a_pool_whose_spec_cannot_be_read_undoes_too() -> None:
    before = on("w1", labels={"team": "x"})
    pool, nodes = settled(a_pool(labels=LABELS), before)
    assert acted(decide(a_snapshot(deleted(unreadable(pool)), nodes)), nodes) == before


def test_nothing_is_written_for_a_spec_that_cannot_be_read() -> None:
    pool, nodes = settled(a_pool(labels=LABELS), on("w1", "w2"))
    nodes["w1"] = relabelled(nodes["w1"], team="x")
    nodes["w2"] = relabelled(nodes["w2"], agentpool="blue")
    assert nothing_is_written(decide(a_snapshot(unreadable(pool), nodes | on("new"))))


def test_nothing_is_written_to_a_node_of_an_unknown_owner() -> None:
    nodes = on("w1", annotations=a_record("stranger"), labels={POOL_LABEL: "stranger"})
    assert nothing_is_written(decide(a_snapshot(a_pool(labels=LABELS), nodes)))
    assert nothing_is_written(decide(a_snapshot(deleted(a_pool(labels=LABELS)), nodes)))


def test_a_node_of_a_vanished_owner_is_taken_over_and_its_things_come_off() -> None:
    old = a_pool("old", labels={"team": "old", "example.com/tier": "x"}, taints=["gpu:NoSchedule"])
    before = on("w1", labels={"team": "x"})
    _, nodes = settled(old, before)
    new = a_pool("new", labels=LABELS)
    assert nothing_is_written(decide(a_snapshot(new, nodes)))
    after = acted(decide(a_snapshot(new, nodes, vanished=[old.uid])), nodes)
    assert after == acted(decide(a_snapshot(new, before)), before)


def test_the_name_of_a_vanished_owner_does_not_matter() -> None:
    old, new = a_pool("pool", uid="first", labels={"example.com/tier": "x"}), a_pool("pool", uid="second")
    before = on("w1")
    _, nodes = settled(old, before)
    after = acted(decide(a_snapshot(new, nodes, vanished=["first"])), nodes)
    assert record_on(after["w1"]).pool_uid == "second"
    assert "example.com/tier" not in after["w1"].labels


def test_a_node_is_not_taken_while_its_owner_has_it() -> None:
    leaving, nodes = settled(a_pool("leaving", labels=LABELS), on("w1"))
    coming = a_pool("coming")
    assert nothing_is_written(decide(a_snapshot(coming, nodes, rivals=[deleted(leaving)])))
    nodes = acted(decide(a_snapshot(deleted(leaving), nodes, rivals=[coming])), nodes)
    assert len(decide(a_snapshot(coming, nodes, rivals=[deleted(leaving)])).writes.patches) == 1


def test_a_node_that_has_left_is_released_while_the_others_stay() -> None:
    before = on("w1", "w2", labels={"team": "x"})
    pool, nodes = settled(a_pool(labels=LABELS), before)
    nodes["w1"] = relabelled(nodes["w1"], agentpool="blue")
    after = acted(decide(a_snapshot(pool, nodes)), nodes)
    assert after["w1"] == relabelled(before["w1"], agentpool="blue")
    assert after["w2"] == nodes["w2"]


def test_a_node_that_is_held_back_is_not_written_and_the_others_are() -> None:
    nodes = on("w1", "w2")
    decision = decide(a_snapshot(a_pool(), nodes, held_back=[nodes["w1"].uid]))
    assert [patch.node.name for patch in decision.writes.patches] == ["w2"]


def test_a_node_without_anything_to_write_is_left_out() -> None:
    pool, nodes = settled(a_pool(labels=LABELS), on("w1"))
    decision = decide(a_snapshot(pool, nodes | on("w2")))
    assert [patch.node.name for patch in decision.writes.patches] == ["w2"]


@pytest.mark.parametrize(
    "record", [{}, a_record("uid-of-pool"), a_record("stranger"), {APPLIED_ANNOTATION: "{"}]
)
@pytest.mark.parametrize("os", ["linux", "Windows", "", None])
def test_a_node_that_is_not_windows_is_not_written_while_its_pool_exists(
    os: str | None, record: dict[str, str]
) -> None:
    """Whose record it ever has: its kubelet can have changed the label of the system (P3)."""
    before = a_node(os=os, labels={"team": "x"}, taints=["os=linux:NoSchedule"], annotations=record)
    pool = a_pool(
        labels=LABELS,
        taints=[TAINT],
        selector={"matchExpressions": [{"key": "agentpool", "operator": "Exists"}]},
    )
    assert nothing_is_written(decide(a_snapshot(pool, [before])))


# Neighbours


def test_what_others_undo_is_put_back_and_what_they_add_stays() -> None:
    pool, nodes = settled(a_pool(labels=LABELS, taints=[TAINT]), on("w1", taints=["a=b:NoSchedule"]))
    want = nodes["w1"]
    torn = retainted(
        relabelled(want, team=None, theirs="1", **{POOL_LABEL: "x"}), "c=d:NoExecute", "a=b:NoSchedule"
    )
    node = acted(decide(a_snapshot(pool, {"w1": torn})), {"w1": torn})["w1"]
    assert node.labels == {**want.labels, "theirs": "1"}
    assert [taint.key for taint in node.taints] == ["c", "a", "os"]
    assert node.annotations == want.annotations


def test_a_record_that_was_removed_is_begun_anew_and_what_stands_there_counts_as_foreign() -> None:
    pool, nodes = settled(a_pool(labels=LABELS), on("w1"))
    bare = replace(nodes["w1"], annotations={})
    node = acted(decide(a_snapshot(pool, {"w1": bare})), {"w1": bare})["w1"]
    assert record_on(node).labels == {}
    assert node.labels == nodes["w1"].labels


def test_every_patch_carries_the_version_of_the_node_that_was_read() -> None:
    node = replace(a_node(), resource_version="4711")
    (patch,) = decide(a_snapshot(a_pool(), [node])).writes.patches
    assert patch.node.resource_version == "4711"
