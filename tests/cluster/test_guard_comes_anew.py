"""The guard goes and comes back: what was forged meanwhile has its name, and gains no right by that (P3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

import pytest

from cluster.forging import (
    await_guarded,
    claims_of_ours,
    claims_on,
    forge,
    guard_of,
    is_restricted,
    restrict,
    uid_of,
)
from cluster.guarding import Guard
from cluster.patient import PatientKubelet
from harness.waiting import eventually, holds
from harness.world import World

INTERRUPTIONS: Final[dict[str, tuple[Callable[[Guard], None], Callable[[Guard], None]]]] = {
    "binding-made-anew": (Guard.lift, Guard.install),
    "both-made-anew": (Guard.remove, Guard.install),
    "audits-for-a-while": (Guard.soften, Guard.harden),
}
"""How the guard goes and how it comes back; after the last one all names and UIDs are as they were."""


@pytest.mark.nightly
@pytest.mark.parametrize("interruption", INTERRUPTIONS)
def test_a_record_forged_while_the_guard_was_away_gives_no_right_with_the_name_of_the_guard(
    guard: Guard, unguarded: World, interruption: str
) -> None:
    """No operator runs meanwhile, so that nothing but the guard itself can tell that it was away."""
    go, come_back = INTERRUPTIONS[interruption]
    guard.install()
    names = unguarded.fleet(windows=3)
    forger = names[0]
    restrict(unguarded, [forger])
    before = unguarded.carried()
    pool = unguarded.apply(unguarded.pool(labels={"example.com/tier": "gold"}))
    unguarded.operator.start()
    unguarded.wait_up_to_date(pool, nodes=3)
    old = await_guarded(unguarded)
    unguarded.operator.kill()
    go(guard)
    forge(unguarded, forger, claims_of_ours(unguarded, pool, guard=old))
    come_back(guard)

    start = unguarded.now()
    unguarded.operator.start()
    new = await_guarded(unguarded, other_than=old)
    assert new != old
    holds(lambda: unguarded.operator.running, seconds=2)  # time to write once too often
    assert Counter(unguarded.patched_nodes(since=start)) == dict.fromkeys(names, 1)
    assert is_restricted(unguarded, forger)
    unguarded.delete(pool)
    assert unguarded.carried() == before


@pytest.mark.nightly
def test_while_the_guard_is_away_its_name_gives_no_right(guard: Guard, unguarded: World) -> None:
    """The operator runs all the time; the forger deletes nothing and waits for no restart."""
    guard.install()
    forger, honest = unguarded.fleet(windows=2)
    restrict(unguarded, [forger])
    before = unguarded.carried()
    pool = unguarded.apply(unguarded.pool(labels={"example.com/tier": "gold"}))
    unguarded.operator.start()
    unguarded.wait_up_to_date(pool, nodes=2)
    old = await_guarded(unguarded)
    guard.remove()
    forge(unguarded, forger, claims_of_ours(unguarded, pool, guard=old))
    unguarded.apply(unguarded.pool(labels={"example.com/tier": "silver"}))
    unguarded.wait_up_to_date(pool, nodes=2)
    assert is_restricted(unguarded, forger)
    assert {guard_of(unguarded.node(honest))} <= {"", old}
    start = unguarded.now()
    guard.install()
    await_guarded(unguarded, other_than=old)
    holds(lambda: unguarded.operator.running, seconds=2)  # time to write once too often
    assert unguarded.patched_nodes(since=start).count(honest) == 1
    assert is_restricted(unguarded, forger)
    unguarded.delete(pool)
    assert unguarded.carried() == before


def test_a_kubelet_that_forges_as_soon_as_it_learns_the_name_of_a_new_guard_is_too_late(
    guard: Guard, unguarded: World
) -> None:
    """API servers take a policy up a second after it is there, and each of them at its own time."""
    (name,) = unguarded.fleet(windows=1)
    restrict(unguarded, [name])
    before = unguarded.carried()
    pool = unguarded.apply(unguarded.pool(labels={"example.com/tier": "gold"}))
    unguarded.operator.start()
    unguarded.wait_up_to_date(pool, nodes=1)
    uid = uid_of(unguarded, pool)
    with PatientKubelet(unguarded, name, forge=lambda guard: claims_on(uid, guard=guard)) as kubelet:
        guard.install()
        await_guarded(unguarded)
        eventually(lambda: kubelet.tries, what="the kubelet has tried")
    unguarded.apply(unguarded.pool(labels={"example.com/tier": "silver"}))
    unguarded.wait_up_to_date(pool, nodes=1)
    assert is_restricted(unguarded, name)
    unguarded.delete(pool)
    assert unguarded.carried() == before
