"""The issues about templates of workloads: which controllers they name, and when the status changes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.builders import NOON, a_node, a_pool, a_snapshot, deleted, with_status
from winpool.api.issues import NORMAL, IssueReason
from winpool.decide import Decision, decide
from winpool.model.node import Node, NodeMemory
from winpool.model.pool import Pool
from winpool.model.snapshot import Snapshot
from winpool.model.survey import CountedPods, KnownPods, Survey
from winpool.serve.definitions import MEMORY_LIMIT_EXCESS, UNLIMITED_CONTAINERS, UNSELECTED_PODS
from winpool.serve.metrics import of_pools
from winpool.status.pods import NAMED, named

GIB = 1024**3
UNSELECTED, UNLIMITED = IssueReason.UNSELECTED_WORKLOADS, IssueReason.MEMORY_LIMITS_MISSING
NODE = replace(a_node("w1"), memory=NodeMemory(16 * GIB, 14 * GIB))


def counts(**pods: int) -> CountedPods:
    worst = sorted(pods.items(), key=lambda each: (-each[1], each[0]))
    return CountedPods(tuple((f"Deployment shop/{name}", count) for name, count in worst), sum(pods.values()))


def a_seen(pool: Pool, *nodes: Node, **found: Any) -> Snapshot:
    survey = Survey(
        pool_uid=pool.uid,
        generation=pool.generation,
        started=NOON,
        finished=NOON,
        nodes={node.name: node.uid for node in nodes},
        intolerant={},
        **found,
    )
    return replace(a_snapshot(pool, nodes), pods=KnownPods(survey=survey))


def messages(found: Decision, reason: IssueReason) -> list[str]:
    return [each.message for each in found.status.issues if each.reason == reason]


def test_the_issues_are_about_the_pool_and_name_the_worst_first() -> None:
    pool = a_pool()
    found = decide(a_seen(pool, NODE, unselected=counts(web=2, api=7), unlimited=counts(batch=3)))
    [unselected] = messages(found, UNSELECTED)
    assert unselected.endswith("Those with the most pods: Deployment shop/api, Deployment shop/web.")
    [unlimited] = messages(found, UNLIMITED)
    assert unlimited.endswith("The workloads with the most of them: Deployment shop/batch.")
    assert {(each.node_count, each.nodes) for each in found.status.issues} == {(0, ())}
    for reason in (UNSELECTED, UNLIMITED):
        assert reason not in NORMAL


def test_no_condition_no_event_and_no_write_comes_of_them() -> None:
    pool = a_pool(labels={"team": "a"})
    calm = decide(a_seen(pool, NODE))
    loud = decide(a_seen(pool, NODE, unselected=counts(web=2), unlimited=counts(web=2)))
    assert len(loud.status.issues) == len(calm.status.issues) + 2
    for name in ("conditions", "up_to_date_nodes", "misplaced_pods", "plan"):
        assert getattr(loud.status, name) == getattr(calm.status, name)
    assert (loud.pool_events, loud.writes) == (calm.pool_events, calm.writes)


def test_nothing_is_said_where_nothing_is_found_or_the_pool_goes() -> None:
    pool = a_pool()
    assert not messages(decide(a_seen(pool, NODE)), UNSELECTED)
    going = a_seen(deleted(pool), NODE, unselected=counts(web=2), unlimited=counts(web=2))
    found = decide(going)
    assert not messages(found, UNSELECTED)
    assert not messages(found, UNLIMITED)
    assert found.figures.workloads is None


def test_the_status_stays_while_counts_vary_and_goes_on_after_a_restart() -> None:
    pool = a_pool()
    first = decide(a_seen(pool, NODE, unselected=counts(web=2, api=7), unlimited=counts(web=1)))
    pool = with_status(pool, first.status)
    again = decide(a_seen(pool, NODE, unselected=counts(web=8, api=7), unlimited=counts(web=40)))
    assert again.status.issues == first.status.issues
    unknown = decide(replace(a_snapshot(pool, [NODE]), pods=KnownPods()))
    assert unknown.status.issues == first.status.issues, "pods are not listed yet"
    other = decide(a_seen(pool, NODE, unselected=counts(web=8), unlimited=counts(web=40)))
    [message] = messages(other, UNSELECTED)
    assert message.endswith(" Deployment shop/web.")
    since = {each.reason: each.since for each in other.status.issues}
    assert since == {each.reason: each.since for each in first.status.issues}


def test_who_is_named_stays_until_another_has_more_than_twice_as_many() -> None:
    many = counts(**{f"w{number}": 10 for number in range(NAMED)}, other=20)
    before = [f"Deployment shop/w{number}" for number in range(NAMED)]
    assert named(many, before=before) == before
    more = counts(**{f"w{number}": 10 for number in range(NAMED)}, other=21)
    assert named(more, before=before) == ["Deployment shop/other", *before[:-1]]
    assert named(many, before=[])[0] == "Deployment shop/other"


COUNTS = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 30), min_size=1)


@given(COUNTS, st.lists(COUNTS, max_size=4))
def test_the_worst_are_named_and_a_second_look_at_the_same_changes_nothing(
    first: dict[str, int], others: list[dict[str, int]]
) -> None:
    before = named(counts(**first), before=[])
    assert before == [title for title, _ in counts(**first).worst[:NAMED]]
    for each in others:
        now = named(counts(**each), before=before)
        assert len(now) == min(NAMED, len(each))
        assert {*now} <= {title for title, _ in counts(**each).worst}
        assert named(counts(**each), before=now) == now
        before = now


def test_a_message_has_room_for_the_longest_titles() -> None:
    titles = [f"{number}{'x' * 119}" for number in range(NAMED + 1)]
    worst = CountedPods(tuple((title, 1) for title in titles), len(titles))
    pool = a_pool()
    first = decide(a_seen(pool, NODE, unselected=worst, unlimited=worst))
    for reason in (UNSELECTED, UNLIMITED):
        [message] = messages(first, reason)
        assert message.endswith(f"{titles[NAMED - 1]}.")


def test_what_was_left_out_is_said_and_is_no_zero() -> None:
    pool = a_pool()
    some = replace(counts(web=2), is_complete=False)
    first = decide(a_seen(pool, NODE, unselected=some, unlimited=counts(web=2)))
    [message] = messages(first, UNSELECTED)
    assert ": Deployment shop/web. There may be more: " in message
    assert "There may be more" not in messages(first, UNLIMITED)[0]
    seen = a_seen(with_status(pool, first.status), NODE, unselected=some, unlimited=counts(web=2))
    assert decide(seen).status.issues == first.status.issues
    assert of_pools([pool], figures={pool.name: first.figures})[UNSELECTED_PODS] == {(pool.name,): 2}

    nothing = CountedPods(is_complete=False)
    found = decide(a_seen(pool, NODE, unselected=nothing, unlimited=nothing))
    series = of_pools([pool], figures={pool.name: found.figures})
    assert not series.keys() & {UNSELECTED_PODS, UNLIMITED_CONTAINERS}
    assert series[MEMORY_LIMIT_EXCESS] == {(pool.name,): 0}


def test_metrics_have_the_numbers_and_are_absent_until_pods_are_listed() -> None:
    pool, other = a_pool(), replace(a_node("w2"), memory=NodeMemory(16 * GIB, 15 * GIB))
    untold, roomy = replace(a_node("w3"), memory=NodeMemory()), replace(NODE, name="w4", uid="uid-of-w4")
    limits = {"w1": 16 * GIB, "w2": 16 * GIB, "w3": 99 * GIB, "w4": GIB, "gone": 99 * GIB}
    found = decide(
        a_seen(
            pool,
            *(NODE, other, untold, roomy),
            unselected=counts(web=2, api=7),
            unlimited=counts(web=3),
            memory_limits=limits,
        )
    )
    series = of_pools([pool], figures={pool.name: found.figures})
    own = (pool.name,)
    assert series[UNSELECTED_PODS] == {own: 9}
    assert series[UNLIMITED_CONTAINERS] == {own: 3}
    assert series[MEMORY_LIMIT_EXCESS] == {own: 3 * GIB}, "w1 has 2 GiB too many, w2 one"
    unlisted = decide(replace(a_snapshot(pool, [NODE]), pods=KnownPods()))
    before = of_pools([pool], figures={pool.name: unlisted.figures})
    assert not before.keys() & {UNSELECTED_PODS, UNLIMITED_CONTAINERS, MEMORY_LIMIT_EXCESS}
