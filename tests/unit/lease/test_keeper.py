"""The loop of the Lease, on a Lease in memory and in virtual time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from harness.lease_server import LeaseServer, LeaseTransport
from harness.virtual_time import in_virtual_time
from winpool.kube.client import Transport
from winpool.kube.errors import ApiError, Forbidden, Unavailable
from winpool.kube.leader_election import LeaderElector, LeaseLostError, OtherOperator
from winpool.kube.lease_rules import LEASE_SECONDS, RETRY_SECONDS, TERM_SECONDS

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
DOWN = Unavailable("no connection")
SLACK = 0.1
"""For the requests of a test, which take milliseconds."""


@dataclass
class Place:
    """A process with its elector. ``frozen_for`` is by how much its clock ran on while it was frozen."""

    server: LeaseServer
    identity: str
    frozen_for: float = 0.0
    wall_jump: float = 0.0
    begun: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.door = LeaseTransport(self.server)
        self.elector = LeaderElector(
            cast("Transport", self.door), identity=self.identity, clock=self.clock, now=self.wall
        )
        self.task = asyncio.create_task(self.elector.lead(self._lead, self._other))

    def _lead(self) -> None:
        self.begun.append(self.loop.time())

    def _other(self) -> None:
        raise AssertionError("with leader election there is nothing to say of others")

    def clock(self) -> float:
        return self.loop.time() + self.frozen_for

    def wall(self) -> datetime:
        return NOON + timedelta(seconds=self.loop.time() + self.wall_jump)

    async def lost(self) -> str:
        """Return why it no longer leads, once it has ended."""
        with pytest.raises(LeaseLostError) as caught:
            await asyncio.wait_for(self.task, 600)
        assert not self.elector.leads
        return str(caught.value)

    async def kill(self) -> None:
        """End it without a last word."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@asynccontextmanager
async def places(*names: str) -> AsyncIterator[list[Place]]:
    """Start processes one after the other on one server."""
    server = LeaseServer()
    made: list[Place] = []
    try:
        for name in names:
            made.append(Place(server, name))
            await asyncio.sleep(1)
        yield made
    finally:
        for place in made:
            await place.kill()


def now() -> float:
    return asyncio.get_running_loop().time()


@in_virtual_time
async def test_the_first_creates_the_lease_and_renews_it_every_two_seconds() -> None:
    async with places("a") as [first]:
        assert (first.elector.leads, len(first.begun)) == (True, 1)
        assert first.server.spec["holderIdentity"] == "a"
        assert (first.server.spec["leaseDurationSeconds"], first.server.spec["leaseTransitions"]) == (15, 0)
        await asyncio.sleep(60)
        assert first.elector.leads
        assert (len(first.door.times("get")), len(first.door.times("create"))) == (1, 1)
        assert 28 <= len(first.door.times("patch")) <= 31


@in_virtual_time
async def test_the_second_stands_by_without_a_request_and_takes_over_when_the_lease_has_lasted() -> None:
    async with places("a", "b") as [first, second]:
        await asyncio.sleep(100)
        assert (second.begun, second.elector.leads) == ([], False)
        assert {verb for _, verb in second.door.asked} == {"get", "list", "watch"}
        assert len(second.door.times("get")) == 1
        await first.kill()
        last = first.door.times("patch")[-1]
        await asyncio.sleep(60)
        [begun] = second.begun
        assert last + LEASE_SECONDS <= begun <= last + LEASE_SECONDS + SLACK
        assert second.server.spec["leaseTransitions"] == 1


@in_virtual_time
async def test_one_that_stands_by_knows_who_leads() -> None:
    async with places("a", "b") as [first, second]:
        await asyncio.sleep(5)
        assert [each.elector.holder for each in (first, second)] == ["a", "a"]
        await first.kill()
        await asyncio.sleep(2 * LEASE_SECONDS)
        assert (second.elector.leads, second.elector.holder) == (True, "b")


@in_virtual_time
async def test_before_the_lease_was_seen_no_one_is_known_to_lead() -> None:
    server = LeaseServer()
    place = Place(server, "a")
    try:
        assert place.elector.holder == ""
    finally:
        await place.kill()


@in_virtual_time
async def test_the_second_takes_over_at_once_where_the_first_has_released() -> None:
    async with places("a", "b") as [first, second]:
        await first.kill()
        released = now()
        await first.elector.release()
        assert not first.elector.leads
        await asyncio.sleep(1)
        [begun] = second.begun
        assert begun <= released + SLACK


