"""What others put on a node stays there also beside NoExecute, startup and mismatch taints of a pool (P3)."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from cluster.pods import OFTEN, tainted
from cluster.test_writers import reborn
from harness.nodes import carried, labels_of, record_of, taints_of, told_labels
from harness.operator import Operator
from harness.waiting import eventually
from harness.world import World
from winpool.api.keys import APPLIED_ANNOTATION, OS_LABEL

Object = dict[str, Any]

MISMATCH: Final = "winpool.dev/reserved-memory-mismatch=:NoSchedule"
AGENTS: Final = "example.com/agents=:NoSchedule"
BOOT: Final = "example.com/boot=:NoSchedule"
FOREIGN_LABELS: Final = {"example.com/owner": "them", "example.com/tier": "gold"}
FOREIGN_TAINTS: Final = [
    {"key": "example.com/dedicated", "value": "gpu", "effect": "NoExecute"},
    {"key": "os", "value": "theirs", "effect": "NoSchedule"},
    {"key": "example.com/shared", "value": "yes", "effect": "NoExecute"},
    {
        "key": "example.com/team",
        "value": "blue",
        "effect": "NoExecute",
        "timeAdded": "2026-01-02T03:04:05Z",
    },
    {"key": "example.com/agents", "effect": "NoSchedule"},
]
"""Another key; the pool's with another effect; an equal one; another value; an equal one for the startup."""
STARTUP: Final = [
    {"key": "example.com/agents", "effect": "NoSchedule"},
    {"key": "example.com/boot", "effect": "NoSchedule"},
]
VALIDATION: Final = {"readySeconds": 0, "nodeAgents": "None"}
WANTED: Final[Object] = {
    "labels": {"example.com/tier": "gold", "example.com/new": "1"},
    "taints": [
        {"key": "os", "value": "windows", "effect": "NoExecute"},
        {"key": "example.com/shared", "value": "yes", "effect": "NoExecute"},
        {"key": "example.com/team", "value": "red", "effect": "NoExecute"},
    ],
    "startupTaints": STARTUP,
    "validation": VALIDATION,
    "reservedMemory": {"systemReserved": "3Gi", "onMismatch": "Taint"},
}
EDITED: Final[Object] = {
    "labels": {"example.com/newer": "2"},
    "taints": [
        {"key": "os", "value": "windows2", "effect": "NoExecute"},
        {"key": "example.com/team", "value": "green", "effect": "NoExecute"},
    ],
    "reservedMemory": {"systemReserved": "3Gi", "onMismatch": "Report"},
}


def test_what_others_have_put_survives_apply_edit_and_deletion(world: World) -> None:
    names = world.fleet(windows=2, linux=1, labels=FOREIGN_LABELS)
    world.kubectl("annotate", "node", *names, "example.com/note=hands off")
    patch = json.dumps({"spec": {"taints": FOREIGN_TAINTS}})
    world.kubectl("patch", "node", *names, "--type=merge", "-p", patch)
    before = world.carried()
    windows = [name for name in names if before[name]["labels"][OS_LABEL] == "windows"]
    assert len(windows) == 2

    pool = world.apply(world.pool(**WANTED))
    look_often(world)
    with world.watch_nodes() as witness:
        world.operator.start()
        world.wait_up_to_date(pool, nodes=2)
        witness.catch_up(world.nodes().values())
    for name, node in world.nodes().items():
        if name in windows:
            assert any(BOOT in taints_of(each) for each in witness.states[name]), "the nodes are new"
            assert_beside(
                node,
                was=before[name],
                labels=told_labels(node, pool=pool) | WANTED["labels"],
                taints={"os=windows:NoExecute", "example.com/team=red:NoExecute", MISMATCH},
                instead_of={"example.com/team=blue:NoExecute"},
            )
        else:
            assert carried(node) == before[name]

    # Others go on writing while the pool is there: a label, a taint and an annotation of their own.
    world.kubectl("label", "node", *names, "example.com/later=theirs")
    world.kubectl("taint", "node", *names, "example.com/later=theirs:NoExecute")
    world.kubectl("annotate", "node", *names, "example.com/later=theirs")
    later = {name: with_later(each, node=world.node(name)) for name, each in before.items()}
    world.apply(world.pool(**EDITED))
    world.wait_up_to_date(pool, nodes=2)
    for name, node in world.nodes().items():
        if name in windows:
            assert_beside(
                node,
                was=later[name],
                labels=told_labels(node, pool=pool) | EDITED["labels"],
                taints={"os=windows2:NoExecute", "example.com/team=green:NoExecute"},
                instead_of={"example.com/team=blue:NoExecute"},
            )
        else:
            assert carried(node) == later[name]

    world.delete(pool)
    assert world.carried() == later


