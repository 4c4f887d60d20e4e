"""One outage of each kind, lived through; ``make test-crash`` has all of them, and long ones (P1, P4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from crash.outages import live_past, live_through
from crash.stage import Stage, a_stage
from crash.states import (
    API_SERVER_FROZEN,
    API_SERVER_KILLED,
    CRD_DELETED,
    RIGHTS_TAKEN_AWAY,
    TOKEN_EXPIRED,
    State,
)

NOTICED_SECONDS: Final = 2.0
"""How long a state lasts after all operators have noticed it: a few tries of each loop."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with a_stage(tmp_path_factory.mktemp("outages")) as mine:
        yield mine


@pytest.mark.nightly
@pytest.mark.parametrize("state", [TOKEN_EXPIRED, RIGHTS_TAKEN_AWAY, CRD_DELETED], ids=str)
def test_it_says_what_is_wrong_waits_recovers_and_can_be_ended_meanwhile(stage: Stage, state: State) -> None:
    live_through(stage, state, seconds=NOTICED_SECONDS)


@pytest.mark.parametrize("state", [API_SERVER_KILLED, API_SERVER_FROZEN], ids=str)
def test_what_is_over_at_once_leaves_no_trace_and_does_not_delay_its_end(stage: Stage, state: State) -> None:
    live_past(stage, state, seconds=1)
