"""The proof of shape on real nodes: a second feature, which only the tests know, is served like the first."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest

from cluster.pods import NAMESPACE, Pods
from harness.nodes import annotations_of, carried, labels_of, record_of, taints_of
from harness.operator import Operator
from harness.second_feature import BORROWED, CONDITION, TAINT, Asked, request
from harness.waiting import eventually
from harness.world import NODES, World
from testbed.audit import AuditRecord
from winpool.api.keys import (
    APPLIED_ANNOTATION,
    POOL_LABEL,
    UPGRADE_ANNOTATION,
    UPGRADE_REQUESTED_ANNOTATION,
    UPGRADE_STATE_LABEL,
)

Object = dict[str, Any]

SPEC: Final[Object] = {
    "labels": {"example.com/team": "payments"},
    "taints": [{"key": "os", "value": "windows", "effect": "NoSchedule"}],
}
ALL: Final[Object] = {"state": "Draining", "annotate": True, "taint": True, "cordon": True}
OWN_TAINT: Final = f"{TAINT[0]}=:{TAINT[1]}"
THEIR_CONDITION: Final = {
    "type": "DrainInProgress",
    "status": "True",
    "reason": "Theirs",
    "message": "by another actor",
    "lastTransitionTime": "2026-01-02T03:04:05Z",
    "lastHeartbeatTime": "2026-01-02T03:04:05Z",
}
PACE_SECONDS: Final = 2.0
"""The first pause between two writes for one goal."""


@pytest.fixture
def house(world: World) -> Iterator[World]:
    """The world with an operator that has the second feature, and with the rights that it needs."""
    name = f"second-feature-{world.suffix}"
    labels = {"name": name}
    rules = [
        {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
    ]
    rbac = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": labels, "rules": rules}
    binding = {
        "apiVersion": f"{rbac}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": labels,
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "winpool", "namespace": "winpool-system"}],
    }
    listed = {"apiVersion": "v1", "kind": "List", "items": [role, binding]}
    world.kubectl("create", "-f", "-", stdin=json.dumps(listed))
    world.operator = an_operator(world, module="harness.second_feature")
    try:
        yield world
        if world.operator.running:  # it needs these rights to let go
            for pool in world.pools():
                world.delete(pool)
    finally:
        world.operator.close()
        world.kubectl("delete", "clusterrole,clusterrolebinding", name)


@pytest.fixture
def pods(house: World) -> Iterator[Pods]:
    found = Pods(house)
    try:
        yield found
    finally:
        found.close()


def an_operator(world: World, *, module: str = "winpool.__main__") -> Operator:
    return Operator(
        kubeconfig=world.testbed.kubeconfig("winpool"), log_file=world.operator.log_file, module=module
    )


def ask(world: World, *names: str, **asked: Any) -> None:
    """Write a request to the nodes; without anything asked, take it off."""
    text = request(Asked(**asked)) if asked else None
    for name in names:
        annotations = {UPGRADE_REQUESTED_ANNOTATION: text}
        world.testbed.api().merge(f"{NODES}/{name}", {"metadata": {"annotations": annotations}})


def state_of(world: World, name: str) -> str | None:
    return labels_of(world.node(name)).get(UPGRADE_STATE_LABEL)


def conditions_of(node: Object) -> dict[str, Object]:
    return {each["type"]: each for each in node["status"]["conditions"]}


def carries_all(node: Object) -> bool:
    """Whether everything that ``ALL`` asks for is there, and recorded where it is borrowed."""
    annotations, record = annotations_of(node), record_of(node)
    return (
        labels_of(node).get(UPGRADE_STATE_LABEL) == "Draining"
        and annotations.get(UPGRADE_ANNOTATION) == '{"state":"Draining"}'
        and annotations.get(BORROWED) == "true"
        and BORROWED in record.get("annotations", {})
        and OWN_TAINT in taints_of(node)
        and node["spec"].get("unschedulable") is True
        and record.get("unschedulable") is True
    )


def wished(node: Object) -> Object:
    """Return what features want of a node, as it stands there, without the record of it."""
    annotations = annotations_of(node)
    return {
        "labels": labels_of(node),
        "annotations": {key: annotations.get(key) for key in (UPGRADE_ANNOTATION, BORROWED)},
        "taints": {each for each in taints_of(node) if not each.startswith("node.kubernetes.io/")},
        "unschedulable": node["spec"].get("unschedulable", False),
    }


def without_request(found: Object) -> Object:
    annotations = found["annotations"]
    rest = {key: text for key, text in annotations.items() if key != UPGRADE_REQUESTED_ANNOTATION}
    return {**found, "annotations": rest}


def condition_writes(world: World, *, since: Any) -> list[str]:
    """Return the names of the nodes whose status was patched, each as often as it was.

    One that was answered 409, because the kubelet reported in between, is sent again from what it wrote.
    """
    written = [
        each
        for each in world.requests(since=since)
        if (each.verb, each.resource, each.subresource) == ("patch", "nodes", "status")
    ]
    assert {each.code for each in written} <= {200, 409}
    return [each.name for each in written if each.code == 200]


def evictions(world: World, *, since: Any) -> list[AuditRecord]:
    return [
        each
        for each in world.requests(since=since)
        if (each.verb, each.resource, each.subresource) == ("create", "pods", "eviction")
    ]


def told_of(world: World, *names: str, pool: str) -> set[str]:
    """Delete the pool, end the operator, and return the reasons of all events about these nodes."""
    world.delete(pool)
    world.end_operator()
    return {reason for name in names for reason in world.reasons(kind="Node", name=name)}


def known_pods(world: World, budget: str) -> int:
    """Return of how many pods the controller of budgets knows that this one is theirs."""
    found: Object = json.loads(world.kubectl("get", "pdb", "-n", NAMESPACE, budget, "-o", "json"))
    return int(found.get("status", {}).get("expectedPods", 0))


@pytest.mark.nightly
def test_what_the_second_room_wants_comes_and_goes_in_one_patch_of_each_node(house: World) -> None:
    names = house.fleet(windows=4)
    first, second_, *others = names
    pool = house.apply(house.pool(**SPEC))
    house.operator.start()
    house.wait_up_to_date(pool, nodes=4)
    before = house.carried()
    start = house.now()
    with house.watch_nodes() as witness:
        ask(house, first, second_, **ALL)
        eventually(
            lambda: all(carries_all(house.node(name)) for name in (first, second_)), what="all that is asked"
        )
        house.wait_up_to_date(pool, nodes=4)
        assert house.patched_nodes(since=start) == [first, second_]
        ask(house, first, second_)
        eventually(lambda: house.carried() == before, what="the nodes as they were")
        witness.catch_up(house.nodes().values())
    assert house.patched_nodes(since=start) == [first, first, second_, second_]
    assert witness.changes_of(wished) == {first: 2, second_: 2, **dict.fromkeys(others, 0)}
    assert condition_writes(house, since=start) == []
    assert told_of(house, *names, pool=pool) == set()


@pytest.mark.nightly
def test_a_condition_comes_and_goes_by_the_status_of_the_node_and_the_rest_by_one_patch(
    house: World,
) -> None:
    name, other = house.fleet(windows=2)
    pool = house.apply(house.pool(**SPEC))
    house.operator.start()
    house.wait_up_to_date(pool, nodes=2)
    before = house.carried()
    kubelets = conditions_of(house.node(name)).keys()
    start = house.now()
    with house.watch_nodes() as witness:
        ask(house, name, **ALL, condition="True")
        eventually(lambda: CONDITION in conditions_of(house.node(name)), what="the condition")
        told = conditions_of(house.node(name))[CONDITION]
        assert (told["status"], told["reason"]) == ("True", "Asked")
        house.wait_up_to_date(pool, nodes=2)
        assert house.patched_nodes(since=start) == [name]
        assert condition_writes(house, since=start) == [name]

        ask(house, name, **ALL, condition="False")
        eventually(
            lambda: conditions_of(house.node(name))[CONDITION]["status"] == "False", what="its other status"
        )
        house.wait_up_to_date(pool, nodes=2)
        assert house.patched_nodes(since=start) == [name]

        ask(house, name)
        eventually(lambda: house.carried() == before, what="the node as it was")
        eventually(lambda: conditions_of(house.node(name)).keys() == kubelets, what="the condition gone")
        house.wait_up_to_date(pool, nodes=2)
        witness.catch_up(house.nodes().values())
    assert witness.changes_of(wished) == {name: 2, other: 0}
    assert condition_writes(house, since=start) == [name] * 3
    assert told_of(house, name, pool=pool) == set()


def test_each_pod_is_asked_for_once_and_one_that_a_budget_protects_holds_up_nobody(
    house: World, pods: Pods
) -> None:
    first, second_ = house.fleet(windows=2)
    protected = pods.bind("protected", first, labels={"app": house.suffix})
    free, also_free = pods.bind("free", first), pods.bind("also", second_)
    bystander = pods.bind("bystander", second_)
    pods.wait_running(count=4)
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": f"all-{house.suffix}", "namespace": NAMESPACE},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": house.suffix}}},
    }
    house.kubectl("create", "-f", "-", stdin=json.dumps(budget))
    try:
        eventually(
            lambda: known_pods(house, f"all-{house.suffix}") == 1,
            what="the budget knows its pod",
        )
        uids = pods.uids()
        pool = house.apply(house.pool(**SPEC))
        house.operator.start()
        house.wait_up_to_date(pool, nodes=2)
        start = house.now()
        ask(house, first, **ALL, evict=tuple(f"{NAMESPACE}/{pod}/{uids[pod]}" for pod in (protected, free)))
        ask(house, second_, **ALL, evict=(f"{NAMESPACE}/{also_free}/{uids[also_free]}",))
        eventually(lambda: set(pods.uids()) == {protected, bystander}, what="the two that may go are gone")
        refused = eventually(
            lambda: [each for each in evictions(house, since=start) if each.name == protected],
            what="the answer for the one that may not go",
        )
        assert {each.code for each in refused} == {429}
        assert all(carries_all(house.node(name)) for name in (first, second_))
        house.wait_up_to_date(pool, nodes=2)

        ask(house, second_, state="Drained", evict=(f"{NAMESPACE}/{also_free}/{uids[also_free]}",))
        eventually(lambda: state_of(house, second_) == "Drained", what="another pass")
    finally:
        house.kubectl("delete", "pdb", "-n", NAMESPACE, f"all-{house.suffix}")
    eventually(lambda: set(pods.uids()) == {bystander}, what="the protected pod gone, once it may go")
    asked = evictions(house, since=start)
    assert [each.code for each in asked if each.name == protected].count(201) == 1
    told = [(each.name, each.code) for each in asked if each.name != protected]
    assert sorted(told) == sorted([(free, 201), (also_free, 201)])
    assert bystander not in {each.name for each in asked}
    # No deletion but by eviction, and each with the UID that was asked for.
    deleted = [each for each in house.writes(since=start) if each.resource == "pods" and not each.subresource]
    assert deleted == []


@pytest.mark.nightly
def test_deletion_of_the_pool_releases_all_of_it_and_nothing_of_others(house: World) -> None:
    names = house.fleet(
        windows=4, labels={"example.com/owner": "them"}, taints=["example.com/x=y:NoSchedule"]
    )
    first, cordoned, annotated, _ = names
    house.cordon(cordoned)
    house.kubectl("annotate", "node", annotated, f"{BORROWED}=false", "example.com/note=hands off")
    patch = json.dumps({"status": {"conditions": [THEIR_CONDITION]}})
    house.kubectl("patch", "node", first, "--subresource=status", "--type=strategic", "-p", patch)
    before = house.carried()
    kinds = {name: conditions_of(node).keys() for name, node in house.nodes().items()}
    pool = house.apply(house.pool(**SPEC))
    house.operator.start()
    house.wait_up_to_date(pool, nodes=4)
    asked = (first, cordoned, annotated)
    ask(house, *asked, **ALL, condition="True")
    eventually(
        lambda: all(CONDITION in conditions_of(house.node(name)) for name in asked), what="the conditions"
    )
    house.wait_up_to_date(pool, nodes=4)
    assert "unschedulable" not in record_of(house.node(cordoned)), "that cordon is not ours"
    # Others go on writing while all of it stands there.
    house.kubectl("label", "node", *names, "example.com/later=theirs")
    later = {
        name: {**each, "labels": {**each["labels"], "example.com/later": "theirs"}}
        for name, each in before.items()
    }

    with house.watch_nodes() as witness:
        house.kubectl("delete", "wnp", pool, "--timeout=30s")
        nodes = house.nodes()
        witness.catch_up(nodes.values())
    for name, node in nodes.items():
        assert POOL_LABEL not in labels_of(node)
        assert APPLIED_ANNOTATION not in annotations_of(node)
        assert conditions_of(node).keys() == kinds[name]
    assert conditions_of(nodes[first])["DrainInProgress"] == THEIR_CONDITION
    # The node lifecycle controller takes the taint of our cordon off by itself, a moment later.
    eventually(
        lambda: {name: without_request(each) for name, each in house.carried().items()} == later,
        what="all nodes as they were",
    )
    # All that the record and the label stand for was gone before they went.
    for name in asked:
        for seen in witness.states[name]:
            if CONDITION in conditions_of(seen):
                assert APPLIED_ANNOTATION in annotations_of(seen)
            if APPLIED_ANNOTATION not in annotations_of(seen):
                assert wished(seen) == wished(nodes[name])
    assert witness.changes_of(wished) == dict.fromkeys(names, 1)


@pytest.mark.nightly
def test_an_operator_without_the_room_takes_off_what_the_room_has_left(house: World) -> None:
    name, other = house.fleet(windows=2)
    pool = house.apply(house.pool(**SPEC))
    house.operator.start()
    house.wait_up_to_date(pool, nodes=2)
    before = house.carried()
    kubelets = conditions_of(house.node(name)).keys()
    ask(house, name, **ALL, condition="True")
    eventually(lambda: CONDITION in conditions_of(house.node(name)), what="the condition")
    house.operator.kill()
    house.operator = an_operator(house)
    house.operator.start()
    eventually(
        lambda: {each: without_request(what) for each, what in house.carried().items()} == before,
        what="the nodes as they were",
    )
    eventually(lambda: conditions_of(house.node(name)).keys() == kubelets, what="the condition gone")
    house.wait_up_to_date(pool, nodes=2)
    assert house.carried()[other] == before[other]


def test_a_pool_that_is_deleted_amid_a_crash_is_released_at_the_next_start(house: World) -> None:
    names = house.fleet(windows=3)
    before = house.carried()
    kinds = {name: conditions_of(node).keys() for name, node in house.nodes().items()}
    pool = house.apply(house.pool(**SPEC))
    house.operator.start()
    house.wait_up_to_date(pool, nodes=3)
    ask(house, *names, **ALL, condition="True")
    eventually(
        lambda: all(CONDITION in conditions_of(node) for node in house.nodes().values()),
        what="the conditions",
    )
    house.operator.kill()
    house.delete(pool, wait=False)
    house.operator.start()
    eventually(lambda: pool not in house.pools(), what="the pool gone")
    assert {name: conditions_of(node).keys() for name, node in house.nodes().items()} == kinds
    eventually(
        lambda: {name: without_request(each) for name, each in house.carried().items()} == before,
        what="all nodes as they were",
    )


NINE: Final[tuple[Object, ...]] = (
    ALL,
    {**ALL, "state": "Drained"},
    {**ALL, "state": "Drained", "taint": False},
    {**ALL, "state": "Upgrading"},
    {"state": "Upgrading", "cordon": True},
    {"state": "Validating"},
    {"state": "Validating", "annotate": True},
    ALL,
    {},
)
"""Nine transitions of a node, the eighth back to the first."""


def is_at(node: Object, asked: Object) -> bool:
    return (
        labels_of(node).get(UPGRADE_STATE_LABEL) == asked.get("state")
        and (BORROWED in annotations_of(node)) is bool(asked.get("annotate"))
        and (OWN_TAINT in taints_of(node)) is bool(asked.get("taint"))
        and node["spec"].get("unschedulable", False) is bool(asked.get("cordon"))
    )


@pytest.mark.nightly
@pytest.mark.parametrize("with_condition", [False, True], ids=["", "condition"])
def test_nine_transitions_back_to_back_know_no_pause_and_no_drift(house: World, with_condition: bool) -> None:
    [name] = house.fleet(windows=1)
    pool = house.apply(house.pool(**SPEC))
    house.operator.start()
    house.wait_up_to_date(pool, nodes=1)
    start = house.now()
    slow: list[str] = []
    with house.watch_nodes() as witness:
        for number, asked in enumerate(NINE, start=1):
            has_one = bool(with_condition and number % 2 and asked)
            begun = time.monotonic()
            ask(house, name, **asked, **({"condition": "True"} if has_one else {}))

            def arrived(asked: Object = asked, has_one: bool = has_one) -> bool:
                node = house.node(name)
                return is_at(node, asked) and (CONDITION in conditions_of(node)) is has_one

            eventually(arrived, what=f"transition {number}", every=0.02)
            if (took := time.monotonic() - begun) >= PACE_SECONDS:
                slow.append(f"transition {number} took {took:.1f} s")
        witness.catch_up(house.nodes().values())
    assert slow == []
    assert witness.changes_of(wished) == {name: len(NINE)}
    if not with_condition:
        assert house.patched_nodes(since=start) == [name] * len(NINE)
    assert told_of(house, name, pool=pool) == {"NodeHandedOver"}, "the fourth, and no drift"


@pytest.mark.nightly
def test_a_neighbour_who_undoes_a_transition_is_paced_and_the_next_transition_is_not(house: World) -> None:
    [name] = house.fleet(windows=1)
    pool = house.apply(house.pool(**SPEC))
    house.operator.start()
    house.wait_up_to_date(pool, nodes=1)
    for asked in NINE[:-1]:
        ask(house, name, **asked)
        eventually(lambda asked=asked: is_at(house.node(name), asked), what="a transition", every=0.02)  # type: ignore[misc]
    start = house.now()
    undone = 0
    end = time.monotonic() + 7
    while time.monotonic() < end:
        if house.node(name)["spec"].get("unschedulable"):
            house.kubectl("uncordon", name)
            undone += 1
    repairs = [each for each in house.node_patches(since=start) if each.code == 200]
    assert 2 <= len(repairs) <= 3, f"{len(repairs)} repairs after the neighbour has undone {undone} times"
    assert (repairs[1].received - repairs[0].received).total_seconds() >= 0.75 * PACE_SECONDS

    begun = time.monotonic()
    ask(house, name, state="Drained")
    eventually(lambda: state_of(house, name) == "Drained", what="the next transition", every=0.02)
    assert time.monotonic() - begun < PACE_SECONDS
    assert carried(house.node(name))["unschedulable"] is False
    # It waits for others of its kind, after the repair.
    eventually(
        lambda: "DriftRepaired" in house.reasons(kind="Node", name=name), what="the event DriftRepaired"
    )
