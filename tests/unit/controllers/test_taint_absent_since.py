"""Since when nodes lack NoExecute taints, as far as this process has seen."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from harness.builders import a_node, taints_of
from harness.clock import Seconds
from winpool.controllers.node_pods import TaintAbsentSince

HARSH = "os=windows:NoExecute"


@pytest.fixture
def bare(clock: Seconds) -> TaintAbsentSince:
    return TaintAbsentSince(monotonic=clock)


def test_a_node_that_is_first_seen_lacks_them_since_then(bare: TaintAbsentSince, clock: Seconds) -> None:
    bare.note(None, a_node())
    assert bare.moments() == {"uid-of-w1": clock()}


@pytest.mark.parametrize("after", [(), ("os=other:NoExecute",), ("os=windows:NoSchedule",)])
def test_it_counts_anew_when_one_goes(bare: TaintAbsentSince, clock: Seconds, after: tuple[str, ...]) -> None:
    node = a_node(taints=[HARSH])
    bare.note(None, node)
    clock.now += 5
    bare.note(node, replace(node, taints=taints_of(*after)))
    assert bare.moments() == {node.uid: clock()}


def test_nothing_else_makes_it_count_anew(bare: TaintAbsentSince, clock: Seconds) -> None:
    node = a_node(taints=["os=windows:NoSchedule"])
    bare.note(None, node)
    first = clock()
    clock.now += 5
    bare.note(node, replace(node, taints=taints_of(HARSH), labels={}))
    bare.note(node, replace(node, taints=()))
    assert bare.moments() == {node.uid: first}


def test_a_node_that_goes_is_forgotten_and_one_that_comes_back_is_new(
    bare: TaintAbsentSince, clock: Seconds
) -> None:
    node = a_node()
    bare.note(None, node)
    bare.note(node, None)
    assert bare.moments() == {}
    clock.now += 5
    bare.note(None, node)
    assert bare.moments() == {node.uid: clock()}
