"""What others put on a node stays there, whatever a pool does (P3), and Linux nodes are never touched."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.nodes import FOLLOW_READY, annotations_of, carried, labels_of, taints_of, told_labels
from harness.waiting import eventually
from harness.world import World
from winpool.api.keys import APPLIED_ANNOTATION, OS_LABEL, PREFIX

FOREIGN_LABELS = {"example.com/owner": "them", "example.com/tier": "gold", "example.com/color": "blue"}
FOREIGN_TAINTS = [
    {"key": "example.com/dedicated", "value": "gpu", "effect": "NoSchedule"},
    {
        "key": "example.com/dated",
        "value": "x",
        "effect": "PreferNoSchedule",
        "timeAdded": "2026-01-02T03:04:05Z",
    },
    {"key": "os", "value": "theirs", "effect": "PreferNoSchedule"},
    {
        "key": "example.com/shared",
        "value": "yes",
        "effect": "NoSchedule",
        "timeAdded": "2026-01-02T03:04:06Z",
    },
    {"key": "example.com/team", "value": "blue", "effect": "NoSchedule"},
]
"""Another key; one with a time; the pool's key with another effect; one that is equal; another value."""
WANTED: dict[str, Any] = {
    "labels": {"example.com/tier": "gold", "example.com/color": "green", "example.com/new": "1"},
    "taints": [
        {"key": "os", "value": "windows", "effect": "NoSchedule"},
        {"key": "example.com/shared", "value": "yes", "effect": "NoSchedule"},
        {"key": "example.com/team", "value": "red", "effect": "NoSchedule"},
    ],
}
EDITED: dict[str, Any] = {
    "labels": {"example.com/color": "red", "example.com/newer": "2"},
    "taints": [
        {"key": "os", "value": "windows2", "effect": "NoSchedule"},
        {"key": "example.com/team", "value": "green", "effect": "NoSchedule"},
        {"key": "example.com/dedicated", "value": "ours", "effect": "PreferNoSchedule"},
    ],
}


def test_foreign_labels_annotations_and_taints_survive_apply_edit_and_deletion(world: World) -> None:
    names = world.fleet(windows=3, linux=1, labels=FOREIGN_LABELS)
    world.kubectl("annotate", "node", *names, "example.com/note=hands off")
    patch = json.dumps({"spec": {"taints": FOREIGN_TAINTS}})
    world.kubectl("patch", "node", *names, "--type=merge", "-p", patch)
    cordoned = names[-1]
    world.cordon(cordoned)
    before = world.carried()
    assert before[cordoned]["unschedulable"]
    windows = [name for name in names if before[name]["labels"][OS_LABEL] == "windows"]

    pool = world.apply(world.pool(**WANTED))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=3)
    for name, node in world.nodes().items():
        if name in windows:
            assert_contract(node, was=before[name], pool=pool, spec=WANTED)
            assert annotations_of(node).keys() == {*before[name]["annotations"], APPLIED_ANNOTATION}
        else:
            assert carried(node) == before[name]

    # Others go on writing while the pool is there: a label, a taint and an annotation of their own.
    start = world.now()
    world.kubectl("label", "node", *names, "example.com/later=theirs")
    world.kubectl("taint", "node", *names, "example.com/later=theirs:NoSchedule")
    world.kubectl("annotate", "node", *names, "example.com/later=theirs")
    later = {name: with_later(each, name=name, world=world) for name, each in before.items()}
    world.apply(world.pool(**EDITED))
    world.wait_up_to_date(pool, nodes=3)
    for name, node in world.nodes().items():
        if name in windows:
            assert_contract(node, was=later[name], pool=pool, spec=EDITED)
        else:
            assert carried(node) == later[name]
    assert world.patched_nodes(since=start) == sorted(windows)

    world.delete(pool)
    assert world.carried() == later
    world.operator.stop()


@pytest.mark.nightly
def test_the_taints_of_a_silent_node_outlive_every_write_of_the_operator(world: World) -> None:
    world.fleet(windows=1)  # where all nodes are silent, the controller manager blames itself: no NoExecute
    [name] = world.fleet(windows=1)
    world.kill_kubelets(name)
    # What the controller manager writes after 50 s of silence, written now.
    silent = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
    patch = json.dumps({"status": {"conditions": [silent]}})
    world.kubectl("patch", "node", name, "--subresource=status", "--type=strategic", "-p", patch)
    eventually(lambda: len(following_ready(world.node(name))) == 2, what="the two taints of a silent node")
    silence = following_ready(world.node(name))

    start = world.now()
    world.operator.start()
    for spec in (WANTED, EDITED):
        pool = world.apply(world.pool(**spec))
        wait_for_taints(world, node=name, wanted=spec["taints"])
        assert following_ready(world.node(name)) == silence
    world.delete(pool)
    assert following_ready(world.node(name)) == silence
    assert world.patched_nodes(since=start).count(name) == 3


def test_a_taint_that_gave_way_comes_back_with_the_time_at_which_it_was_added(world: World) -> None:
    [name] = world.fleet(windows=1)
    theirs = {"key": "example.com/team", "value": "blue", "effect": "NoSchedule"}
    patch = json.dumps({"spec": {"taints": [{**theirs, "timeAdded": "2026-01-02T03:04:07Z"}]}})
    world.kubectl("patch", "node", name, "--type=merge", "-p", patch)
    before = world.carried()
    assert before[name]["taints"][0]["timeAdded"] == "2026-01-02T03:04:07Z"
    pool = world.apply(world.pool(taints=[{**theirs, "value": "red"}]))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=1)
    assert taints_of(world.node(name)) == {"example.com/team=red:NoSchedule"}
    world.delete(pool)
    assert world.carried() == before


