"""What an ownership record permits: all it says where it was written under the guard, else little (P3)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.builders import (
    GUARD,
    NOON,
    a_node,
    a_pool,
    a_record,
    a_snapshot,
    a_spec,
    a_taint,
    deleted,
    edited,
    record_on,
    with_guard,
    with_status,
)
from harness.strategies import PROTECTED_LABELS, PROTECTED_TAINTS, haunted_nodes, pools
from harness.writes import acted, patched, relabelled, retainted
from winpool.api.keys import APPLIED_ANNOTATION, OS_LABEL, POOL_LABEL, RELEASE_FINALIZER
from winpool.api.status import WindowsNodePoolStatus
from winpool.decide import decide
from winpool.model.node import Keys, Node, NodeCondition
from winpool.model.pool import Pool
from winpool.ownership.leftovers import release_orphan, release_stray
from winpool.ownership.members import Claim, Claimed, claim
from winpool.ownership.record import MAX_BYTES, Owned, Record, Unreadable, parse, record_of, render
from winpool.ownership.trust import RecordTrust, keys_of, keys_to_remember

RESTRICTED = "example.node-restriction.kubernetes.io/zone"
GPU = a_taint("gpu=yes:NoExecute")
UID = "uid-of-pool"

MAX_KEYS = 64
MAX_KEYS_AMID_EDIT = 128


def forged(*, guard: str = "", uid: str = UID) -> Node:
    """Return a node whose kubelet claims a foreign taint and a label that it may not set itself."""
    record = a_record(
        uid,
        labels={RESTRICTED: Owned("a", before="evil")},
        taints={GPU.identity: Owned("yes", before="evil")},
        guard=guard,
    )
    return a_node(labels={RESTRICTED: "a"}, taints=[GPU], annotations=record)


def after_pass(node: Node, pool: Pool, *, guard: str = "") -> Node:
    return acted(decide(a_snapshot(pool, [node], guard=guard)), {node.name: node})[node.name]


@pytest.mark.parametrize("guard", ["", GUARD, "another-guard"])
@pytest.mark.parametrize("fate", [lambda pool: pool, deleted])
def test_a_forged_record_moves_nothing_that_the_pool_does_not_ask_for(guard: str, fate: object) -> None:
    assert callable(fate)
    after = after_pass(forged(guard="stolen"), fate(a_pool()), guard=guard)
    assert (after.labels[RESTRICTED], after.taints) == ("a", (GPU,))


def test_the_same_record_written_under_the_guard_counts_as_it_stands() -> None:
    after = after_pass(forged(guard=GUARD), deleted(a_pool()), guard=GUARD)
    assert (after.labels[RESTRICTED], after.taints) == ("evil", (a_taint("gpu=evil:NoExecute"),))


def test_what_stood_before_us_on_taints_and_restricted_labels_is_not_believed() -> None:
    pool = a_pool(labels={RESTRICTED: "a"}, taints=["gpu=yes:NoExecute"])
    after = after_pass(forged(), deleted(pool))
    assert (RESTRICTED in after.labels, after.taints) == (False, ())


def test_what_stood_before_us_on_a_label_of_the_kubelet_comes_back() -> None:
    """It could write it there itself."""
    record = a_record(labels={"team": Owned("a", before="b")}, guard="")
    node = a_node(labels={"team": "a"}, annotations=record)
    assert after_pass(node, deleted(a_pool(labels={"team": "a"}))).labels["team"] == "b"


def test_what_is_left_alone_is_told_with_the_command_that_removes_it() -> None:
    [issue] = [
        each
        for each in decide(a_snapshot(a_pool(), [forged()], guard="")).status.issues
        if each.reason == "KeysLeftAlone"
    ]
    assert f"label {RESTRICTED}, taint gpu:NoExecute" in issue.message
    assert f"kubectl label node w1 {RESTRICTED}-; kubectl taint node w1 gpu:NoExecute-" in issue.fix


def test_a_record_that_loses_its_claims_for_good_has_an_event_that_says_so() -> None:
    for pool, guard in ((a_pool(), GUARD), (deleted(a_pool()), "")):
        decision = decide(a_snapshot(pool, [forged()], guard=guard))
        event = decision.node_events["w1"]
        assert (event.reason, "kubectl taint node w1 gpu:NoExecute-" in event.note) == ("KeysLeftAlone", True)


# The guard comes


def test_when_the_guard_comes_each_record_is_written_once_and_names_it() -> None:
    pool = a_pool(labels={"team": "a"}, taints=["os=windows:NoSchedule"])
    node = after_pass(a_node(labels={"team": "b"}), pool)
    assert record_on(node).guard == ""
    [patch] = decide(a_snapshot(pool, [node])).writes.patches
    assert patch.annotations.keys() == {APPLIED_ANNOTATION}
    assert (patch.labels, patch.taints) == ({}, None)
    guarded = patched(node, patch)
    assert record_on(guarded) == replace(record_on(node), guard=GUARD)
    assert decide(a_snapshot(pool, [guarded])).writes.patches == ()


def test_a_record_of_today_without_a_guard_is_left_as_it_is_while_there_is_none() -> None:
    pool = a_pool(labels={"team": "a"})
    node = after_pass(a_node(), pool)
    assert "guard" not in node.annotations[APPLIED_ANNOTATION]
    assert decide(a_snapshot(pool, [node], guard="")).writes.patches == ()


def test_a_record_of_a_guard_that_went_is_not_written_anew_for_that() -> None:
    pool = a_pool(labels={"team": "a"})
    node = after_pass(a_node(), pool, guard=GUARD)
    assert decide(a_snapshot(pool, [node], guard="")).writes.patches == ()


def test_with_the_guard_the_record_keeps_what_the_pool_has_set_and_drops_what_it_has_not() -> None:
    pool = a_pool(taints=["os=windows:NoSchedule"])
    ours = Owned("windows", before="linux")
    record = a_record(taints={("os", "NoSchedule"): ours, GPU.identity: Owned("yes")}, guard="")
    node = a_node(labels={POOL_LABEL: "pool"}, taints=["os=windows:NoSchedule", GPU], annotations=record)
    after = after_pass(node, pool, guard=GUARD)
    left = Keys(taints=frozenset({GPU.identity}))
    kept = {("os", "NoSchedule"): Owned("windows")}
    assert record_on(after) == Record(UID, taints=kept, guard=GUARD, left=left)
    assert GPU in after.taints


def test_as_long_as_there_is_no_guard_the_record_goes_on_to_name_what_is_doubted() -> None:
    after = after_pass(forged(), a_pool(labels={"team": "a"}))
    assert record_on(after).labels.keys() == {RESTRICTED, "team"}
    assert record_on(after).taints.keys() == {GPU.identity}


@pytest.mark.parametrize("guard", ["x" * 65, 7, None, "é", ["a"]])
def test_a_guard_that_cannot_be_one_is_none(guard: object) -> None:
    found = parse(json.dumps({"v": 1, "guard": guard, "pool": UID, "labels": {}, "taints": []}))
    assert isinstance(found, Record)
    assert found.guard == ""


# What a pool remembers


def test_keys_are_remembered_before_the_first_node_is_written() -> None:
    decision = decide(a_snapshot(a_pool(labels={"team": "a"}, taints=["os:NoSchedule"]), [a_node()]))
    assert decision.writes.status_first
    assert decision.status.set_keys is not None
    assert decision.status.set_keys.labels == ("team",)
    assert decision.status.set_keys.taints == ("os:NoSchedule",)


def test_a_key_that_left_the_spec_while_nobody_looked_comes_off_without_a_guard_too() -> None:
    pool = a_pool(labels={"team": "a"}, taints=["os:NoSchedule"])
    first = decide(a_snapshot(pool, [a_node()], guard=""))
    node = acted(first, {"w1": a_node()})["w1"]
    later = edited(with_status(pool, first.status), a_spec())
    after = after_pass(node, later)
    assert ("team" in after.labels, after.taints) == (False, ())
    assert decide(a_snapshot(later, [after], guard="")).status.set_keys == first.status.set_keys


def test_with_the_memory_lost_what_only_the_record_names_stays_and_is_told() -> None:
    node = after_pass(a_node(), a_pool(taints=["os:NoSchedule"]))
    decision = decide(a_snapshot(a_pool(), [node], guard=""))
    after = acted(decision, {"w1": node})["w1"]
    assert after.taints == node.taints
    assert "KeysLeftAlone" in {issue.reason for issue in decision.status.issues}


def remembering(*labels: str) -> WindowsNodePoolStatus:
    return WindowsNodePoolStatus.model_validate({"setKeys": {"labels": labels}})


def test_more_keys_than_there_is_room_for_go_first_that_no_node_names() -> None:
    old = [f"old-{number:03}" for number in range(MAX_KEYS)]
    node = a_node(annotations=a_record(labels={old[-1]: Owned("x")}))
    pool = a_pool(labels={"team": "a"}, status=remembering(*old))
    kept = keys_to_remember(pool, nodes=[node])
    assert kept.count == MAX_KEYS
    assert {"team", old[-1]} <= kept.labels
    assert old[-2] not in kept.labels


@given(pools(), st.sets(st.sampled_from([f"k{n}" for n in range(80)]), max_size=64))
def test_the_keys_of_the_spec_always_have_their_place(pool: Pool, old: set[str]) -> None:
    pool = with_status(pool, remembering(*sorted(old)))
    kept = keys_to_remember(pool, nodes=())
    assert pool.spec is not None
    assert set(pool.spec.labels) <= kept.labels
    assert {taint.identity for taint in pool.spec.taints} <= kept.taints
    assert kept.count <= MAX_KEYS
    assert not kept - keys_of(pool)


def test_amid_an_edit_of_all_keys_there_is_room_for_twice_as_many_that_nodes_still_carry() -> None:
    old = [f"old-{number:03}" for number in range(100)]
    node = a_node(annotations=a_record(labels={each: Owned("x") for each in old}))
    labels = {f"new-{number:02}": "x" for number in range(32)}
    taints = [{"key": f"new-{number:02}", "effect": "NoSchedule"} for number in range(32)]
    pool = a_pool(labels=labels, more={"taints": taints[:16], "startupTaints": taints[16:]})
    kept = keys_to_remember(with_status(pool, remembering(*old)), nodes=[node])
    assert kept.count == MAX_KEYS_AMID_EDIT
    assert kept.labels.issuperset(labels)
    assert len(kept.taints) == 32


def test_a_paused_pool_remembers_nothing_that_it_has_not_set() -> None:
    pool = a_pool(labels={"team": "a"}, mode="Paused")
    assert decide(a_snapshot(pool, [a_node()])).status.set_keys is None


# Owners


SEEN = {UID: Keys(taints=frozenset({GPU.identity}))}


@pytest.mark.parametrize("os", ["linux", None])
def test_a_stray_whose_owner_was_never_seen_is_left_as_it_is(os: str | None) -> None:
    stray = relabelled(forged(uid="invented"), **{OS_LABEL: os, POOL_LABEL: "pool"})
    for guard in ("", GUARD):
        found = release_stray(
            stray, is_let_go=lambda _: True, rights=RecordTrust(guard=guard, pools=SEEN), now=NOON
        )
        assert (found.patch, found.left_alone is not None) == (None, True)


def test_a_stray_of_a_pool_that_was_seen_loses_what_that_pool_has_set_and_no_more() -> None:
    stray = relabelled(forged(), **{OS_LABEL: "linux"})
    after = patched(
        stray, release_stray(stray, is_let_go=lambda _: True, rights=RecordTrust(pools=SEEN), now=NOON).patch
    )
    assert (after.labels[RESTRICTED], after.taints, after.annotations) == ("a", (), {})


def test_an_orphan_whose_owner_was_never_seen_is_left_as_it_is() -> None:
    node = relabelled(forged(uid="invented"), agentpool="of-nobody")
    found = release_orphan(node, pools=(), is_vanished=lambda _: True, rights=RecordTrust(guard=GUARD))
    assert (found.patch, found.left_alone is not None) == (None, True)


def claimed(node: Node, pool: Pool, *, vanished: str, rights: RecordTrust) -> Claimed:
    """Return the claim of ``pool``, the only one, to a node that it selects."""
    return claim(
        node,
        found=record_of(node),
        pool=pool,
        selecting={pool.uid},
        asking=(pool,),
        owners={pool.uid: pool},
        vanished=(vanished,),
        rights=rights,
    )


@pytest.mark.parametrize(
    ("rights", "guard", "expected"),
    [
        (RecordTrust(), "", Claim.UNKNOWN),
        (RecordTrust(guard=GUARD), "", Claim.UNKNOWN),
        (RecordTrust(guard=GUARD), GUARD, Claim.OURS),
        (RecordTrust(pools={"gone": Keys()}), "", Claim.OURS),
    ],
)
def test_a_node_is_taken_over_only_from_an_owner_that_was_a_pool(
    rights: RecordTrust, guard: str, expected: Claim
) -> None:
    node = forged(uid="gone", guard=guard)
    found = claimed(node, a_pool(), vanished="gone", rights=rights)
    assert found.claim is expected
    assert found.is_gone is (expected is Claim.UNKNOWN)


def test_an_invented_owner_is_told_with_the_command_that_ends_it() -> None:
    decision = decide(a_snapshot(a_pool(), [forged(uid="gone")], guard="", vanished=("gone",)))
    [issue] = [each for each in decision.status.issues if each.reason == "OwnerUnknown"]
    assert f"kubectl annotate node w1 {APPLIED_ANNOTATION}-" in issue.fix
    assert decision.writes.patches == ()


# Whatever a kubelet writes


@given(haunted_nodes(), pools(), st.sampled_from(("", "new-guard")), st.booleans())
def test_no_record_that_a_kubelet_can_write_moves_what_the_pool_never_set(
    haunted: Node, pool: Pool, guard: str, is_deleting: bool
) -> None:
    """The guard that comes has an identity that nobody could know before."""
    pool = deleted(pool) if is_deleting else pool
    node, asked = haunted, keys_of(pool)
    for _ in range(2):
        node = after_pass(node, pool, guard=guard)
    assert {key: node.labels.get(key) for key in PROTECTED_LABELS} == {
        key: haunted.labels.get(key) for key in PROTECTED_LABELS
    }
    assert [taint for taint in node.taints if taint in PROTECTED_TAINTS] == [
        taint for taint in haunted.taints if taint in PROTECTED_TAINTS
    ]
    was = {taint.identity: taint.value for taint in haunted.taints}
    for taint in node.taints:
        asked_value = {each.identity: each.value for each in (pool.spec.taints if pool.spec else ())}
        assert taint.value in {was.get(taint.identity), asked_value.get(taint.identity)}
    assert {key for key in haunted.labels if key not in node.labels} <= {*asked.labels, POOL_LABEL}


# The guard cannot be looked at


def guarded_node(pool: Pool) -> Node:
    """Return a node of the pool with a record that names the guard, and a taint that gave way to ours."""
    return after_pass(a_node(taints=["os=linux:NoSchedule"]), pool, guard=GUARD)


def test_while_nobody_knows_of_the_guard_a_record_that_names_it_loses_nothing() -> None:
    pool = a_pool(labels={"team": "a"}, taints=["os=windows:NoSchedule"])
    whole = guarded_node(pool)
    drifted = relabelled(whole, team="theirs")
    for unknown in (False, True):
        snapshot = with_guard(a_snapshot(pool, [drifted], guard=""), is_unknown=unknown)
        mended = acted(decide(snapshot), {"w1": drifted})["w1"]
        assert mended.labels["team"] == "a"
        assert record_on(mended) == record_on(whole)


def test_nothing_is_released_by_a_record_that_names_a_guard_until_the_guard_can_be_looked_at() -> None:
    pool = a_pool(taints=["os=windows:NoSchedule"], finalizers=("winpool.dev/release-nodes",))
    node = guarded_node(pool)
    snapshot = with_guard(a_snapshot(deleted(pool), [node], guard=""), is_unknown=True)
    decision = decide(snapshot)
    assert (decision.writes.patches, decision.writes.finalizers) == ((), None)
    after = acted(decide(with_guard(snapshot, identity=GUARD, is_unknown=False)), {"w1": node})["w1"]
    assert after.taints == (a_taint("os=linux:NoSchedule"),)


def test_nor_is_what_a_pool_left_that_is_gone() -> None:
    node = guarded_node(a_pool(taints=["os=windows:NoSchedule"]))
    rights = RecordTrust(pools={UID: Keys(taints=frozenset({("os", "NoSchedule")}))}, is_unknown=True)
    stray = relabelled(node, **{OS_LABEL: "linux"})
    assert release_stray(stray, is_let_go=lambda _: True, rights=rights, now=NOON).patch is None
    other = a_pool("other", uid="other")
    found = claimed(node, other, vanished=UID, rights=rights)
    assert (found.claim, found.is_gone) == (Claim.UNKNOWN, False), "nobody is told to take the record off"
    orphan = relabelled(node, agentpool="of-nobody")
    kept = release_orphan(orphan, pools=(), is_vanished=lambda _: True, rights=rights)
    assert (kept.patch, kept.is_doubted) == (None, False)


# What goes on being told


def test_what_a_record_may_have_forged_is_told_as_long_as_it_stands_also_under_the_guard() -> None:
    pool, node = a_pool(), after_pass(forged(), a_pool(), guard=GUARD)
    assert record_on(node).left == Keys(frozenset({RESTRICTED}), frozenset({GPU.identity}))
    assert (record_on(node).labels, record_on(node).taints) == ({}, {})
    decision = decide(a_snapshot(pool, [node]))
    assert decision.writes.patches == ()
    [issue] = [each for each in decision.status.issues if each.reason == "KeysLeftAlone"]
    assert f"kubectl label node w1 {RESTRICTED}-" in issue.fix
    gone = relabelled(retainted(node), **{RESTRICTED: None})
    last = decide(a_snapshot(pool, [gone]))
    assert "KeysLeftAlone" not in {each.reason for each in last.status.issues}
    assert not record_on(acted(last, {"w1": gone})["w1"]).left


def test_what_is_left_alone_gives_no_right() -> None:
    node = after_pass(forged(), a_pool(), guard=GUARD)
    after = after_pass(node, deleted(a_pool()), guard=GUARD)
    assert (after.labels[RESTRICTED], after.taints) == ("a", (GPU,))


def test_of_a_record_that_would_be_too_long_what_is_left_alone_is_left_out() -> None:
    many = {f"example.com/{number:04}-{'x' * 50}": Owned("a") for number in range(150)}
    node = a_node(labels=dict.fromkeys(many, "a"), annotations=a_record(labels=many, guard=""))
    long = {f"example.org/{number:02}-{'y' * 50}": "b" * 63 for number in range(32)}
    after = after_pass(node, a_pool(labels=long), guard=GUARD)
    assert record_on(after).labels.keys() == long.keys()


def test_an_edit_of_all_keys_forgets_none_that_stands_on_a_node() -> None:
    old = a_spec(
        labels={f"old-{n}": "x" for n in range(32)}, taints=[f"old-{n}:NoSchedule" for n in range(16)]
    )
    new = a_spec(
        labels={f"new-{n}": "x" for n in range(32)}, taints=[f"new-{n}:NoSchedule" for n in range(16)]
    )
    pool = replace(a_pool(), spec=old)
    first = decide(a_snapshot(pool, [a_node()], guard=""))
    node, pool = acted(first, {"w1": a_node()})["w1"], edited(with_status(pool, first.status), new)
    second = decide(a_snapshot(pool, [node], guard=""))
    assert second.writes.status_first
    node = after_pass(node, with_status(pool, second.status))
    assert not [key for key in node.labels if key.startswith("old-")]
    assert not [taint for taint in node.taints if taint.key.startswith("old-")]


def test_a_uid_longer_than_any_is_none() -> None:
    found = parse(json.dumps({"v": 1, "pool": "x" * 65, "labels": {}, "taints": []}))
    assert isinstance(found, Unreadable)


def test_a_forged_record_as_long_as_may_be_costs_the_pool_nothing_of_its_own() -> None:
    many = {f"example.com/{number:04}-{'x' * 50}": Owned("a") for number in range(165)}
    node = a_node(labels=dict.fromkeys(many, "a"), annotations=a_record(labels=many, guard=""))
    pool = a_pool(labels={f"example.org/{number:02}": "b" * 63 for number in range(32)})
    assert 15_000 < len(node.annotations[APPLIED_ANNOTATION]) <= MAX_BYTES
    for guard in ("", GUARD):
        after = after_pass(node, pool, guard=guard)
        assert record_on(after).labels.keys() == keys_of(pool).labels
        assert after_pass(after, deleted(pool), guard=guard).labels == node.labels


def forging_a_condition() -> Node:
    """Return a node whose kubelet says in its record that a condition which it wrote itself is ours."""
    forged = render(Record(pool_uid=UID, conditions=frozenset({"Drained"})))
    node = a_node(annotations={APPLIED_ANNOTATION: forged}, labels={POOL_LABEL: "pool"})
    return replace(node, conditions=(NodeCondition("Drained", "True"),))


def test_a_forged_record_has_us_write_no_conditions() -> None:
    """The right to write them may be missing, and then the whole pool would stop at one node."""
    node = forging_a_condition()
    assert decide(a_snapshot(a_pool(), [node], guard="")).writes.conditions == ()
    assert decide(a_snapshot(a_pool(), [node], guard=GUARD)).writes.conditions == ()


def test_a_forged_record_keeps_no_pool_waiting_for_conditions() -> None:
    pool = deleted(a_pool(finalizers=(RELEASE_FINALIZER,)))
    decision = decide(a_snapshot(pool, [forging_a_condition()], guard=""))
    assert (decision.writes.conditions, len(decision.writes.patches)) == ((), 1)
