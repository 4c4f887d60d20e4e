"""What a replay says of recorded samples: when nodes would be signalled, and which pods chosen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from msgspec.structs import replace

from harness.memory import CEILING, GIB, KUBELET, PROMETHEUS, RAM
from winpool.api.memory_pressure import MemoryPressure
from winpool.features.memory.replay import Change, Faults, Recorded, RecordedPod, Replay, What
from winpool.model.pressure import MemorySample, PodUsage

BEGAN = 1_767_225_600.0
"""2026-01-01T00:00:00Z."""
LEAK = "shop/leak"
CALM, HARD = 12.0, 23.3
"""What a node has committed, in GiB, of 24."""


def a_pressure(**fields: Any) -> MemoryPressure:
    return MemoryPressure.model_validate({"clearAfterSeconds": 60, **fields})


def pods(of: str = "w1", /, **committed: float) -> tuple[RecordedPod, ...]:
    return tuple(
        RecordedPod(f"{of}-{name}", "shop", name, PodUsage(gib * GIB, gib * GIB / 2))
        for name, gib in committed.items()
    )


def recorded(
    at: float,
    gib: float,
    *,
    node: str = "w1",
    source: str = KUBELET,
    having: Iterable[RecordedPod] | None = None,
    pool_nonpaged: float | None = None,
) -> Recorded:
    arrived = BEGAN + at
    sample = MemorySample(
        source,
        arrived_at=arrived,
        taken_at=arrived,
        age=None if source == KUBELET else 0.0,
        commit_total=gib * GIB,
        commit_limit=CEILING,
        physical_total=RAM,
        proxy_available=12 * GIB,
        pool_nonpaged=pool_nonpaged,
    )
    return Recorded(node, arrived, sample, None if having is None else tuple(having))


def leaking(
    begin: float = 0.0, *, every: int = 10, until: int = 200, node: str = "w1", with_pods: bool = True
) -> Iterator[Recorded]:
    """Yield samples of a node that is calm for a minute, and then at Hard for a pod that has grown."""
    for at in range(0, until, every):
        is_hard = at > 60
        gib = HARD if is_hard else CALM
        having = pods(node, leak=14.3 if is_hard else 3.0, web=7.0) if with_pods else None
        yield recorded(begin + at, gib, node=node, having=having)


def replayed(
    samples: Iterable[Recorded], pressure: MemoryPressure | None = None
) -> tuple[list[Change], list[str]]:
    """Return what has changed, and what is wrong with the samples."""
    faults = Faults()
    replay = Replay(pressure or a_pressure(), faults)
    in_order = sorted(samples, key=lambda each: each.at)
    changes = [
        change
        for at, together in groupby(in_order, key=lambda each: each.at)
        for change in replay.take(at, together)
    ]
    return changes, faults.sentences()


def those(changes: Iterable[Change], what: What) -> list[Change]:
    return [each for each in changes if each.what is what]


def seconds_of(changes: Iterable[Change]) -> list[float]:
    return [each.at.timestamp() - BEGAN for each in changes]


def test_the_pod_that_has_grown_is_chosen_at_the_second_sample_of_hard() -> None:
    changes, faults = replayed(leaking())
    (chosen,) = those(changes, What.WOULD_EVICT)
    assert (chosen.pod, chosen.level, seconds_of([chosen])) == (LEAK, "Hard", [80.0])
    assert "11.3Gi more than when the node was calm" in chosen.message
    assert faults == []


def test_a_node_is_signalled_when_it_is_confirmed_and_cleared_when_it_has_been_calm() -> None:
    calm = (recorded(at, CALM) for at in range(200, 400, 10))
    changes, _ = replayed([*leaking(), *calm])
    assert seconds_of(those(changes, What.WOULD_SIGNAL)) == [80.0]
    assert seconds_of(those(changes, What.WOULD_CLEAR)) == [260.0]
    assert [each.level for each in those(changes, What.LEVEL)] == ["Hard", "Normal"]


def test_a_healthy_node_changes_nothing() -> None:
    assert replayed(recorded(at, CALM + at // 600 / 10, having=pods(web=7)) for at in range(0, 3600, 10)) == (
        [],
        [],
    )


def test_a_node_is_asked_once_while_its_pressure_lasts_since_history_still_has_the_pod() -> None:
    changes, _ = replayed(leaking(until=3600))
    assert len(those(changes, What.WOULD_EVICT)) == 1


def test_a_node_that_comes_under_pressure_again_is_asked_again_within_the_limits() -> None:
    again = [*leaking(), *leaking(400), *leaking(800)]
    changes, _ = replayed(again, a_pressure(eviction={"maxPodsPerNode": 2, "periodSeconds": 3600}))
    assert seconds_of(those(changes, What.WOULD_EVICT)) == [80.0, 480.0]
    (limited,) = those(changes, What.WOULD_NOT_EVICT)
    assert seconds_of([limited]) == [880.0]
    assert "maxPodsPerNode" in limited.message


def test_where_no_pods_are_recorded_an_eviction_is_right_and_of_no_pod() -> None:
    changes, _ = replayed(leaking(with_pods=False))
    (chosen,) = those(changes, What.WOULD_EVICT)
    assert (chosen.pod, "the recording has no pods" in chosen.message) == ("", True)


def test_a_pool_that_reads_no_kubelets_evicts_nothing() -> None:
    pool = a_pressure(sources=[{"type": "Prometheus", "prometheus": {"dataSource": "main"}}])
    of_exporter = [
        recorded(each.at - BEGAN, (each.sample.commit_total or 0) / GIB, source=PROMETHEUS, having=each.pods)
        for each in leaking()
    ]
    changes, _ = replayed(of_exporter, pool)
    assert those(changes, What.WOULD_EVICT) == []
    (not_evicted,) = those(changes, What.WOULD_NOT_EVICT)
    assert "without the source Kubelet" in not_evicted.message


def test_samples_that_do_not_say_how_much_is_left_are_told() -> None:
    unlimited = [each._replace(sample=replace(each.sample, commit_limit=None)) for each in leaking()]
    changes, faults = replayed(unlimited)
    assert changes == []
    (told,) = faults
    assert told.startswith("Samples after which the level of Commit is not known: 19; the first is of w1 at ")


def test_pods_of_which_nothing_is_known_are_not_chosen() -> None:
    unknown = [
        each._replace(pods=each.pods and (RecordedPod("a", "shop", "a", PodUsage()),)) for each in leaking()
    ]
    changes, _ = replayed(unknown)
    assert those(changes, What.WOULD_EVICT) == []
    (not_evicted,) = those(changes, What.WOULD_NOT_EVICT)
    assert "1 unknown usage" in not_evicted.message


def test_a_rule_of_the_pool_protects_a_pod() -> None:
    never = a_pressure(eviction={"rules": [{"namespaces": ["shop"], "behavior": "Never"}]})
    changes, _ = replayed(leaking(), never)
    assert those(changes, What.WOULD_EVICT) == []
    assert "2 rule" in those(changes, What.WOULD_NOT_EVICT)[0].message


def test_where_many_nodes_are_under_pressure_nothing_is_evicted() -> None:
    samples = [each for name in ("w1", "w2", "w3") for each in leaking(node=name)]
    changes, _ = replayed(samples)
    assert those(changes, What.WOULD_EVICT) == []
    assert {each.node for each in those(changes, What.WOULD_NOT_EVICT)} == {"w1", "w2", "w3"}
    assert all("maxPressuredNodes" in each.message for each in those(changes, What.WOULD_NOT_EVICT))


def test_nodes_have_evictions_one_after_the_other() -> None:
    samples = [each for name in ("w1", "w2", "w3") for each in leaking(node=name, until=600)]
    changes, _ = replayed(samples, a_pressure(eviction={"maxPressuredNodes": "100%"}))
    assert seconds_of(those(changes, What.WOULD_EVICT)) == [80.0, 110.0, 140.0]


def test_what_happens_on_one_node_is_not_said_of_another() -> None:
    calm = [recorded(at, CALM, node="w2", having=pods(web=7)) for at in range(0, 200, 10)]
    changes, _ = replayed([*leaking(), *calm])
    assert {each.node for each in changes} == {"w1"}
    assert len(those(changes, What.WOULD_EVICT)) == 1


def test_a_node_that_was_deleted_is_no_node_that_is_unknown() -> None:
    gone = [recorded(at, CALM, node=name) for name in ("w2", "w3", "w4") for at in range(0, 60, 10)]
    changes, _ = replayed([*gone, *leaking(800)])
    assert len(those(changes, What.WOULD_EVICT)) == 1
    changes, _ = replayed([*gone, *leaking(400)])
    assert those(changes, What.WOULD_EVICT) == [], "they may be under pressure"


def test_samples_a_minute_apart_never_show_that_an_eviction_is_right() -> None:
    changes, _ = replayed(leaking(every=60, until=1200))
    assert those(changes, What.WOULD_EVICT) == []
    assert [each.level for each in those(changes, What.LEVEL)] == ["Hard"]
    (undecided,) = those(changes, What.WOULD_NOT_EVICT)
    assert "needs two samples of the last 55 s" in undecided.message


def test_a_gap_is_told_and_is_no_evidence() -> None:
    before = [recorded(at, CALM) for at in range(0, 60, 10)]
    after = [recorded(4000, HARD)]
    changes, faults = replayed([*before, *after, recorded(9000, HARD)])
    assert [each.what for each in changes] == [What.LEVEL], "one sample signals nothing"
    assert faults == [
        "Gaps of more than 120 s, in which nothing is known of a node: 2; the first is 3950 s on w1, until "
        "2026-01-01T01:06:40Z."
    ]


def test_samples_of_a_source_that_the_pool_does_not_name_are_told_and_left_out() -> None:
    other = [recorded(at, HARD, source=PROMETHEUS) for at in range(0, 100, 10)]
    changes, faults = replayed(other)
    assert changes == []
    assert faults == [
        f"Samples of sources that the pool does not name, left out: 10; the first is {PROMETHEUS}."
    ]


def test_values_that_prometheus_repeats_of_an_exporter_that_is_gone_say_nothing() -> None:
    pool = a_pressure(sources=[{"type": "Prometheus", "prometheus": {"dataSource": "main"}}])
    first = recorded(0, CALM, source=PROMETHEUS)
    last = recorded(30, HARD, source=PROMETHEUS)
    repeated = [
        last._replace(at=last.at + more, sample=replace(last.sample, arrived_at=last.at + more, age=more))
        for more in range(30, 300, 30)
    ]
    changes, _ = replayed([first, last, *repeated], pool)
    assert [each.what for each in changes] == [What.LEVEL]


def test_memory_that_no_pod_has_evicts_no_pod() -> None:
    grows = [
        recorded(at, 12 + at / 50, having=pods(web=7.0), pool_nonpaged=at / 50 * GIB)
        for at in range(0, 600, 10)
    ]
    changes, _ = replayed(grows)
    assert those(changes, What.WOULD_EVICT) == []
    assert "belongs to no pod" in those(changes, What.UNATTRIBUTED)[0].message