@in_virtual_time
async def test_the_first_may_write_no_more_when_the_release_is_sent() -> None:
    async with places("a") as [first]:
        await first.kill()
        might: list[bool] = []
        first.door.fault = lambda _: might.append(first.elector.leads)
        await first.elector.release()
        assert might == [False, False]


@in_virtual_time
async def test_a_release_that_fails_is_logged_and_does_not_hold_up_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with places("a") as [first]:
        await first.kill()
        first.door.seconds = 100
        begun = now()
        await first.elector.release()
        assert now() <= begun + 1 + SLACK
        assert "not released: no answer within 1 s; another operator takes over after 15 s" in caplog.text


@in_virtual_time
async def test_a_lease_of_another_is_not_released() -> None:
    async with places("a") as [first]:
        await first.kill()
        first.server.put({"holderIdentity": "b"})
        await first.elector.release()
        assert first.server.spec["holderIdentity"] == "b"


@in_virtual_time
async def test_it_ends_when_no_renewal_has_succeeded_for_ten_seconds() -> None:
    async with places("a") as [first]:
        await asyncio.sleep(10)
        last = first.door.times("patch")[-1]
        first.door.fault = lambda _: DOWN
        assert await first.lost() == "it was not renewed in time: no connection"
        assert last + TERM_SECONDS - SLACK <= now() <= last + TERM_SECONDS + SLACK


@in_virtual_time
async def test_it_ends_in_time_where_requests_are_never_answered() -> None:
    async with places("a") as [first]:
        await asyncio.sleep(10)
        last = first.door.times("patch")[-1]
        first.door.seconds = 1000
        assert await first.lost() == "it was not renewed in time: no answer before the term ended"
        assert now() <= last + TERM_SECONDS + SLACK
        assert len([at for at in first.door.times("patch") if at > last]) >= 2, "one more attempt at least"


@in_virtual_time
async def test_failures_shorter_than_the_term_end_nothing() -> None:
    async with places("a", "b") as [first, second]:
        for _ in range(5):
            first.door.fault = lambda _: DOWN
            await asyncio.sleep(TERM_SECONDS - 2 * RETRY_SECONDS - 1)
            first.door.fault = lambda _: None
            await asyncio.sleep(2 * RETRY_SECONDS)
        assert (first.elector.leads, second.begun) == (True, [])


@in_virtual_time
async def test_a_lost_answer_to_a_renewal_ends_nothing() -> None:
    async with places("a") as [first]:
        first.door.loses.append("patch")
        await asyncio.sleep(20)
        assert first.elector.leads
        assert first.door.loses == []


@pytest.mark.parametrize("verb", ["create", "patch"])
@in_virtual_time
async def test_a_lost_answer_to_the_taking_is_found_by_the_next_look(verb: str) -> None:
    server = LeaseServer()
    if verb == "patch":
        server.put({"leaseDurationSeconds": 1, "holderIdentity": ""})
    first = Place(server, "a")
    try:
        first.door.loses.append(verb)
        await asyncio.sleep(10)
        assert (first.elector.leads, len(first.begun), first.door.loses) == (True, 1, [])
    finally:
        await first.kill()


@in_virtual_time
async def test_it_ends_when_another_has_taken_the_lease() -> None:
    async with places("a") as [first]:
        first.server.put({"holderIdentity": "kubectl\nedit"})
        assert await first.lost() == "kubectl\\nedit has taken it"


@in_virtual_time
async def test_it_ends_when_someone_has_emptied_the_lease() -> None:
    async with places("a", "b") as [first, second]:
        taken = now()
        first.server.put({"holderIdentity": None})
        assert await first.lost() == "someone emptied it"
        await asyncio.sleep(30)
        assert second.begun[0] >= taken + LEASE_SECONDS, "the first did not know at once"


@pytest.mark.parametrize("is_created_anew", [False, True])
@in_virtual_time
async def test_it_ends_when_someone_has_deleted_the_lease(is_created_anew: bool) -> None:
    async with places("a") as [first]:
        first.server.delete()
        if is_created_anew:
            first.server.put({"holderIdentity": "b"})
        assert await first.lost() == ("b has taken it" if is_created_anew else "someone deleted it")


