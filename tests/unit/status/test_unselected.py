"""A selector that matches no Windows node: True as ever, told once, with the labels that come nearest."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.builders import Nodes, a_node, a_pool, a_record, a_snapshot, deleted, unreadable, with_status
from harness.strategies import SELECTORS, fleets
from winpool.api.conditions import ConditionType
from winpool.api.events import EventReason
from winpool.api.issues import IssueReason
from winpool.api.selector import NodeSelector, selects
from winpool.api.status import Issue
from winpool.decide import decide
from winpool.model.node import Node
from winpool.model.pool import Pool
from winpool.status import findings as unselected
from winpool.status.findings import CLIPPED, COMPARED, nearest


def matching(**labels: str) -> dict[str, Any]:
    return {"matchLabels": labels}


def asking(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {
        "matchExpressions": [{"key": key, "operator": operator, **({"values": values} if values else {})}]
    }


def told(pool: Pool, nodes: Iterable[Node] = (), **more: Any) -> list[Issue]:
    issues = decide(a_snapshot(pool, nodes, **more)).status.issues
    return [each for each in issues if each.reason == IssueReason.NO_NODES_SELECTED]


def near(selector: Mapping[str, Any], *nodes: Mapping[str, str]) -> str:
    return nearest(NodeSelector.model_validate(selector), nodes)


def test_a_pool_that_selects_no_node_is_ready_and_says_what_comes_nearest() -> None:
    pool = a_pool(selector=matching(agentpool="reed"))
    decision = decide(a_snapshot(pool, [a_node()]))
    [issue] = told(pool, [a_node()])
    assert "agentpool=reed" in issue.message
    assert "agentpool=red" in issue.message
    assert issue.fix
    ready = decision.status.condition(ConditionType.READY)
    assert ready is not None
    assert (ready.status, ready.reason) == ("True", "NoNodesSelected")


def test_the_event_comes_once_and_once_more_after_there_were_nodes() -> None:
    pool, said = a_pool(selector=matching(agentpool="reed")), []
    for nodes in ([], [], [a_node(labels={"agentpool": "reed"})], [], []):
        decision = decide(a_snapshot(pool, nodes))
        said.append([each.reason for each in decision.pool_events].count(EventReason.NO_NODES_SELECTED))
        pool = with_status(pool, decision.status)
    assert said == [1, 0, 0, 1, 0]


def test_a_pool_that_selects_a_node_does_not_say_so_whosever_the_node_is() -> None:
    rival = a_pool("rival")
    assert told(a_pool(), [a_node()]) == []
    assert told(a_pool(), [a_node(annotations=a_record(rival.uid))], rivals=[rival]) == []
    assert told(a_pool(), [a_node(annotations=a_record("a-stranger"))]) == []


def test_a_pool_that_goes_or_cannot_be_read_does_not_say_so() -> None:
    for pool in (deleted(a_pool()), unreadable(a_pool())):
        assert told(pool) == []


def test_nodes_of_other_systems_do_not_count() -> None:
    [issue] = told(a_pool(), [a_node(os="linux")])
    assert "agentpool=red" not in issue.message
    assert "no Windows nodes" in issue.message


@pytest.mark.parametrize(
    ("selector", "nodes", "says"),
    [
        (matching(agentpool="win22"), [{"agentpool": "win-22"}, {"agentpool": "win19"}], "agentpool=win-22"),
        (
            matching(agentpool="x"),
            [{"kubernetes.azure.com/agentpool": "x"}],
            "kubernetes.azure.com/agentpool",
        ),
        (matching(agentpool="x"), [{"agent-pool": "x"}], "agent-pool"),
        (matching(pool="a", zone="b"), [{"pool": "a", "zone": "c"}, {"zone": "b"}], "zone=c"),
        (asking("zone", "In", "a", "b"), [{"zone": "c"}], "zone=c"),
        (asking("zone", "NotIn", "a"), [{"zone": "a"}], "zone=a"),
        (asking("zone", "Exists"), [{"topology.kubernetes.io/zone": "a"}], "topology.kubernetes.io/zone"),
        (asking("zone", "DoesNotExist"), [{"zone": "a"}], "zone=a"),
    ],
)
def test_what_nodes_have_instead_is_named(
    selector: Mapping[str, Any], nodes: list[Mapping[str, str]], says: str
) -> None:
    assert says in near(selector, *nodes)


def test_of_several_requirements_only_those_are_told_that_the_nearest_nodes_do_not_meet() -> None:
    said = near(matching(pool="a", zone="b"), {"pool": "a", "zone": "c"}, {"pool": "q"})
    assert "zone" in said
    assert "pool=" not in said


def test_the_keys_of_the_operator_are_no_advice() -> None:
    assert "winpool.dev" not in near(matching(pool="a"), {"winpool.dev/pool": "a"})


def test_what_is_most_like_it_comes_first_and_no_more_than_a_few() -> None:
    nodes = [{"agentpool": f"linux-{number:03d}"} for number in range(300)] + [{"agentpool": "win-22"}]
    said = near(matching(agentpool="win22"), *nodes)
    assert "agentpool=win-22" in said
    assert said.count("agentpool=") < 8


def test_thousands_of_invented_labels_are_not_all_compared() -> None:
    invented = {f"example.com/label-{number}": "x" for number in range(20 * COMPARED)}
    assert len(near(matching(label="x"), invented)) < 1024


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Return the pairs of texts that are compared from here on."""
    pairs: list[tuple[str, str]] = []

    def noted(word: str, possibilities: Collection[str], **options: Any) -> list[str]:
        pairs.extend((word, each) for each in possibilities)
        return get_close_matches(word, possibilities, **options)

    monkeypatch.setattr(unselected, "get_close_matches", noted)
    unselected._close_matches.cache_clear()
    return pairs


