"""By how much the pods of a node have grown since it was calm."""

from __future__ import annotations

from harness.memory import GIB
from winpool.features.memory.victims import NO_PODS, PodHistory
from winpool.model.pressure import PodUsage

HOUR = 3600.0


def listed(
    history: PodHistory, *, at: float, is_calm: bool, committed: float | None = None, **used: float
) -> PodHistory:
    """Return the history with a list of pods: what each has committed, in GiB, and half of it in RAM."""
    pods = {name: PodUsage(gib * GIB, gib * GIB / 2) for name, gib in used.items()}
    whole = None if committed is None else committed * GIB
    return history.listed(pods, at=at, is_calm=is_calm, committed=whole)


def grown(history: PodHistory, *, now: float) -> dict[str, float | None]:
    """Return by how many GiB each pod has grown, by what it has committed."""
    usage = history.usage(now=now, committed=None)
    assert usage is not None
    assert all(each.commit_growth == 2 * (each.working_set_growth or 0) for each in usage.pods.values())
    return {
        name: None if each.commit_growth is None else each.commit_growth / GIB
        for name, each in usage.pods.items()
    }


def bases(history: PodHistory) -> list[float]:
    """Return when the lists were made from which growth is counted."""
    return [each.at for each in history.bases]


def test_the_growth_of_a_pod_is_that_since_its_node_was_calm() -> None:
    calm = listed(NO_PODS, at=0.0, is_calm=True, a=1, b=4)
    assert grown(calm, now=0.0) == {"a": 0, "b": 0}
    hot = listed(calm, at=10.0, is_calm=False, a=2, b=4)
    assert grown(hot, now=10.0) == {"a": 1, "b": 0}
    hot = listed(hot, at=3599.0, is_calm=False, a=8, b=3.5)
    assert grown(hot, now=3599.0) == {"a": 7, "b": -0.5}


def test_the_list_that_growth_begins_with_is_replaced_while_the_node_is_calm() -> None:
    first = listed(NO_PODS, at=0.0, is_calm=True, a=1)
    assert bases(listed(first, at=300.0, is_calm=True, a=2)) == [300.0]
    hot = listed(first, at=300.0, is_calm=False, a=2)
    assert bases(hot) == [0.0]
    calm = listed(hot, at=600.0, is_calm=True, a=3)
    assert (bases(calm), grown(calm, now=600.0)) == ([600.0], {"a": 0})


def test_on_a_node_that_stays_under_pressure_growth_is_that_of_the_last_one_to_two_hours() -> None:
    """The node is calm at first, and then no more for a day: its pod grows by 4 MiB in 10 seconds."""
    history = listed(NO_PODS, at=0.0, is_calm=True, a=1)
    spans = dict[float, float]()
    for turn in range(1, 8641):
        at = 10.0 * turn
        history = listed(history, at=at, is_calm=False, a=1 + turn / 256)
        spans[at] = 10 * 256 * (grown(history, now=at)["a"] or 0.0)
    assert all(span == at for at, span in spans.items() if at < 2 * HOUR)
    later = {span for at, span in spans.items() if at >= 2 * HOUR}
    assert (min(later), max(later)) == (HOUR, 2 * HOUR - 10)


def test_where_the_node_was_not_calm_since_the_start_growth_begins_with_the_first_list() -> None:
    history = listed(NO_PODS, at=0.0, is_calm=False, a=4)
    assert grown(history, now=0.0) == {"a": 0}
    assert grown(listed(history, at=10.0, is_calm=False, a=5), now=10.0) == {"a": 1}


def test_a_number_that_the_list_of_then_lacks_comes_from_the_first_list_that_has_it() -> None:
    """A pod that is in neither has started since."""
    history = NO_PODS.listed(
        {"a": PodUsage(None, GIB), "b": PodUsage(GIB, None)}, at=0.0, is_calm=True, committed=None
    )
    for turn in (1, 2):
        gib = turn * GIB
        pods = dict.fromkeys(("a", "b"), PodUsage(4 * gib, 2 * gib)) | {"new": PodUsage(8 * gib, 6 * gib)}
        history = history.listed(pods, at=10.0 * turn, is_calm=False, committed=None)
    usage = history.usage(now=20.0, committed=None)
    assert usage is not None
    assert {name: (each.commit_growth, each.working_set_growth) for name, each in usage.pods.items()} == {
        "a": (4 * GIB, 3 * GIB),
        "b": (7 * GIB, 2 * GIB),
        "new": (16 * GIB, 12 * GIB),
    }


def test_a_number_that_the_list_of_a_calm_node_lacks_is_that_of_the_list_before() -> None:
    """Of a pod that is not in two of them nothing is kept."""
    history = listed(NO_PODS, at=0.0, is_calm=True, a=1, b=2, c=3)
    history = history.listed({"a": PodUsage(None, None)}, at=300.0, is_calm=True, committed=None)
    hot = listed(history, at=310.0, is_calm=False, a=2, b=3, c=3)
    assert grown(hot, now=310.0) == {"a": 1, "b": 1, "c": 0}
    history = listed(history, at=600.0, is_calm=True, a=1)
    assert grown(listed(history, at=610.0, is_calm=False, b=3), now=610.0) == {"b": 3}


def test_growth_is_unknown_where_what_the_pod_uses_is() -> None:
    history = listed(NO_PODS, at=0.0, is_calm=True, a=1)
    history = history.listed({"a": PodUsage(None, GIB)}, at=10.0, is_calm=False, committed=None)
    usage = history.usage(now=10.0, committed=None)
    assert usage is not None
    assert usage.pods == {"a": PodUsage(None, GIB, None, GIB / 2)}


def test_the_growth_of_the_node_is_known_where_what_it_had_committed_then_and_has_now_is() -> None:
    known = listed(NO_PODS, at=0.0, is_calm=True, committed=12)
    unknown = listed(NO_PODS, at=0.0, is_calm=True)
    found = [
        history.usage(now=0.0, committed=now)
        for history, now in ((known, 20.0 * GIB), (known, None), (unknown, 20.0 * GIB))
    ]
    assert [each and each.grown for each in found] == [8 * GIB, None, None]
    learnt = listed(unknown, at=10.0, is_calm=False, committed=15)
    usage = learnt.usage(now=10.0, committed=20.0 * GIB)
    assert usage is not None
    assert usage.grown == 5 * GIB, "it is that of the first list that has it"


def test_the_pods_of_a_calm_node_are_due_after_five_minutes() -> None:
    assert NO_PODS.is_due(now=0.0)
    history = listed(NO_PODS, at=100.0, is_calm=True, a=1)
    assert not history.is_due(now=399.9)
    assert history.is_due(now=400.0)


def test_a_list_of_pods_that_is_too_old_says_nothing() -> None:
    history = listed(NO_PODS, at=100.0, is_calm=True, a=1)
    assert history.usage(now=155.0, committed=None) is not None
    assert history.usage(now=155.1, committed=None) is None
    history = listed(history, at=200.0, is_calm=False, a=1)
    assert history.usage(now=245.0, committed=None) is not None, "that of the calm node may be older"