@pytest.mark.nightly
def test_a_node_that_registers_with_what_a_pool_wants_keeps_it_when_the_pool_is_gone(world: World) -> None:
    equal, other = world.fleet(windows=2)
    pool = world.apply(world.pool(**WANTED))
    look_often(world)
    world.operator.start()
    world.wait_up_to_date(pool, nodes=2)
    ours = {"key": "os", "value": "windows", "effect": "NoExecute"}
    reborn(world, equal, taints=[ours, *STARTUP])
    reborn(world, other, taints=[{**ours, "value": "theirs"}])
    eventually(
        lambda: tainted(world, "os=windows:NoExecute") == {equal, other}, what="the taint of the pool on both"
    )
    eventually(lambda: tainted(world, BOOT) == {equal}, what="no startup taint of ours any more")
    world.wait_up_to_date(pool, nodes=2)
    recorded = {taint["key"] for taint in record_of(world.node(equal))["taints"]}
    assert "os" not in recorded, "an equal taint that was there is not ours"
    assert not {"example.com/agents", "example.com/boot"} & recorded
    world.delete(pool)
    assert {name: without_kubernetes(node) for name, node in world.nodes().items()} == {
        equal: {"os=windows:NoExecute", AGENTS, BOOT},
        other: {"os=theirs:NoExecute"},
    }


def look_often(world: World) -> None:
    """Give the world an operator that looks at pods each second."""
    kubeconfig = world.testbed.kubeconfig("winpool")
    world.operator = Operator(kubeconfig=kubeconfig, log_file=world.operator.log_file, environment=OFTEN)


def assert_beside(
    node: Object, *, was: Object, labels: dict[str, str], taints: set[str], instead_of: set[str]
) -> None:
    """Assert that a node carries this of the pool, and besides that exactly what others put there."""
    assert labels_of(node) == {**was["labels"], **labels}
    annotations = dict(node["metadata"]["annotations"])
    assert annotations.pop(APPLIED_ANNOTATION)
    assert annotations == was["annotations"]
    theirs = [each for each in was["taints"] if text_of(each) not in instead_of]
    found = carried(node)["taints"]
    assert [each for each in found if text_of(each) not in taints] == theirs
    assert {text_of(each) for each in found} - {text_of(each) for each in theirs} == taints


def text_of(taint: Object) -> str:
    return f"{taint['key']}={taint.get('value', '')}:{taint['effect']}"


def with_later(was: Object, *, node: Object) -> Object:
    """Return what a node carried before plus what others have added since."""
    [taint] = [each for each in node["spec"]["taints"] if each["key"] == "example.com/later"]
    taints = sorted([*was["taints"], taint], key=lambda each: (each["key"], each["effect"]))
    return {
        **was,
        "labels": {**was["labels"], "example.com/later": "theirs"},
        "annotations": {**was["annotations"], "example.com/later": "theirs"},
        "taints": taints,
    }


def without_kubernetes(node: Object) -> set[str]:
    """Return the taints of a node without those that Kubernetes itself puts on."""
    return {taint for taint in taints_of(node) if not taint.startswith("node.kubernetes.io/")}
