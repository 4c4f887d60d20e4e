"""When a fleet may be measured on, what the loader sends, and what the command line takes."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from bench import pool
from bench.__main__ import _parser
from bench.contract import ContractOptions, pass_interval_seconds
from bench.errors import BenchError
from bench.fleet import is_bare, require_bare, require_ready
from bench.loader import POOL_UID, Loader
from bench.pods import daemon_set, pod
from harness.builders import a_node, by_name
from harness.wishes import conform, release
from harness.writes import patched, relabelled, retainted
from winpool.kube.writer import encode_node_patch

BARE = a_node("w1", taints=["dedicated=x:NoSchedule"])


def test_what_a_pool_puts_on_makes_a_node_not_bare() -> None:
    written = patched(BARE, conform(BARE, wanted=pool.wanted(uid=POOL_UID)).patch)
    assert is_bare(BARE)
    assert not is_bare(written)
    undone = patched(
        written, release(written, pool_uid=POOL_UID, pool_name=pool.NAME, rights=pool.RIGHTS).patch
    )
    require_bare(by_name(undone), like=by_name(BARE))


def test_a_fleet_that_is_not_as_at_first_is_refused() -> None:
    first = by_name(BARE)
    for now in (relabelled(BARE, extra="1"), retainted(BARE), a_node("w2")):
        with pytest.raises(BenchError, match="1 nodes are not as they were"):
            require_bare(by_name(now), like=first)


def test_a_heartbeat_leaves_a_fleet_as_at_first() -> None:
    require_bare(by_name(replace(BARE, resource_version="99")), like=by_name(BARE))


def test_all_nodes_have_to_be_there_and_ready() -> None:
    require_ready(by_name(BARE), count=1)
    with pytest.raises(BenchError, match="1 Windows nodes, 1 of them Ready; 2 are wanted"):
        require_ready(by_name(BARE), count=2)
    with pytest.raises(BenchError, match="1 Windows nodes, 0 of them Ready; 1 are wanted"):
        require_ready(by_name(replace(BARE, ready="Unknown")), count=1)


def test_after_a_conflict_the_loader_sends_the_same_with_another_version() -> None:
    patch = conform(BARE, wanted=pool.wanted(uid=POOL_UID)).patch
    assert patch is not None
    again = json.loads(Loader._again(encode_node_patch(patch), version="7"))
    first = json.loads(encode_node_patch(patch))
    assert again["metadata"].pop("resourceVersion") == "7"
    assert first["metadata"].pop("resourceVersion") == BARE.resource_version
    assert again == first


def test_a_pod_sits_on_its_node_and_no_simulated_kubelet_touches_it() -> None:
    found = pod(3, node="w1", layer=0, agent_uid="u")
    assert found["spec"]["nodeName"] == "w1"
    assert found["metadata"]["annotations"] == {"winsim/unmanaged": "true"}


def test_half_of_the_pods_tolerate_the_taint_of_the_pool_and_a_quarter_are_of_a_daemon_set() -> None:
    pods = [pod(layer, node="w1", layer=layer, agent_uid="u") for layer in range(8)]
    assert [each["spec"]["tolerations"] for each in pods[:4]] == [
        [{"operator": "Exists"}],
        [{"key": "os", "value": "windows", "effect": "NoSchedule"}],
        [],
        [],
    ]
    owners = [each["metadata"]["ownerReferences"] for each in pods]
    assert [len(each) for each in owners] == [1, 0, 0, 0] * 2
    assert (owners[0][0]["kind"], owners[0][0]["uid"], owners[0][0]["controller"]) == ("DaemonSet", "u", True)


def test_the_daemon_set_has_no_pods_of_its_own_and_stays_when_it_is_deleted() -> None:
    agent = daemon_set()
    assert agent["metadata"]["finalizers"]
    assert agent["spec"]["template"]["spec"]["nodeSelector"] == {"bench.winpool.dev/nowhere": "true"}


@pytest.mark.parametrize(
    ("pods", "steady", "asked", "expected"),
    [(0, 600, 0, 600), (600, 600, 0, 200), (600, 3600, 0, 600), (600, 6, 0, 10), (0, 600, 30, 30)],
)
def test_with_pods_the_operator_looks_often_enough_to_be_measured(
    pods: int, steady: float, asked: int, expected: int
) -> None:
    options = ContractOptions(
        nodes=60, pods=pods, rounds=1, steady_seconds=steady, drifts=1, pod_pass_seconds=asked
    )
    assert pass_interval_seconds(options) == expected


@pytest.mark.parametrize(
    "arguments", [["contract", "--nodes", "0"], ["storm", "--nodes", "0"], ["testbed", "--sizes", "many"], []]
)
def test_a_wrong_command_line_is_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        _parser().parse_args(arguments)
    assert refused.value.code == 2


def test_the_defaults_are_those_that_are_documented() -> None:
    contract = _parser().parse_args(["contract"])
    assert (contract.nodes, contract.pods, contract.rounds) == (1000, 0, 5)
    assert (contract.steady_seconds, contract.drifts) == (600, 100)
    assert contract.pod_pass_seconds == 0
    assert _parser().parse_args(["storm"]).nodes == 1000
    assert _parser().parse_args(["testbed"]).sizes == [1000, 5000]
