"""A new pool meets nodes that nobody has touched: what is written, how often, in which order."""

from __future__ import annotations

from harness.nodes import annotations_of, labels_of, record_of, taints_of, told_labels
from harness.operator import USER
from harness.waiting import eventually
from harness.world import World
from winpool.api.keys import APPLIED_ANNOTATION, POOL_LABEL, RELEASE_FINALIZER

LABELS = {"example.com/team": "payments", "example.com/tier": "gold"}
TAINTS = [
    {"key": "os", "value": "windows", "effect": "NoSchedule"},
    {"key": "example.com/quiet", "effect": "PreferNoSchedule"},
]


def test_cold_start_of_12_nodes_is_12_node_patches_no_get_and_one_event(world: World) -> None:
    world.fleet(windows=12, linux=2)
    linux = {name: each for name, each in world.carried().items() if is_linux(each)}
    start = world.now()
    name = world.apply(world.pool(labels=LABELS, taints=TAINTS))
    world.operator.start()
    world.wait_up_to_date(name, nodes=12)
    eventually(
        lambda: world.reasons(kind="WindowsNodePool", name=name) == ["RolloutCompleted"],
        what="the event RolloutCompleted",
    )
    world.end_operator()

    requests = world.requests(since=start)
    patches = world.node_patches(since=start)
    windows = [node for node, each in world.carried().items() if not is_linux(each)]
    assert sorted(patch.name for patch in patches if patch.code == 200) == sorted(windows)
    assert {patch.code for patch in patches} <= {200, 409}, "409 where a kubelet was faster"
    assert [each.uri for each in requests if each.verb == "get" and each.resource] == []
    assert len([each for each in requests if each.resource == "events"]) == 1
    assert [each for node in (*windows, *linux) for each in world.own_events(kind="Node", name=node)] == []
    assert {node: each for node, each in world.carried().items() if is_linux(each)} == linux


def test_the_finalizer_is_on_the_pool_before_the_first_node_is_written(world: World) -> None:
    world.fleet(windows=3)
    start = world.now()
    name = world.apply(world.pool(labels=LABELS))
    world.operator.start()
    world.wait_up_to_date(name, nodes=3)

    requests = world.requests(since=start)
    [finalizer] = [
        each
        for each in requests
        if each.verb == "patch" and each.resource == "windowsnodepools" and not each.subresource
    ]
    first = min(patch.received for patch in world.node_patches(since=start))
    assert finalizer.code == 200
    assert finalizer.completed is not None
    assert finalizer.completed < first
    assert world.get("wnp", name)["metadata"]["finalizers"] == [RELEASE_FINALIZER]


def test_each_node_carries_the_contract_and_the_record_of_what_is_ours(world: World) -> None:
    world.fleet(windows=3, labels={"example.com/tier": "silver"}, taints=["os=linux:NoSchedule"])
    before = world.carried()
    name = world.apply(world.pool(labels=LABELS, taints=TAINTS))
    world.operator.start()
    world.wait_up_to_date(name, nodes=3)

    uid = world.get("wnp", name)["metadata"]["uid"]
    for node_name, node in world.nodes().items():
        was = before[node_name]
        assert labels_of(node) == {**was["labels"], **told_labels(node, pool=name), **LABELS}
        assert taints_of(node) == {"os=windows:NoSchedule", "example.com/quiet=:PreferNoSchedule"}
        assert annotations_of(node).keys() == {*was["annotations"], APPLIED_ANNOTATION}
        record = record_of(node)
        assert record["v"] == 1
        assert record["pool"] == uid
        assert {key: owned for key, owned in record["labels"].items() if key in LABELS} == {
            "example.com/team": {"set": "payments", "before": None},
            "example.com/tier": {"set": "gold", "before": "silver"},
        }
        assert record["labels"].keys() <= {*LABELS, POOL_LABEL}
        taints = {(owned["key"], owned["effect"]): owned for owned in record["taints"]}
        assert taints.keys() == {("os", "NoSchedule"), ("example.com/quiet", "PreferNoSchedule")}
        assert taints["os", "NoSchedule"]["value"] == "windows"
        assert taints["os", "NoSchedule"]["before"] not in (None, "")
        assert taints["example.com/quiet", "PreferNoSchedule"]["before"] is None


def test_the_operator_does_all_this_with_the_rights_of_deploy_and_never_asks_for_more(world: World) -> None:
    world.fleet(windows=3, linux=1)
    can = world.testbed.kubectl("auth", "can-i", "get", "nodes", "--as", USER, check=False).stdout
    assert can.strip() == "no", "the ServiceAccount has rights that deploy/ does not give"
    start = world.now()
    name = world.apply(world.pool(labels=LABELS))
    world.operator.start()
    world.wait_up_to_date(name, nodes=3)
    world.delete(name)

    requests = world.requests(since=start)
    assert len(world.patched_nodes(since=start)) == 6
    assert [f"{each.verb} {each.uri}" for each in requests if each.code in (401, 403)] == []
    assert {each.authenticated_user for each in requests} == {USER}
    assert [each.user_agent for each in requests if each.writes and "winpool" not in each.user_agent] == []


def is_linux(carried: dict[str, dict[str, str]]) -> bool:
    return carried["labels"]["kubernetes.io/os"] == "linux"