@in_virtual_time
async def test_the_second_waits_for_the_end_of_a_term_whose_lease_was_deleted() -> None:
    async with places("a", "b") as [first, second]:
        await asyncio.sleep(20)
        deleted = now()
        last = first.door.times("patch")[-1]
        first.server.delete()
        await first.lost()
        assert now() <= deleted + RETRY_SECONDS + SLACK
        await asyncio.sleep(30)
        assert last + LEASE_SECONDS <= second.begun[0] <= last + LEASE_SECONDS + SLACK


@in_virtual_time
async def test_it_goes_on_when_someone_has_changed_the_lease_and_not_its_holder() -> None:
    async with places("a") as [first]:
        for number in range(10):
            first.server.put({"strategy": str(number)})
            await asyncio.sleep(3)
        assert first.elector.leads
        assert first.server.spec["strategy"] == "9"


@in_virtual_time
async def test_one_that_was_frozen_may_not_write_and_ends() -> None:
    async with places("a", "b") as [first, second]:
        await asyncio.sleep(5)
        first.frozen_for = 60
        assert not first.elector.leads, "before any task of it has run"
        assert "did not run for so long" in await first.lost()
        assert second.begun == []


@in_virtual_time
async def test_one_that_was_frozen_between_the_request_and_its_answer_does_not_begin() -> None:
    server = LeaseServer()
    first = Place(server, "a")
    try:
        first.door.seconds = 1
        await asyncio.sleep(2.5)  # the create is on its way back
        assert server.spec["holderIdentity"] == "a"
        first.frozen_for = 60
        await asyncio.sleep(1)
        assert (first.begun, first.elector.leads) == ([], False)
        await asyncio.sleep(10)
        assert (len(first.begun), first.elector.leads) == (1, True), "it looks, and renews what it has"
    finally:
        await first.kill()


@in_virtual_time
async def test_a_wall_clock_that_jumps_changes_nothing_but_the_skew(caplog: pytest.LogCaptureFixture) -> None:
    async with places("a", "b") as [first, second]:
        for jump in (-86_400.0, 3_600.0, -5_000.0, 0.0):
            first.wall_jump = jump
            await asyncio.sleep(20)
            assert (first.elector.leads, second.begun) == (True, [])
            assert second.elector.skew.seconds == pytest.approx(-jump, abs=SLACK)
        warnings = [each for each in caplog.messages if "synchronize" in each]
        assert len(warnings) == 1, "not again before it was small"
        assert warnings[0].startswith("the clock of this operator is 86400 s ahead of that of a;")


@in_virtual_time
async def test_without_rights_it_stands_by_and_says_which_are_missing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = LeaseServer()
    place = Place(server, "a")
    refused = Forbidden("get leases winpool: 403 no", status=403)
    place.door.fault = lambda _: refused
    place.door.watch_fault = refused
    try:
        await asyncio.sleep(600)
        assert place.begun == []
        lines = [each for each in caplog.messages if each.startswith("Lease: get leases winpool: 403")]
        assert 1 <= len(lines) <= 4
        assert 600 / 3 <= len(place.door.times("get")) <= 600 / RETRY_SECONDS
    finally:
        await place.kill()


@in_virtual_time
async def test_without_the_watch_it_takes_over_as_well() -> None:
    async with places("a", "b") as [first, second]:
        await first.kill()
        await second.kill()
        third = Place(first.server, "c")
        third.door.watch_fault = Forbidden("list leases: 403", status=403)
        try:
            await asyncio.sleep(LEASE_SECONDS + 1)
            assert third.elector.leads
        finally:
            await third.kill()


@in_virtual_time
async def test_of_many_candidates_one_leads() -> None:
    async with places(*"abcdef") as made:
        await made[0].kill()
        await asyncio.sleep(30)
        assert [len(each.begun) for each in made[1:]].count(1) == 1
        assert [each.elector.leads for each in made].count(True) == 1


# Without leader election


