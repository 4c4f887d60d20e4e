"""The pools that are known, from three sources out of step: the newest wins, and gone is gone for certain."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

import winpool.controllers.pools
from bench.hostile import rival
from harness.builders import A_SPEC, Object, a_body
from winpool.controllers.pools import Absences, Pools
from winpool.loops import Clock
from winpool.model.pool import NO_ROOM, Pool, PoolName, read_pool


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
    pools.replace(
        map(pools.read, [a_body("b", version=4), a_body("c", version=6)]), resource_version="7", began=0.0
    )
    assert {pool.name for pool in pools.all()} == {"b", "c"}
    assert sorted(changes.taken()) == [("a", True), ("c", True)]


def test_who_is_newer_than_the_list_is_kept(pools: Pools) -> None:
    """Created after the list was made, and heard of before the list arrived."""
    pools.accept(a_body("young", version=12))
    pools.replace(map(pools.read, [a_body("old", version=3)]), resource_version="9", began=0.0)
    assert {pool.name for pool in pools.all()} == {"old", "young"}


def test_a_list_does_not_bring_back_what_is_older(pools: Pools) -> None:
    pools.accept(a_body(version=12, generation=4))
    pools.replace(map(pools.read, [a_body(version=8, generation=3)]), resource_version="9", began=0.0)
    assert version_of(pools) == "12"


def test_a_list_that_says_nothing_new_wakes_nobody(pools: Pools, changes: Changes) -> None:
    bodies = [a_body("a", version=3), a_body("b", version=4)]
    pools.replace(map(pools.read, bodies), resource_version="7", began=0.0)
    changes.taken()
    pools.replace(map(pools.read, bodies), resource_version="9", began=0.0)
    assert changes.taken() == []


def test_a_pool_on_the_list_that_cannot_be_read_is_not_dropped(pools: Pools) -> None:
    pools.accept(a_body(version=3))
    pools.replace(map(pools.read, [a_body(version=5) | {"spec": {}}]), resource_version="7", began=0.0)
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
    pools.replace(
        map(pools.read, [a_body(version=4)]), resource_version="4", began=0.0
    )  # asked for before it went
    assert pools.all() == ()
    assert changes.taken() == []


def test_a_pool_that_a_later_list_still_has_is_there(pools: Pools) -> None:
    """Only a server that was put back can have it; but then it is right."""
    pools.accept(a_body(version=3))
    pools.forget(name="pool", uid="uid-of-pool", version="5")
    pools.replace(map(pools.read, [a_body(version=4)]), resource_version="9", began=0.0)
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
    pools.replace(map(pools.read, [a_body(version=3)]), resource_version="10", began=0.0)
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
    whole = [pools.read(each, rewound=True) for each in back]
    pools.replace(whole, resource_version="20", began=0.0, rewound=True)
    assert {pool.name: (pool.resource_version, pool.generation) for pool in pools.all()} == {
        "kept": ("8", 2),
        "deleted-since": ("9", 1),
    }
    assert pools.newest_version == "20"
    pools.accept(a_body("kept", version=21, generation=3))
    assert version_of(pools, "kept") == "21"


# Vanished: known to be gone, and not merely unknown


def listed(pools: Pools, *bodies: Object, version: int) -> None:
    pools.replace(map(pools.read, bodies), resource_version=str(version), began=0.0)


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
    def broken(body: Object, **known: Any) -> Pool:
        if body["metadata"]["name"] == "a":
            raise OverflowError("date value out of range")
        return read_pool(body, **known)

    monkeypatch.setattr(winpool.controllers.pools, "read_pool", broken)
    for version in (3, 4):
        pools.replace(
            map(pools.read, [a_body("a", version=version), a_body("b")]), resource_version="9", began=0.0
        )
    found = pools.get("a")
    assert found is not None
    assert (found.spec, found.refusal) == (None, "the operator cannot read it: OverflowError")
    assert version_of(pools, "a") == "4"
    assert version_of(pools, "b") == "1"
    assert len([each for each in caplog.records if each.levelname == "ERROR"]) == 1


# How much is kept


def a_pool_body(name: str, *, values: int, minute: int = 0, **more: Any) -> Object:
    """Return a pool that selects nodes by so many values, created at that minute."""
    body = a_body(name, creationTimestamp=f"2026-11-01T12:{minute:02}:00Z", **more)
    own = [{"key": "key", "operator": "NotIn", "values": [f"{each}" for each in range(values)]}]
    return body | {"spec": {**A_SPEC, "nodeSelector": {"matchExpressions": own}}}


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for two pools with fifty values, or five with ten, which are of usual size."""
    monkeypatch.setattr(winpool.controllers.pools, "MOST_OF_ALL", 14_000)
    monkeypatch.setattr(winpool.controllers.pools, "ORDINARY", 3_000)


def unread(pools: Pools) -> set[str]:
    """Return the names of the pools whose spec is not kept."""
    assert {each.refusal for each in pools.all() if each.spec is None} <= {NO_ROOM}
    return {each.name for each in pools.all() if each.spec is None}


FIVE: Final = {
    "small": a_pool_body("small", values=10, minute=58),
    "smaller": a_pool_body("smaller", values=5, minute=59),
    "old": a_pool_body("old", values=50, minute=1),
    "new": a_pool_body("new", values=50, minute=2),
    "newest": a_pool_body("newest", values=50, minute=3),
}


