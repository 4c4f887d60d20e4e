"""A kubelet forges the ownership record of its own node, with no guard in force: it gains nothing (P3).

Each record here names the pool that really has the node, so nothing but its content is forged.
"""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from cluster.forging import (
    DEDICATED,
    TENANT,
    a_record,
    a_taint,
    as_kubelet,
    await_told,
    forge,
    is_restricted,
    restrict,
    told,
    uid_of,
)
from harness.nodes import labels_of, taints_of
from harness.waiting import eventually
from harness.world import World
from testbed.kubectl import KubectlError
from winpool.api.keys import APPLIED_ANNOTATION, OS_LABEL

Object = dict[str, Any]

NODE_ROLE: Final = "node-role.kubernetes.io/batch"
OS_TAINT: Final = "os=windows:NoSchedule"
ORDINARY: Final[Object] = {"labels": {"example.com/new": "1"}, "taints": [a_taint(OS_TAINT)]}
LARGE: Final = 70
"""So many labels of 64 characters make a record of 12 KiB; up to 16 are read."""


def test_a_kubelet_may_annotate_its_node_and_may_not_do_what_its_record_asks_for(unguarded: World) -> None:
    """Or the tests below would say nothing."""
    [name] = unguarded.fleet(windows=1)
    restrict(unguarded, [name])
    forge(unguarded, name, a_record("anything"), pool="any")
    no_taints = json.dumps({"spec": {"taints": None}})
    for command in (
        ("label", "node", name, f"{TENANT}=mine", "--overwrite"),
        ("label", "node", name, f"{NODE_ROLE}=mine"),
        ("patch", "node", name, "--type=merge", "-p", no_taints),
    ):
        with pytest.raises(KubectlError, match="is not allowed to modify"):
            as_kubelet(unguarded.testbed, name, *command)


@pytest.mark.nightly
def test_what_a_forged_record_lists_stays_on_apply_edit_and_deletion_and_is_told(unguarded: World) -> None:
    forger, _ = unguarded.fleet(windows=2)
    restrict(unguarded, [forger])
    before = unguarded.carried()
    pool = unguarded.apply(unguarded.pool(**ORDINARY))
    unguarded.operator.start()
    unguarded.wait_up_to_date(pool, nodes=2)
    record = claims_of_ours(unguarded, pool)

    forge(unguarded, forger, record)
    unguarded.apply(unguarded.pool(labels={"example.com/new": "2"}))
    unguarded.wait_up_to_date(pool, nodes=2)
    assert labels_of(unguarded.node(forger))["example.com/new"] == "2"
    assert is_restricted(unguarded, forger)
    assert OS_TAINT not in taints_of(unguarded.node(forger)), "a key of setKeys comes off all the same"

    unguarded.apply(unguarded.pool(labels={"example.com/new": "3"}))
    unguarded.wait_up_to_date(pool, nodes=2)
    assert is_restricted(unguarded, forger)
    await_told(unguarded, pool, node=forger, key=TENANT)
    await_told(unguarded, pool, node=forger, key="example.com/dedicated")

    unguarded.operator.kill()
    forge(unguarded, forger, claims_of_ours(unguarded, pool, new="3"))
    delete_while_down(unguarded, pool)
    assert unguarded.carried() == before


def test_the_command_that_is_told_takes_it_off_and_then_nothing_is_told(unguarded: World) -> None:
    [name] = unguarded.fleet(windows=1)
    restrict(unguarded, [name])
    pool = unguarded.apply(unguarded.pool(**ORDINARY))
    unguarded.operator.start()
    unguarded.wait_up_to_date(pool, nodes=1)
    forge(unguarded, name, claims_of_ours(unguarded, pool))
    keys = (TENANT, "example.com/dedicated")
    for key in keys:
        unguarded.kubectl(*await_told(unguarded, pool, node=name, key=key))
    eventually(
        lambda: not any(told(unguarded, pool, node=name, key=key) for key in keys),
        what="nothing told any more",
    )
    assert TENANT not in labels_of(unguarded.node(name))
    assert taints_of(unguarded.node(name)) == {OS_TAINT}


