"""Whose connections are kept: never more than the limit, and those of hot nodes first."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from winpool.kubelet import schedule as limits
from winpool.kubelet.schedule import MAX_KEPT, Keeping

COLD = [f"cold{number}" for number in range(MAX_KEPT)]


def filled() -> Keeping:
    """Return one that keeps connections of as many nodes as it may, none of them hot."""
    keeping = Keeping()
    for name in COLD:
        assert keeping.keeps(name, hot=set())
        keeping.done(name, sampled=True)
    return keeping


def test_in_a_small_fleet_all_connections_are_kept() -> None:
    keeping = filled()
    assert all(keeping.keeps(name, hot=set()) for name in COLD)
    assert not keeping.keeps("one-more", hot=set())


def test_a_hot_node_gets_the_place_of_one_that_is_not_once_that_one_is_closed() -> None:
    keeping, hot = filled(), {"hot"}
    assert not keeping.keeps("hot", hot=hot)
    keeping.done("hot", sampled=True)
    assert not keeping.keeps("cold0", hot=hot)
    assert not keeping.keeps("hot", hot=hot), "the connection to cold0 is still open"
    keeping.done("cold0", sampled=True)
    assert keeping.keeps("cold1", hot=hot), "one place is enough"
    assert keeping.keeps("hot", hot=hot)


def test_a_hot_node_keeps_its_place() -> None:
    keeping = filled()
    hot = {*COLD, "hotter"}
    assert all(keeping.keeps(name, hot=hot) for name in COLD)


def test_a_poll_that_fails_and_a_node_that_is_gone_free_a_place() -> None:
    keeping = filled()
    keeping.done("cold0", sampled=False)
    keeping.forget("cold1")
    assert keeping.keeps("next", hot=set())
    assert keeping.keeps("after-next", hot=set())
    assert not keeping.keeps("third", hot=set())


@given(data=st.data())
def test_never_more_connections_than_the_limit(data: st.DataObject) -> None:
    names = st.sampled_from([f"w{number}" for number in range(8)])
    with patch.object(limits, "MAX_KEPT", 3):
        keeping, connected = Keeping(), set[str]()
        for _ in range(data.draw(st.integers(1, 30))):
            name, hot = data.draw(names), data.draw(st.sets(names))
            keeps = keeping.keeps(name, hot=hot)
            if keeps:
                connected.add(name)
            assert len(connected) <= 3
            sampled = data.draw(st.booleans())
            keeping.done(name, sampled=sampled)
            if not (keeps and sampled):
                connected.discard(name)
