"""A node whose owner is not known: when that is decided, and what comes of it then."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from harness.builders import NOON, a_node, a_pool, a_record, a_snapshot, with_guard, with_status
from winpool.decide import decide
from winpool.model.node import Node
from winpool.model.snapshot import Snapshot

SOON = NOON + timedelta(seconds=302)


def stranger(name: str, *, uid: str = "stranger", guard: str | None = None) -> Node:
    return a_node(name, annotations=a_record(uid) if guard is None else a_record(uid, guard=guard))


def deciding(snapshot: Snapshot, **moments: datetime) -> Snapshot:
    return replace(snapshot, others=replace(snapshot.others, decided_at=moments))


def fixes(snapshot: Snapshot) -> list[str]:
    issues = decide(snapshot).status.issues
    return [issue.fix for issue in issues if issue.reason == "OwnerUnknown"]


def test_the_issue_says_when_the_node_is_taken_over() -> None:
    snapshot = deciding(a_snapshot(a_pool(), [stranger("w1")]), stranger=SOON)
    (fix,) = fixes(snapshot)
    assert "2026-11-01T12:05:02Z" in fix
    assert "takes over the nodes" in fix


def test_it_says_so_before_the_first_list_too() -> None:
    (fix,) = fixes(a_snapshot(a_pool(), [stranger("w1")]))
    assert fix


def test_it_stays_the_same_as_time_goes_by() -> None:
    """Or the status of a pool that waits would be written in every pass (P2)."""
    snapshot = deciding(a_snapshot(a_pool(), [stranger("w1")]), stranger=SOON)
    later = replace(snapshot, now=NOON + timedelta(minutes=20))
    assert fixes(snapshot) == fixes(later)


def test_owners_that_are_decided_on_at_different_times_are_one_issue_with_the_last_time() -> None:
    nodes = [stranger("w1"), stranger("w2", uid="another"), stranger("w3", uid="not-asked-about")]
    snapshot = deciding(a_snapshot(a_pool(), nodes), stranger=SOON, another=SOON + timedelta(minutes=1))
    (fix,) = fixes(snapshot)
    assert "12:06:02" in fix


def test_a_kubelet_that_names_another_owner_each_time_changes_no_message() -> None:
    pool, found = a_pool(), set[tuple[str, datetime]]()
    for number in range(4):
        seconds = timedelta(seconds=number)
        node = stranger("w1", uid=f"owner-{number}", guard="")
        snapshot = a_snapshot(pool, [node], now=NOON + seconds)
        status = decide(deciding(snapshot, **{f"owner-{number}": SOON + seconds})).status
        pool = with_status(pool, status)
        found |= {(each.message, each.since) for each in status.issues if each.reason == "OwnerUnknown"}
    assert len(found) == 1


def test_no_takeover_is_announced_by_a_record_that_nothing_vouches_for() -> None:
    unbelieved = stranger("w1", guard="")
    (fix,) = fixes(deciding(a_snapshot(a_pool(), [unbelieved]), stranger=SOON))
    assert "2026-11-01T12:05:02Z" in fix
    assert "takes over the nodes" not in fix


def test_while_the_guard_cannot_be_looked_at_the_record_may_still_count() -> None:
    snapshot = with_guard(a_snapshot(a_pool(), [stranger("w1")]), identity="", is_unknown=True)
    (fix,) = fixes(deciding(snapshot, stranger=SOON))
    assert "takes over the nodes" in fix