@in_virtual_time
async def test_without_election_a_second_operator_is_noticed_once_by_its_renewals(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with places("a") as [first]:
        door = LeaseTransport(first.server)
        loop = asyncio.get_running_loop()
        other = OtherOperator(cast("Transport", door), clock=loop.time, now=first.wall)
        begun: list[bool] = []
        seen: list[str | None] = []
        task = asyncio.create_task(other.lead(lambda: begun.append(True), lambda: seen.append(other.other)))
        await asyncio.sleep(1)
        assert (begun, other.leads) == ([True], True)
        await asyncio.sleep(60)
        warned = [each for each in caplog.messages if "a second operator is running" in each]
        assert len(warned) == 1
        assert "a renews the Lease winpool-system/winpool" in warned[0]
        assert (other.other, seen) == ("a", ["a"])
        await first.kill()
        await asyncio.sleep(LEASE_SECONDS + 1)
        assert (other.other, seen) == ("", ["a", ""]), "each change is told once"
        assert {verb for _, verb in door.asked} == {"list", "watch"}
        task.cancel()


@pytest.mark.parametrize("fault", [None, Forbidden("list leases: 403", status=403)])
@in_virtual_time
async def test_without_election_a_lease_that_nobody_renews_is_no_second_operator(
    fault: ApiError | None, caplog: pytest.LogCaptureFixture
) -> None:
    async with places("a") as [first]:
        await first.kill()
        door = LeaseTransport(first.server, watch_fault=fault)
        loop = asyncio.get_running_loop()
        caplog.clear()
        other = OtherOperator(cast("Transport", door), clock=loop.time, now=first.wall)
        seen: list[str | None] = []
        task = asyncio.create_task(other.lead(lambda: None, lambda: seen.append(other.other)))
        await asyncio.sleep(LEASE_SECONDS - 1)
        assert (other.other, seen) == (None, []), "it may have ended, or renew at any moment"
        await asyncio.sleep(600)
        first.server.delete()
        await asyncio.sleep(10)
        assert (other.other, seen) == ((None, []) if fault else ("", [""]))
        assert [each.message for each in caplog.records if each.levelno >= logging.INFO] == []
        task.cancel()


@in_virtual_time
async def test_without_election_a_second_operator_that_releases_the_lease_is_gone_at_once() -> None:
    async with places("a") as [first]:
        loop = asyncio.get_running_loop()
        other = OtherOperator(
            cast("Transport", LeaseTransport(first.server)), clock=loop.time, now=first.wall
        )
        seen: list[str | None] = []
        task = asyncio.create_task(other.lead(lambda: None, lambda: seen.append(other.other)))
        await asyncio.sleep(60)
        first.task.cancel()
        await first.elector.release()
        await asyncio.sleep(1)
        assert seen == ["a", ""]
        task.cancel()


# Someone who may patch the Lease does so as fast as they can


def fake(server: LeaseServer, *, number: int, renewal: int = 0) -> None:
    """Write a holder that does not exist, or renew the Lease in its name."""
    server.put({"holderIdentity": f"invented-{number}", "renewTime": f"2001-01-01T00:00:0{renewal}.000000Z"})


@in_virtual_time
async def test_a_lease_that_is_patched_without_a_pause_makes_six_lines_a_minute_of_one_who_stands_by(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with places("a", "b") as [first, second]:
        await first.kill()
        caplog.clear()
        for number in range(600):
            fake(first.server, number=number)
            await asyncio.sleep(0.1)
        assert second.begun == []
        told = [each for each in caplog.messages if "stands by" in each]
        assert 5 <= len(told) <= 7
        assert "changes before were not logged" in told[-1]
        skewed = [each for each in caplog.messages if "synchronize the clocks" in each]
        assert len(skewed) <= 1
        assert len(caplog.messages) <= len(told) + len(skewed) + 2


@in_virtual_time
async def test_a_lease_that_is_patched_without_a_pause_makes_six_warnings_a_minute_of_a_second_operator(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with places("a") as [first]:
        await first.kill()
        loop = asyncio.get_running_loop()
        other = OtherOperator(
            cast("Transport", LeaseTransport(first.server)), clock=loop.time, now=first.wall
        )
        task = asyncio.create_task(other.lead(lambda: None, lambda: None))
        await asyncio.sleep(1)
        caplog.clear()
        for number in range(300):
            for renewal in range(2):
                fake(first.server, number=number, renewal=renewal)
                await asyncio.sleep(0.1)
        told = [each for each in caplog.messages if "a second operator is running" in each]
        assert 5 <= len(told) <= 7
        assert "changes before were not logged" in told[-1]
        assert len(caplog.messages) <= len(told) + 1
        task.cancel()