@pytest.mark.usefixtures("room")
@given(st.permutations([*FIVE]))
def test_of_more_pools_than_there_is_room_for_the_largest_and_then_the_newest_are_refused(
    order: list[str],
) -> None:
    changes = Changes()
    pools = some_pools(changes)
    for name in order:
        changes.taken()
        before = unread(pools)
        pools.accept(FIVE[name])
        assert {(each, True) for each in unread(pools) - before} <= {*changes.taken()}
    assert unread(pools) == {"new", "newest"}
    again = some_pools()
    listed(again, *(FIVE[name] for name in order), version=2)
    assert unread(again) == {"new", "newest"}


def test_the_refusal_for_want_of_room_has_the_limit() -> None:
    assert f"{winpool.controllers.pools.MOST_OF_ALL // 2**20} MiB" in NO_ROOM


@pytest.mark.usefixtures("room")
def test_pools_of_usual_size_never_take_the_place_of_older_ones(pools: Pools) -> None:
    pools.accept(a_pool_body("mine", values=12, minute=0))
    for number in range(1, 30):
        pools.accept(a_pool_body(f"theirs-{number}", values=2, minute=number))
    assert 5 < len(unread(pools)) < 25
    assert "mine" not in unread(pools)


@pytest.mark.usefixtures("room")
def test_a_pool_that_was_refused_for_want_of_room_is_read_once_there_is_some(
    pools: Pools, changes: Changes
) -> None:
    bodies = [a_pool_body(name, values=50, minute=at, version=at) for at, name in enumerate("abc", start=1)]
    listed(pools, *bodies, version=5)
    assert unread(pools) == {"c"}
    changes.taken()
    listed(pools, *bodies, version=6)
    assert changes.taken() == []
    pools.forget(name="a", uid="uid-of-a", version="7")
    listed(pools, *bodies[1:], version=8)
    assert unread(pools) == set()
    assert ("c", True) in changes.taken()


@pytest.mark.usefixtures("room")
def test_a_spec_for_which_there_is_room_again_and_that_cannot_be_read_says_that(pools: Pools) -> None:
    whole = [a_pool_body(name, values=50, minute=at, version=at) for at, name in enumerate("ab", start=1)]
    wrong = a_pool_body("c", values=50, minute=3, version=3)
    wrong["spec"]["os"] = {"version": "a release of another planet"}
    listed(pools, *whole, wrong, version=5)
    assert unread(pools) == {"c"}
    pools.forget(name="b", uid="uid-of-b", version="6")
    listed(pools, whole[0], wrong, version=7)
    found = pools.get("c")
    assert found is not None
    assert "spec.os.version" in found.refusal


@pytest.mark.usefixtures("room")
def test_a_pool_whose_selector_grows_or_shrinks_takes_and_makes_room(pools: Pools) -> None:
    for at, name in enumerate("ab", start=1):
        pools.accept(a_pool_body(name, values=50, minute=at, version=at))
    pools.accept(a_pool_body("a", values=64, minute=1, version=3, generation=2))
    assert unread(pools) == {"a"}
    pools.accept(a_pool_body("a", values=50, minute=1, version=4, generation=3))
    assert unread(pools) == set()


@pytest.mark.usefixtures("room")
def test_a_successor_that_the_list_has_and_whose_predecessor_is_still_known_counts(pools: Pools) -> None:
    """The list is of another moment than the watch: its first page was read before the watch said DELETED."""
    pools.accept(a_pool_body("x", values=50, version=1, uid="first"))
    page: dict[str, Pool] = {}
    pools.read_page([a_pool_body("x", values=50, minute=1, version=3, uid="second")], into=page)
    pools.forget(name="x", uid="first", version="2")
    pools.replace(page.values(), resource_version="4", began=0.0)
    for at, name in enumerate("ab", start=5):
        pools.accept(a_pool_body(name, values=50, minute=at, version=at))
    pools.accept(a_pool_body("x", values=50, minute=1, version=9, uid="second"))
    assert unread(pools) == {"b"}


@pytest.mark.slow
@pytest.mark.parametrize("largest", ["first", "last"])
def test_of_very_many_large_pools_only_so_much_is_kept_also_while_they_are_listed(
    pools: Pools, monkeypatch: pytest.MonkeyPatch, largest: str
) -> None:
    most, count = 8 * 1024 * 1024, 90
    monkeypatch.setattr(winpool.controllers.pools, "MOST_OF_ALL", most)

    def bodies() -> Iterator[Object]:
        for number in range(count):
            fewer = number if largest == "first" else count - number
            body = rival(number) | {"metadata": a_body(f"rival-{number}", version=number + 1)["metadata"]}
            body["spec"]["nodeSelector"]["matchExpressions"][0]["values"][: fewer // 2] = []
            yield body

    page: dict[str, Pool] = {}
    tracemalloc.start()
    try:
        for each in bodies():
            pools.read_page([each], into=page)
        pools.replace(page.values(), resource_version="400", began=0.0)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most // 2 < kept < peak < most + count * 16 * 1024
    assert count // 3 < len(unread(pools)) < count * 2 // 3


def test_what_is_known_of_a_pool_is_not_read_again(pools: Pools, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of pools with a thousand values each are listed every five minutes."""
    known, read = a_body(version=5), list[str]()

    def noted(body: Object, *, refusal: str) -> Pool:
        read.append(body["metadata"]["resourceVersion"])
        return read_pool(body, refusal=refusal)

    monkeypatch.setattr(winpool.controllers.pools, "read_pool", noted)
    pools.accept(known)
    listed(pools, known, version=7)
    assert read == ["5"]
    pools.accept(a_body(version=9))
    assert read == ["5", "9"]
