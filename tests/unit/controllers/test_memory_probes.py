"""How often kubelets are asked for their configuration."""

from __future__ import annotations

from unittest.mock import AsyncMock

import pytest

from winpool.controllers.memory_polls import Probes
from winpool.controllers.watched_nodes import Probe
from winpool.kubelet.addresses import Target
from winpool.kubelet.samples import KubeletEviction, Outcome, PollError

TARGET = Target(node="w1", host="127.0.0.1", port=10250)
VERSION = "v1.37.1"


class Asking:
    """Probes of nodes that nothing is known of, at a time that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._probes = Probes(monotonic=lambda: self.now)
        self._client = AsyncMock()
        self._client.eviction.return_value = KubeletEviction.ARMED

    async def at_once(self) -> int:
        """Ask as many nodes as may be asked now; return how many."""
        asked = 0
        while self._probes.take(None, version=VERSION):
            await self._probes.ask(self._client, TARGET, version=VERSION, deadline=1.0)
            asked += 1
        return asked


async def test_thirty_nodes_are_asked_at_once_and_then_one_a_second() -> None:
    asking = Asking()
    assert await asking.at_once() == 30
    for _ in range(100):
        asking.now += 1.0
        assert await asking.at_once() == 1
    asking.now += 0.5
    assert await asking.at_once() == 0


async def test_a_pause_allows_for_thirty_again_and_no_more() -> None:
    asking = Asking()
    await asking.at_once()
    asking.now += 3600.0
    assert await asking.at_once() == 30
    asking.now += 10.0
    assert await asking.at_once() == 10


def test_what_is_taken_counts_also_where_nothing_is_asked() -> None:
    """The poll before the request has failed, or has taken too long."""
    probes = Probes(monotonic=lambda: 1000.0)
    assert [probes.take(None, version=VERSION) for _ in range(31)] == [True] * 30 + [False]


@pytest.mark.parametrize("outcome", list(Outcome))
async def test_a_kubelet_that_does_not_answer_is_asked_in_five_minutes_and_one_that_refuses_in_an_hour(
    outcome: Outcome,
) -> None:
    client = AsyncMock()
    client.eviction.side_effect = PollError(outcome, "of this test")
    probe = await Probes(monotonic=lambda: 1000.0).ask(client, TARGET, version=VERSION, deadline=1.0)
    assert probe.found is KubeletEviction.UNKNOWN
    is_unreached = outcome in (Outcome.NO_CONNECTION, Outcome.TIMEOUT)
    assert probe.again_at == 1000.0 + (300.0 if is_unreached else 3600.0)


def test_a_kubelet_that_was_asked_takes_no_place() -> None:
    probes = Probes(monotonic=lambda: 1000.0)
    known = Probe(VERSION, 2000.0)
    assert not any(probes.take(known, version=VERSION) for _ in range(100))
    assert probes.take(known, version="v1.99.0")
    assert [probes.take(None, version=VERSION) for _ in range(30)] == [True] * 29 + [False]
