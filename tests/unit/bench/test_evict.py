"""What a drain took and asked for, as counted from the audit log and a watch of budgets."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from bench.evict import (
    KUBECTL,
    NAMESPACE,
    OPERATOR,
    Drained,
    budgets_of,
    count_breaks,
    count_drained,
    evict_figures,
    evict_targets,
    shares,
    tight_pods,
    turns,
)
from bench.operator_process import USER
from bench.targets import missed, told
from harness.builders import NOON
from testbed.audit import AuditRecord

PODS = frozenset({"a", "b"})
DRAINED = Drained(
    seconds=10.0,
    evicting_seconds=9.0,
    left_seconds={50: 5.0},
    evictions=100,
    refused=0,
    pod_gets=0,
    pod_lists=7,
    breaks=0,
    cpu_seconds=1.0,
)


def a_record(
    verb: str, name: str, *, user: str = USER, after: float, code: int = 200, subresource: str = ""
) -> AuditRecord:
    moment = NOON + timedelta(seconds=after)
    return AuditRecord(
        audit_id="",
        user=user,
        authenticated_user=user,
        verb=verb,
        resource="pods",
        api_group="",
        subresource=subresource,
        name=name,
        namespace=NAMESPACE,
        code=code,
        user_agent="",
        received=moment,
        completed=moment,
        stage="ResponseComplete",
        uri="",
    )


def evicted(name: str, *, after: float, code: int = 201) -> AuditRecord:
    return a_record("create", name, after=after, code=code, subresource="eviction")


def ended(name: str, *, after: float) -> AuditRecord:
    return a_record("delete", name, user="system:node:w1", after=after)


RECORDS = [
    a_record("list", "", after=1),
    evicted("a", after=2),
    evicted("b", after=2, code=429),
    ended("a", after=3),
    ended("another", after=4),
    evicted("b", after=5),
    ended("b", after=7),
]


def test_the_time_is_until_the_last_of_the_first_pods_is_gone() -> None:
    found = count_drained(RECORDS, user=USER, pods=PODS, start=NOON)
    assert found is not None
    assert (found.seconds, found.evicting_seconds, found.left_seconds[50]) == (7.0, 5.0, 3.0)
    assert (found.evictions, found.refused, found.pod_gets, found.pod_lists) == (3, 1, 0, 1)


@pytest.mark.parametrize("records", [RECORDS[:-1], [ended("a", after=1), ended("b", after=1)]])
def test_while_a_pod_is_left_and_before_an_eviction_there_is_no_figure(records: list[AuditRecord]) -> None:
    assert count_drained(records, user=USER, pods=PODS, start=NOON) is None


def a_budget(healthy: int, desired: int, *, generation: int = 1) -> str:
    status = {"observedGeneration": 1, "currentHealthy": healthy, "desiredHealthy": desired}
    return json.dumps({"metadata": {"generation": generation}, "status": status}, indent=4)


def test_a_budget_is_broken_while_fewer_pods_are_healthy_than_it_demands() -> None:
    states = [a_budget(3, 2), a_budget(2, 2), a_budget(1, 2), a_budget(1, 2, generation=2)]
    assert count_breaks("\n".join(states) + "\n") == 1


def test_each_goes_first_as_often_as_the_other() -> None:
    assert turns(2) == [OPERATOR, KUBECTL, KUBECTL, OPERATOR]


@pytest.mark.parametrize(("pods", "tight", "budgets"), [(1000, 300, 10), (50, 15, 5), (3, 1, 1)])
def test_a_third_of_the_pods_are_behind_at_most_ten_budgets(pods: int, tight: int, budgets: int) -> None:
    assert (tight_pods(pods), budgets_of(pods)) == (tight, budgets)
    assert sum(shares(tight, budgets)) == tight


def test_what_is_missed() -> None:
    def verdicts(**changes: object) -> list[str]:
        theirs = replace(DRAINED, seconds=20.0, refused=9, pod_gets=100)
        own = replace(DRAINED, **changes)  # type: ignore[arg-type]
        return missed(evict_targets(evict_figures({OPERATOR: [own], KUBECTL: [theirs]}, nodes=5, pods=100)))

    assert verdicts() == []
    assert verdicts(evictions=106) == ["calls_per_pod"]
    assert verdicts(pod_gets=1) == ["pod_gets"]
    assert verdicts(breaks=1) == ["budget_breaks"]
    assert verdicts(seconds=21.0) == ["ratio"]


def test_a_slow_machine_fails_no_run() -> None:
    slow = replace(DRAINED, seconds=30.0)
    wanted = evict_targets(evict_figures({OPERATOR: [slow], KUBECTL: [DRAINED]}, nodes=5, pods=100))
    assert told(wanted) == {"missed": ["ratio"], "missed_counts": []}