def test_linux_nodes_are_never_touched_even_where_the_selector_names_nothing_else(world: World) -> None:
    names = world.fleet(windows=1, linux=2, labels={"example.com/group": "mixed"})
    linux = [name for name, node in world.nodes().items() if labels_of(node)[OS_LABEL] == "linux"]
    assert len(linux) == 2
    before = world.carried()
    start = world.now()
    pool = world.apply(
        world.pool(
            nodeSelector={"matchExpressions": [{"key": "example.com/run", "operator": "In",
                                                "values": [world.suffix]}]},
            **WANTED,
        )
    )  # fmt: skip
    world.operator.start()
    status = world.wait_up_to_date(pool, nodes=1)
    assert status["readyNodes"] == 1
    assert {name: each for name, each in world.carried().items() if name in linux} == {
        name: before[name] for name in linux
    }
    world.delete(pool)
    assert world.carried() == before
    assert {each.name for each in world.node_patches(since=start)} == set(names) - set(linux)


def test_a_forged_record_cannot_make_the_operator_remove_what_it_never_added(world: World) -> None:
    [name] = world.fleet(windows=1, taints=["example.com/dedicated=gpu:NoSchedule"])
    world.cordon(name)
    before = world.carried()[name]
    pool = world.apply(world.pool(labels={"example.com/new": "1"}))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=1)
    world.operator.kill()
    labels = {
        key: {"set": value, "before": None}
        for key, value in before["labels"].items()
        if "kubernetes.io" in key or key.startswith("topology.")
    }
    assert OS_LABEL in labels
    unschedulable = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "value": ""}
    forged = {
        "v": 1,
        "pool": world.get("wnp", pool)["metadata"]["uid"],
        "labels": {**labels, "example.com/new": {"set": "1", "before": None}},
        "taints": [{**unschedulable, "before": None}],
    }
    annotate(world, name, json.dumps(forged))
    world.delete(pool, wait=False)
    world.operator.start()
    eventually(lambda: pool not in world.pools(), what="the pool gone")
    assert world.carried()[name] == before


def test_an_unreadable_record_is_reported_and_only_our_own_keys_are_taken_off(world: World) -> None:
    broken, whole = world.fleet(windows=2, labels={"example.com/tier": "gold"})
    before = world.carried()
    annotate(world, broken, "{not json")
    pool = world.apply(world.pool(labels={"example.com/tier": "gold"}))
    world.operator.start()
    eventually(
        lambda: "OwnershipRecordUnreadable" in world.reasons(kind="Node", name=broken),
        what="the event OwnershipRecordUnreadable",
    )
    world.operator.kill()
    annotate(world, broken, "{not json")
    world.delete(pool, wait=False)
    world.operator.start()
    eventually(lambda: pool not in world.pools(), what="the pool gone")
    after = world.carried()
    assert after[whole] == before[whole]
    assert after[broken]["labels"] == before[broken]["labels"]
    assert after[broken]["taints"] == before[broken]["taints"]
    assert [key for key in after[broken]["annotations"] if key.startswith(PREFIX)] == []


def assert_contract(node: dict[str, Any], *, was: dict[str, Any], pool: str, spec: dict[str, Any]) -> None:
    """Assert that a node carries what the spec asks, and besides that exactly what others put there."""
    assert labels_of(node) == {**was["labels"], **told_labels(node, pool=pool), **spec["labels"]}
    wanted = {(taint["key"], taint["effect"]): taint["value"] for taint in spec["taints"]}
    found = carried(node)["taints"]
    ours = {
        (taint["key"], taint["effect"]): taint["value"]
        for taint in found
        if (taint["key"], taint["effect"]) in wanted
    }
    assert ours == wanted
    assert [each for each in found if (each["key"], each["effect"]) not in wanted] == [
        each for each in was["taints"] if (each["key"], each["effect"]) not in wanted
    ]
    equal = [each for each in was["taints"] if wanted.get((each["key"], each["effect"])) == each.get("value")]
    assert [each for each in equal if each not in found] == [], "a taint that was right already was changed"
    assert carried(node)["unschedulable"] == was["unschedulable"]


def with_later(was: dict[str, Any], *, name: str, world: World) -> dict[str, Any]:
    """Return what a node carried before plus what others have added since."""
    [taint] = [each for each in world.node(name)["spec"]["taints"] if each["key"] == "example.com/later"]
    taints = sorted([*was["taints"], taint], key=lambda each: (each["key"], each["effect"]))
    return {
        **was,
        "labels": {**was["labels"], "example.com/later": "theirs"},
        "annotations": {**was["annotations"], "example.com/later": "theirs"},
        "taints": taints,
    }


def wait_for_taints(world: World, *, node: str, wanted: list[dict[str, str]]) -> None:
    """Wait until the node carries these taints, among others."""
    texts = {f"{each['key']}={each['value']}:{each['effect']}" for each in wanted}
    eventually(lambda: taints_of(world.node(node)) >= texts, what="the taints of the spec")


def following_ready(node: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the taints that the node lifecycle controller keeps by the Ready condition, whole."""
    return [each for each in node["spec"].get("taints", []) if each["key"] in FOLLOW_READY]


def annotate(world: World, node: str, record: str) -> None:
    patch = json.dumps({"metadata": {"annotations": {APPLIED_ANNOTATION: record}}})
    world.kubectl("patch", "node", node, "--type=merge", "-p", patch)
