"""status.history: an entry for each target, which begins and ends with the nodes that are due for it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.builders import MINUTE, NOON, a_pool, deleted, unreadable, with_status
from harness.upgrade_views import (
    NOTHING_DUE,
    ONE_DUE,
    UPGRADING,
    an_override,
    an_overview,
    due,
    overviews,
    reported,
    upgrading,
)
from winpool.api.status import MAX_HISTORY, HistoryEntry, HistoryResult, WindowsNodePoolStatus
from winpool.api.upgrade import Gate
from winpool.features.upgrade.records import UpgradeOverview
from winpool.model.pool import Pool
from winpool.status.status import history

Told = tuple[str, int, int | None, int, str, tuple[str, ...]]
"""Target, minutes of start and end, nodes, result, overrides."""

UNKNOWN: Final = an_overview(unknown=("w2",))
OTHER: Final = an_overview(due("w1"), due("w2"), target="2022.4100")


def then(pool: Pool, overview: UpgradeOverview | None, minute: float) -> Pool:
    """Return the pool with the history that it has after a pass."""
    found = history(pool, overview, now=NOON + minute * MINUTE)
    return with_status(pool, pool.status.model_copy(update={"history": found}))


def story(*found: UpgradeOverview | None) -> list[Told]:
    """Return the history after passes that find that, a minute after the other."""
    pool = a_pool(more=UPGRADING)
    for minute, overview in enumerate(found):
        pool = then(pool, overview, minute)
    return [told(each) for each in pool.status.history]


def told(entry: HistoryEntry) -> Told:
    end = None if entry.end_time is None else (entry.end_time - NOON) // MINUTE
    start = (entry.start_time - NOON) // MINUTE
    return entry.target, start, end, entry.nodes, entry.result.value, entry.overrides


def test_before_anything_was_due_there_is_none() -> None:
    assert story(NOTHING_DUE, UNKNOWN, None, NOTHING_DUE) == []


def test_an_entry_begins_with_the_first_node_that_is_due() -> None:
    assert story(NOTHING_DUE, ONE_DUE, ONE_DUE) == [("2022.4052", 1, None, 1, "InProgress", ())]


def test_it_ends_when_none_is_due_any_more() -> None:
    assert story(ONE_DUE, ONE_DUE, NOTHING_DUE, NOTHING_DUE) == [("2022.4052", 0, 2, 1, "Succeeded", ())]


def test_a_node_that_is_due_again_goes_on_with_an_entry_that_has_just_ended() -> None:
    flipping = [ONE_DUE, NOTHING_DUE] * 20
    assert story(ONE_DUE, NOTHING_DUE, ONE_DUE) == [("2022.4052", 0, None, 1, "InProgress", ())]
    assert story(*flipping) == [("2022.4052", 0, len(flipping) - 1, 1, "Succeeded", ())]


def test_after_an_hour_it_is_another_entry() -> None:
    pool = then(then(a_pool(more=UPGRADING), ONE_DUE, 0), NOTHING_DUE, 1)
    assert [told(each)[1:3] for each in then(pool, ONE_DUE, 60.9).status.history] == [(0, None)]
    assert [told(each)[1:3] for each in then(pool, ONE_DUE, 61).status.history] == [(61, None), (0, 1)]


def test_another_target_supersedes_it() -> None:
    assert story(ONE_DUE, OTHER) == [
        ("2022.4100", 1, None, 2, "InProgress", ()),
        ("2022.4052", 0, 1, 1, "Superseded", ()),
    ]


def test_a_target_that_all_nodes_have_already_supersedes_it_too() -> None:
    assert story(ONE_DUE, an_overview(target="2022.3000")) == [("2022.4052", 0, 1, 1, "Superseded", ())]


def test_a_node_of_which_nothing_is_known_keeps_it_open() -> None:
    assert story(ONE_DUE, UNKNOWN, UNKNOWN) == [("2022.4052", 0, None, 1, "InProgress", ())]


def test_it_counts_the_most_nodes_that_were_due_at_once() -> None:
    three = an_overview(due("w1"), due("w2"), due("w3"))
    assert story(ONE_DUE, three, ONE_DUE) == [("2022.4052", 0, None, 3, "InProgress", ())]


def test_it_names_every_override_that_was_in_force_meanwhile() -> None:
    images = replace(ONE_DUE, in_force=(an_override(Gate.IMAGES),))
    matrix = replace(ONE_DUE, in_force=(an_override(Gate.SUPPORT_MATRIX),))
    [found] = story(ONE_DUE, images, ONE_DUE, matrix, NOTHING_DUE)
    assert found[-1] == ("SupportMatrix", "Images")


def test_what_is_over_stays_as_it_was() -> None:
    found = story(ONE_DUE, NOTHING_DUE, OTHER, replace(OTHER, in_force=(an_override(Gate.IMAGES),)))
    assert found == [
        ("2022.4100", 2, None, 2, "InProgress", ("Images",)),
        ("2022.4052", 0, 1, 1, "Succeeded", ()),
    ]


def test_there_are_ten_at_most_and_the_oldest_go() -> None:
    targets = [an_overview(due("w1"), target=f"2022.{number}") for number in range(MAX_HISTORY + 5)]
    found = story(*targets)
    assert [each[0] for each in found] == [f"2022.{number}" for number in reversed(range(5, MAX_HISTORY + 5))]


def test_it_stays_while_the_spec_cannot_be_read_and_while_the_pool_is_deleted() -> None:
    pool = then(a_pool(more=UPGRADING), ONE_DUE, 0)
    for other in (unreadable(pool), deleted(pool), pool):
        assert history(other, None, now=NOON + MINUTE) == pool.status.history


def test_a_pool_that_asks_for_no_upgrades_any_more_goes_on_with_none() -> None:
    pool = replace(then(a_pool(more=UPGRADING), ONE_DUE, 0), spec=a_pool().spec)
    [found] = history(pool, None, now=NOON + 3 * MINUTE)
    assert told(found) == ("2022.4052", 0, 3, 1, "Superseded", ())
    assert history(with_status(pool, WindowsNodePoolStatus(history=(found,))), None, now=NOON) == (found,)


def test_a_long_target_is_one_target() -> None:
    long = an_overview(due("w1"), target="x" * 200)
    assert len(story(long, long, long)) == 1


def test_a_clock_that_was_set_back_ends_nothing_before_it_began() -> None:
    pool = then(a_pool(more=UPGRADING), ONE_DUE, 10)
    [found] = then(pool, NOTHING_DUE, 0).status.history
    assert found.end_time == found.start_time == NOON + 10 * MINUTE


@pytest.mark.slow
@given(st.lists(overviews(), max_size=6))
def test_it_is_always_well_formed(found: Sequence[UpgradeOverview]) -> None:
    pool = a_pool(more=UPGRADING)
    for minute, overview in enumerate(found):
        pool = then(pool, overview, minute + 0.507)
        entries = pool.status.history
        assert all(each.result is not HistoryResult.IN_PROGRESS for each in entries[1:])
        assert all((each.end_time is None) == (each.result is HistoryResult.IN_PROGRESS) for each in entries)
        assert all(each.start_time.microsecond == 0 for each in entries)
        moments = [
            moment for each in reversed(entries) for moment in (each.start_time, each.end_time) if moment
        ]
        assert moments == sorted(moments)
        if overview.due:
            assert entries
            assert entries[0].result is HistoryResult.IN_PROGRESS
        assert WindowsNodePoolStatus.model_validate(pool.status.to_object()) == pool.status


@given(overviews(), st.integers(1, 10**6))
def test_alone_it_never_causes_a_write(overview: UpgradeOverview, seconds: int) -> None:
    pool = then(a_pool(more=UPGRADING), overview, 0)
    assert history(pool, overview, now=NOON + timedelta(seconds=seconds)) == pool.status.history


def test_it_is_in_the_status_that_is_written() -> None:
    written = reported(upgrading(), ONE_DUE).pool.status.to_object()["history"]
    assert written == [
        {
            "target": "2022.4052",
            "startTime": "2026-11-01T12:00:00Z",
            "nodes": 1,
            "failedNodes": 0,
            "result": "InProgress",
            "overrides": [],
        }
    ]
