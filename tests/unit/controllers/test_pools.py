"""The pools that are known, from three sources out of step: the newest wins, and gone is gone for certain."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import winpool.controllers.pools
from harness.builders import Object, a_body
from winpool.controllers.pools import Absences, Pools
from winpool.loops import Clock
from winpool.model.pool import Pool, PoolName, read_pool


class Changes:
    """Notes what is told of changes."""

    def __init__(self) -> None:
        self.all: list[tuple[str, bool]] = []

    def __call__(self, name: str, *, for_rivals: bool) -> None:
        self.all.append((name, for_rivals))

    def taken(self) -> list[tuple[str, bool]]:
        """Return what was told since the last call."""
        told, self.all = self.all, []
        return told


@pytest.fixture
def changes() -> Changes:
    return Changes()


def some_pools(changes: Changes | None = None) -> Pools:
    """Return pools to which each two lists are far enough apart."""
    return Pools(
        on_change=changes or Changes(),
        absences=Absences(grace_seconds=0, clock=Clock(monotonic=lambda: 0.0)),
    )


@pytest.fixture
def pools(changes: Changes) -> Pools:
    return some_pools(changes)


def version_of(pools: Pools, name: str = "pool") -> str | None:
    pool = pools.get(name)
    return None if pool is None else pool.resource_version


# Accepting


def test_a_pool_is_known_by_its_name(pools: Pools) -> None:
    pools.accept(a_body("a"))
    pools.accept(a_body("b"))
    assert {pool.name for pool in pools.all()} == {"a", "b"}
    found = pools.get("a")
    assert found is not None
    assert found.uid == "uid-of-a"
    assert pools.get("c") is None


@pytest.mark.parametrize(
    ("first", "second", "held"), [(1, 2, "2"), (2, 1, "2"), (9, 10, "10"), (10, 9, "10")]
)
def test_the_newest_version_wins_whoever_comes_last(pools: Pools, first: int, second: int, held: str) -> None:
    """Versions are numbers, not texts: 10 is newer than 9."""
    pools.accept(a_body(version=first))
    pools.accept(a_body(version=second))
    assert version_of(pools) == held


@given(st.permutations(range(1, 8)))
def test_the_order_of_arrival_does_not_matter(versions: list[int]) -> None:
    pools = some_pools()
    for version in versions:
        pools.accept(a_body(version=version))
    assert version_of(pools) == "7"


def test_what_is_no_news_wakes_nobody(pools: Pools, changes: Changes) -> None:
    pools.accept(a_body(version=5))
    changes.taken()
    pools.accept(a_body(version=5))
    pools.accept(a_body(version=4, generation=9))
    assert changes.taken() == []


@pytest.mark.parametrize(
    ("news", "for_rivals"),
    [
        (a_body(version=2), False),
        (a_body(version=2) | {"status": {"observedGeneration": 1}}, False),
        (a_body(version=2, finalizers=["winpool.dev/release-nodes"]), False),
        (a_body(version=2, generation=2), True),
        (a_body(version=2, generation=1, deletionTimestamp="2026-11-01T13:00:00Z"), True),
        (a_body(version=2, uid="another"), True),
    ],
    ids=["metadata", "status", "finalizer", "spec", "deletion", "another object"],
)
def test_rivals_hear_of_what_decides_on_nodes_only(
    pools: Pools, changes: Changes, news: Object, for_rivals: bool
) -> None:
    pools.accept(a_body(version=1))
    assert changes.taken() == [("pool", True)]
    pools.accept(news)
    assert changes.taken() == [("pool", for_rivals)]


# Forgetting


def test_a_deleted_pool_is_forgotten_and_rivals_hear_of_it(pools: Pools, changes: Changes) -> None:
    pools.accept(a_body())
    changes.taken()
    pools.forget(name="pool", uid="uid-of-pool", version="1")
    assert pools.get("pool") is None
    assert pools.all() == ()
    assert changes.taken() == [("pool", True)]


def test_a_late_deletion_does_not_take_the_successor_of_the_same_name(pools: Pools, changes: Changes) -> None:
    pools.accept(a_body(uid="second", version=9))
    changes.taken()
    pools.forget(name="pool", uid="first", version="1")
    assert version_of(pools) == "9"
    assert changes.taken() == []


def test_forgetting_who_is_not_known_wakes_nobody(pools: Pools, changes: Changes) -> None:
    pools.forget(name="pool", uid="uid-of-pool", version="1")
    assert changes.taken() == []


def test_a_pool_created_again_is_taken_in(pools: Pools) -> None:
    pools.accept(a_body(uid="first", version=3))
    pools.accept(a_body(uid="second", version=8))
    found = pools.get("pool")
    assert found is not None
    assert found.uid == "second"


# Complete lists


def test_nothing_is_certain_before_the_first_complete_list(pools: Pools) -> None:
    assert not pools.synced
    pools.accept(a_body())
    assert not pools.synced
    pools.replace([], resource_version="1", began=0.0)
    assert pools.synced


def test_who_is_not_on_a_complete_list_is_dropped(pools: Pools, changes: Changes) -> None:
    pools.accept(a_body("a", version=3))
    pools.accept(a_body("b", version=4))
    changes.taken()
    pools.replace([a_body("b", version=4), a_body("c", version=6)], resource_version="7", began=0.0)
    assert {pool.name for pool in pools.all()} == {"b", "c"}
    assert sorted(changes.taken()) == [("a", True), ("c", True)]


def test_who_is_newer_than_the_list_is_kept(pools: Pools) -> None:
    """Created after the list was made, and heard of before the list arrived."""
    pools.accept(a_body("young", version=12))
    pools.replace([a_body("old", version=3)], resource_version="9", began=0.0)
    assert {pool.name for pool in pools.all()} == {"old", "young"}


def test_a_list_does_not_bring_back_what_is_older(pools: Pools) -> None:
    pools.accept(a_body(version=12, generation=4))
    pools.replace([a_body(version=8, generation=3)], resource_version="9", began=0.0)
    assert version_of(pools) == "12"


def test_a_list_that_says_nothing_new_wakes_nobody(pools: Pools, changes: Changes) -> None:
    bodies = [a_body("a", version=3), a_body("b", version=4)]
    pools.replace(bodies, resource_version="7", began=0.0)
    changes.taken()
    pools.replace(bodies, resource_version="9", began=0.0)
    assert changes.taken() == []


def test_a_pool_on_the_list_that_cannot_be_read_is_not_dropped(pools: Pools) -> None:
    pools.accept(a_body(version=3))
    pools.replace([a_body(version=5) | {"spec": {}}], resource_version="7", began=0.0)
    found = pools.get("pool")
    assert found is not None
    assert (found.spec, found.resource_version) == (None, "5")


# What is said late, and a server that was put back


def test_what_is_said_late_does_not_bring_a_pool_back(pools: Pools, changes: Changes) -> None:
    """The echo of our own last write, or a line of the watch that was on its way."""
    pools.accept(a_body(version=3))
    pools.forget(name="pool", uid="uid-of-pool", version="5")
    changes.taken()
    pools.accept(a_body(version=4))
    pools.accept(a_body(version=6))
    pools.replace([a_body(version=4)], resource_version="4", began=0.0)  # asked for before it went
    assert pools.all() == ()
    assert changes.taken() == []


def test_a_pool_that_a_later_list_still_has_is_there(pools: Pools) -> None:
    """Only a server that was put back can have it; but then it is right."""
    pools.accept(a_body(version=3))
    pools.forget(name="pool", uid="uid-of-pool", version="5")
    pools.replace([a_body(version=4)], resource_version="9", began=0.0)
    assert version_of(pools) == "4"
    pools.accept(a_body(version=10))
    assert version_of(pools) == "10"


def test_of_pools_that_went_only_so_many_are_remembered(pools: Pools) -> None:
    for number in range(2000):
        pools.forget(name="pool", uid=f"uid-{number}", version="5")
    pools.accept(a_body("last", uid="uid-1999"))
    pools.accept(a_body("first", uid="uid-0"))
    assert [pool.name for pool in pools.all()] == ["first"]


def test_the_newest_version_is_that_of_any_list_or_object(pools: Pools) -> None:
    assert pools.newest_version == ""
    pools.replace([a_body(version=3)], resource_version="10", began=0.0)
    assert pools.newest_version == "10"
    pools.accept(a_body(version=12))
    pools.accept(a_body("other", version=11))
    assert pools.newest_version == "12"


def test_a_list_of_a_server_that_was_put_back_is_right_in_everything(pools: Pools) -> None:
    pools.accept(a_body("kept", version=30, generation=5))
    pools.accept(a_body("created-since", version=31))
    pools.accept(a_body("deleted-since", version=9))
    pools.forget(name="deleted-since", uid="uid-of-deleted-since", version="32")
    back = [a_body("kept", version=8, generation=2), a_body("deleted-since", version=9)]
    pools.replace(back, resource_version="20", began=0.0, rewound=True)
    assert {pool.name: (pool.resource_version, pool.generation) for pool in pools.all()} == {
        "kept": ("8", 2),
        "deleted-since": ("9", 1),
    }
    assert pools.newest_version == "20"
    pools.accept(a_body("kept", version=21, generation=3))
    assert version_of(pools, "kept") == "21"


# Vanished: known to be gone, and not merely unknown


def listed(pools: Pools, *bodies: Object, version: int) -> None:
    pools.replace(bodies, resource_version=str(version), began=0.0)


def test_an_unknown_pool_is_not_gone_before_two_complete_lists(pools: Pools) -> None:
    assert not pools.is_vanished("stranger")
    listed(pools, version=1)
    assert not pools.is_vanished("stranger")
    listed(pools, version=2)
    assert pools.is_vanished("stranger")


def test_a_pool_that_was_deleted_is_gone_after_two_more_lists(pools: Pools) -> None:
    for version in (1, 2, 3):
        listed(pools, a_body(), version=version)
    pools.forget(name="pool", uid="uid-of-pool", version="1")
    assert not pools.is_vanished("uid-of-pool")
    listed(pools, version=4)
    assert not pools.is_vanished("uid-of-pool")
    listed(pools, version=5)
    assert pools.is_vanished("uid-of-pool")


def test_a_pool_that_is_known_is_never_gone(pools: Pools) -> None:
    """Heard of from the feed, and too young for any list."""
    pools.accept(a_body(version=99))
    for version in (1, 2, 3):
        listed(pools, version=version)
        assert not pools.is_vanished("uid-of-pool")
        assert not pools.is_vanished(PoolName("pool"))


def test_a_pool_that_turns_up_again_is_not_gone(pools: Pools) -> None:
    assert not pools.is_vanished("uid-of-pool")
    for version in (1, 2):
        listed(pools, version=version)
    assert pools.is_vanished("uid-of-pool")
    pools.accept(a_body(version=3))
    assert not pools.is_vanished("uid-of-pool")


def test_the_predecessor_of_the_same_name_is_gone_though_the_name_is_not(pools: Pools) -> None:
    assert not pools.is_vanished("first")
    for version in (1, 2):
        listed(pools, a_body(uid="second", version=1), version=version)
    assert pools.is_vanished("first")
    assert not pools.is_vanished("second")
    assert not pools.is_vanished(PoolName("pool"))


def test_a_pool_that_is_named_like_a_uid_does_not_have_that_uid(pools: Pools) -> None:
    pools.accept(a_body("uid-of-a-pool-that-went", uid="another", version=1))
    assert not pools.is_vanished("uid-of-a-pool-that-went")
    for version in (2, 3):
        listed(pools, a_body("uid-of-a-pool-that-went", uid="another", version=1), version=version)
    assert pools.is_vanished("uid-of-a-pool-that-went")
    assert not pools.is_vanished(PoolName("uid-of-a-pool-that-went"))


def test_the_name_of_a_uid_is_known_of_pools_that_are_there_and_that_went(pools: Pools) -> None:
    pools.accept(a_body())
    assert pools.name_of("uid-of-pool") == "pool"
    pools.forget(name="pool", uid="uid-of-pool", version="9")
    assert pools.name_of("uid-of-pool") == "pool"
    assert pools.name_of("stranger") is None


def test_lists_made_before_a_pool_was_first_named_say_nothing_of_it(pools: Pools) -> None:
    """It may have been created since, and seen on a node before it is seen itself (P4, two leaders)."""
    for version in (1, 2, 3):
        listed(pools, version=version)
    assert not pools.is_vanished("young")
    listed(pools, version=4)
    assert not pools.is_vanished("young")
    listed(pools, version=5)
    assert pools.is_vanished("young")


@given(st.lists(st.sampled_from(("accept", "forget", "list", "empty")), max_size=12))
def test_who_is_there_is_never_gone_and_never_doubled(story: list[str]) -> None:
    pools = some_pools()
    for version, step in enumerate(story, start=1):
        if step == "accept":
            pools.accept(a_body(version=version))
        elif step == "forget":
            pools.forget(name="pool", uid="uid-of-pool", version=str(version))
        else:
            listed(pools, *([a_body(version=version)] if step == "list" else []), version=version)
        known = pools.get("pool")
        assert pools.all() == (() if known is None else (known,))
        assert known is None or not pools.is_vanished(known.uid)


def test_a_pool_that_a_bug_keeps_from_being_read_is_refused_and_keeps_no_other_from_being_listed(
    pools: Pools, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(body: Object) -> Pool:
        if body["metadata"]["name"] == "a":
            raise OverflowError("date value out of range")
        return read_pool(body)

    monkeypatch.setattr(winpool.controllers.pools, "read_pool", broken)
    for version in (3, 4):
        pools.replace([a_body("a", version=version), a_body("b")], resource_version="9", began=0.0)
    found = pools.get("a")
    assert found is not None
    assert (found.spec, found.refusal) == (None, "the operator cannot read it: OverflowError")
    assert version_of(pools, "a") == "4"
    assert version_of(pools, "b") == "1"
    assert len([each for each in caplog.records if each.levelname == "ERROR"]) == 1
