"""What a pool says of two operators that both write, and until when it says what another one has added."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from harness.builders import MINUTE, NOON, a_node, a_pool, a_snapshot, by_name, deleted, with_status
from harness.services import some_services
from winpool.api.status import Issue
from winpool.controllers.services import KEPT_SECONDS, Observer
from winpool.decide import Decision, decide
from winpool.loops import Clock
from winpool.model.pool import Pool

HOLDER = "winpool-5b7_0a1b2c3d"


def decided(pool: Pool, *, other: str | None, minutes: int = 0) -> Decision:
    taken = a_snapshot(pool, by_name(a_node()), now=NOON + minutes * MINUTE)
    return decide(replace(taken, other_operator=other))


def of_operators(found: Decision) -> list[Issue]:
    return [issue for issue in found.status.issues if issue.reason == "SecondOperatorRunning"]


def reported(pool: Pool | None = None) -> Pool:
    """Return a pool whose status names a second operator."""
    pool = pool or a_pool()
    return with_status(pool, decided(pool, other=HOLDER).status)


@pytest.mark.parametrize("other", ["", None])
def test_one_operator_alone_is_not_spoken_of(other: str | None) -> None:
    assert of_operators(decided(a_pool(), other=other)) == []


def test_a_second_operator_is_one_issue_without_a_node_that_says_who_where_and_what_to_do() -> None:
    [issue] = of_operators(decided(a_pool(), other=HOLDER))
    assert (issue.node_count, issue.nodes) == (0, ())
    assert f"{HOLDER} holds the Lease winpool-system/winpool" in issue.message
    assert "start it with --leader-elect" in issue.fix


def test_it_goes_on_under_another_holder_and_is_gone_when_the_other_has_ended() -> None:
    pool = reported()
    second = decided(pool, other="another", minutes=5)
    [issue] = of_operators(second)
    assert (issue.since, "another holds" in issue.message) == (NOON, True)
    assert of_operators(decided(with_status(pool, second.status), other="", minutes=6)) == []


def test_an_operator_that_cannot_know_writes_nothing_against_what_the_other_says() -> None:
    pool = reported()
    found = decided(pool, other=None, minutes=5)
    assert found.status == pool.status
    assert found.status.issue_count == 1


@pytest.mark.parametrize("other", [HOLDER, None])
def test_a_pool_that_is_being_deleted_does_not_say_it(other: str | None) -> None:
    assert of_operators(decided(deleted(reported()), other=other)) == []


class Stage:
    """What an operator that knows ``knows`` of others says of ``pools``, at ``seconds``."""

    def __init__(self, *pools: Pool, knows: str | None = None) -> None:
        self.there = list(pools)
        self.knows = knows
        self.seconds = 0.0
        services = some_services(
            other_operator=lambda: self.knows, pools=self, clock=Clock(monotonic=lambda: self.seconds)
        )
        self.observer = Observer(services)

    def all(self) -> list[Pool]:
        return self.there

    def others(self, **at: Any) -> list[str | None]:
        self.seconds = at.get("at", self.seconds)
        return [self.observer.other_operator(pool) for pool in self.there]


def test_what_another_operator_says_stays_for_a_while_and_again_when_it_says_it_again() -> None:
    stage = Stage(reported())
    assert stage.others() == [None]
    assert stage.others(at=KEPT_SECONDS - 1) == [None]
    assert stage.others(at=KEPT_SECONDS) == [""], "the operator that added it may be gone"
    stage.there = [a_pool()]
    assert stage.others() == [""], "it is removed"
    stage.there = [reported()]
    assert stage.others(at=KEPT_SECONDS + 1) == [None], "the other still runs"
    assert stage.others(at=2 * KEPT_SECONDS) == [None]
    assert stage.others(at=2 * KEPT_SECONDS + 1) == [""]


@pytest.mark.parametrize("knows", ["", HOLDER])
def test_an_operator_that_knows_says_what_it_knows(knows: str) -> None:
    assert Stage(reported(), a_pool(), knows=knows).others() == [knows, knows]


def test_nothing_is_kept_of_pools_that_are_gone() -> None:
    stage = Stage(*(reported(replace(a_pool(), name=f"p{n}", uid=f"u{n}")) for n in range(5)))
    assert stage.others() == [None] * 5
    stage.there = [reported(replace(a_pool(), name="new", uid="new"))]
    stage.others()
    assert list(stage.observer._reported_since) == ["new"]
