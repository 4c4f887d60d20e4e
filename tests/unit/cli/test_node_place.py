"""Which pool a node belongs to, or why none has it."""

from __future__ import annotations

from datetime import timedelta

from harness.builders import NOON, a_node, a_pool, a_record
from winpool.api.keys import POOL_LABEL
from winpool.cli.node_upgrade import Place, place_of
from winpool.cli.upgrades import Cluster
from winpool.model.node import Node
from winpool.model.pool import Pool

BLUE = {"matchLabels": {"agentpool": "blue"}}


def placed(node: Node, *pools: Pool) -> Place:
    return place_of(Cluster(pools=pools, nodes=(node,), version="v1.36.3", now=NOON), node)


def test_a_node_belongs_to_the_pool_that_selects_it() -> None:
    red, blue = a_pool("red"), a_pool("blue", selector=BLUE)
    assert placed(a_node(), blue, red) == Place(pool=red)


def test_a_node_without_an_owner_belongs_to_the_oldest_pool_that_selects_it() -> None:
    young, old = a_pool("a", age=timedelta(hours=1)), a_pool("b", age=timedelta(hours=2))
    assert placed(a_node(), young, old).pool is old


def test_the_recorded_owner_keeps_it() -> None:
    young, old = a_pool("a", age=timedelta(hours=1)), a_pool("b", age=timedelta(hours=2))
    assert placed(a_node(annotations=a_record(young.uid)), young, old).pool is young


def test_a_pool_whose_spec_cannot_be_read_keeps_what_it_has() -> None:
    broken = a_pool("a", refusal="spec.os: must be given.")
    assert placed(a_node(annotations=a_record(broken.uid)), broken).pool is broken


def test_a_node_of_another_system_belongs_to_no_pool() -> None:
    found = placed(a_node(os="linux"), a_pool())
    assert found.pool is None
    assert "kubernetes.io/os of the node is not windows" in found.reason


def test_without_pools_none_has_it() -> None:
    assert "There is no WindowsNodePool" in placed(a_node()).reason


def test_a_node_that_no_selector_matches_says_what_to_compare() -> None:
    found = placed(a_node(), a_pool(selector=BLUE))
    assert "No WindowsNodePool selects it" in found.reason
    assert "spec.nodeSelector" in found.fix


def test_a_node_that_its_pool_does_not_select_any_more_is_being_released() -> None:
    pool = a_pool(selector=BLUE)
    found = placed(a_node(annotations=a_record(pool.uid), labels={POOL_LABEL: pool.name}), pool)
    assert found.pool is None
    assert "of the pool pool, which does not select it any more" in found.reason


def test_a_node_of_a_pool_that_is_being_deleted_is_being_released() -> None:
    pool = a_pool(deleting=True)
    found = placed(a_node(annotations=a_record(pool.uid)), pool)
    assert found.pool is None
    assert "which is being deleted" in found.reason


def test_a_record_of_a_pool_that_does_not_exist_keeps_the_node_from_the_others() -> None:
    found = placed(a_node(annotations=a_record("another-uid")), a_pool())
    assert found.pool is None
    assert "names a pool that does not exist" in found.reason
    assert "kubectl winpool status pool" in found.fix