LONG = "a-name-of-a-host-of-sixty-characters-and-more-as-vendors-make-"


@pytest.mark.parametrize("wanted", [1, 4])
def test_one_requirement_costs_few_comparisons_of_short_texts(
    compared: list[tuple[str, str]], wanted: int
) -> None:
    nodes = [{"host": f"{LONG}{number}"} for number in range(5 * COMPARED)]
    nodes += [{"host": f"{number}-{LONG}"} for number in range(5 * COMPARED)]
    near(asking("host", "In", *[f"{LONG}{letter}" for letter in "abcd"[:wanted]]), *nodes)
    assert 0 < len(compared) <= COMPARED
    assert max(len(text) for pair in compared for text in pair) <= CLIPPED


def test_the_same_question_is_compared_once(compared: list[tuple[str, str]]) -> None:
    nodes = [{"host": f"node-{number}"} for number in range(20)]
    said = near(matching(host="node-x"), *nodes)
    first = len(compared)
    assert near(matching(host="node-x"), *reversed(nodes)) == said
    assert len(compared) == first > 0


def test_the_most_frequent_value_is_compared_whatever_else_there_is() -> None:
    invented = [{"agentpool": f"win2-{number:04d}"} for number in range(10 * COMPARED)]
    said = near(matching(agentpool="win22"), *invented, *[{"agentpool": "azwin22"}] * 3)
    assert "agentpool=azwin22" in said


@given(st.sampled_from(SELECTORS), fleets(), st.randoms())
def test_the_text_depends_neither_on_the_order_of_nodes_nor_on_how_many_are_alike(
    selector: dict[str, Any], fleet: Nodes, shuffler: random.Random
) -> None:
    labels = [dict(node.labels) for node in fleet.values()]
    asked = NodeSelector.model_validate(selector)
    if any(selects(asked, each) for each in labels):
        return
    said = nearest(asked, labels)
    shuffler.shuffle(labels)
    assert nearest(asked, [*labels, *labels]) == said
    assert 0 < len(said) <= 900