def test_what_a_forged_record_says_stood_there_before_is_never_put_there(unguarded: World) -> None:
    """The keys are those of the spec, so they come off; a kubelet may not write any of them itself."""
    [name] = unguarded.fleet(windows=1)
    bare = unguarded.carried()
    spec: Object = {"labels": {TENANT: "ours", NODE_ROLE: "ours"}, "taints": [a_taint(OS_TAINT)]}
    pool = unguarded.apply(unguarded.pool(**spec))
    unguarded.operator.start()
    unguarded.wait_up_to_date(pool, nodes=1)
    record = a_record(
        uid_of(unguarded, pool),
        labels={TENANT: ("ours", "bank"), NODE_ROLE: ("ours", "admin")},
        taints={OS_TAINT: "anything"},
    )
    forge(unguarded, name, record)
    unguarded.apply(unguarded.pool(labels={TENANT: "ours"}))
    unguarded.wait_up_to_date(pool, nodes=1)
    eventually(lambda: not taints_of(unguarded.node(name)), what="the taint off, and no other in its place")
    assert NODE_ROLE not in labels_of(unguarded.node(name))
    unguarded.operator.kill()
    forge(unguarded, name, record)
    delete_while_down(unguarded, pool)
    assert unguarded.carried() == bare


def test_a_forged_record_puts_no_words_into_a_command_for_people(unguarded: World) -> None:
    """What the CRD would refuse as a key is neither done nor advised."""
    [name] = unguarded.fleet(windows=1)
    restrict(unguarded, [name])
    pool = unguarded.apply(unguarded.pool(**ORDINARY))
    unguarded.operator.start()
    unguarded.wait_up_to_date(pool, nodes=1)
    listed = [
        {**a_taint(DEDICATED), "before": None},
        {"key": "example.com/x; reboot-evil", "effect": "NoExecute", "value": "", "before": None},
        {"key": "example.com/y", "effect": "NoExecute- reboot-evil", "value": "", "before": None},
        {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "value": "", "before": None},
    ]
    labels = {OS_LABEL: ("windows", None), "example.com/$(reboot-evil)": ("1", "a\nreboot-evil")}
    record = json.loads(a_record(uid_of(unguarded, pool), labels=labels))
    forge(unguarded, name, json.dumps({**record, "taints": listed}))
    eventually(
        lambda: (
            told(unguarded, pool, node=name, key="example.com/dedicated")
            or "OwnershipRecordUnreadable" in json.dumps(unguarded.status(pool))
        ),
        what="the record read, or found unreadable as a whole",
    )
    assert "reboot-evil" not in json.dumps(unguarded.status(pool))
    assert not told(unguarded, pool, node=name, key="kubernetes.io/os")
    assert not told(unguarded, pool, node=name, key="node.kubernetes.io/unreachable")
    unguarded.end_operator()
    assert "reboot-evil" not in json.dumps(unguarded.own_events(kind="WindowsNodePool", name=pool))
    assert "reboot-evil" not in json.dumps(unguarded.own_events(kind="Node", name=name))


def test_a_forged_record_as_large_as_they_come_keeps_neither_status_nor_other_nodes_waiting(
    unguarded: World,
) -> None:
    names = unguarded.fleet(windows=2)
    forger, honest = names
    keys = [f"example.com/{number:02d}{'x' * 50}" for number in range(LARGE)]
    as_kubelet(unguarded.testbed, forger, "label", "node", forger, *(f"{key}=1" for key in keys))
    pool = unguarded.apply(unguarded.pool(**ORDINARY))
    unguarded.operator.start()
    unguarded.wait_up_to_date(pool, nodes=2)
    labels: dict[str, tuple[str, str | None]] = dict.fromkeys(keys, ("1", "y" * 60))
    forge(unguarded, forger, a_record(uid_of(unguarded, pool), labels=labels))
    await_told(unguarded, pool, node=forger, key="example.com/")
    unguarded.apply(unguarded.pool(labels={"example.com/new": "2"}))
    unguarded.wait_up_to_date(pool, nodes=2)
    assert {labels_of(unguarded.node(name))["example.com/new"] for name in names} == {"2"}
    assert labels_of(unguarded.node(forger)).items() >= dict.fromkeys(keys, "1").items()
    unguarded.delete(pool)
    assert labels_of(unguarded.node(forger)).items() >= dict.fromkeys(keys, "1").items()
    assert APPLIED_ANNOTATION not in unguarded.node(honest)["metadata"].get("annotations", {})


# Helpers


def claims_of_ours(world: World, pool: str, *, new: str = "1") -> str:
    """Return a record that gives to the pool what it has set, and what ``restrict`` puts on.

    ``new`` is the value that it has set last. With another one the label would count as changed by others,
    and stay: a kubelet may write it itself.
    """
    return a_record(
        uid_of(world, pool),
        labels={"example.com/new": (new, None), TENANT: ("bank", "shop")},
        taints={OS_TAINT: None, DEDICATED: None},
    )


def delete_while_down(world: World, pool: str) -> None:
    """Delete a pool before the operator starts, so that it finds the record as it was forged."""
    world.delete(pool, wait=False)
    world.operator.start()
    eventually(lambda: pool not in world.pools(), what="the pool gone")
