"""Outages that last: what ``test_outages.py`` says of short ones holds for these too (P1, P4)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crash.outages import live_through
from crash.stage import Stage, a_stage
from crash.states import API_SERVER_KILLED, LONG, SERVICE_ACCOUNT_DELETED, State


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with a_stage(tmp_path_factory.mktemp("outages")) as mine:
        yield mine


@pytest.mark.parametrize("state", [API_SERVER_KILLED, SERVICE_ACCOUNT_DELETED, *LONG], ids=str)
def test_it_waits_for_30_seconds_as_well(stage: Stage, state: State) -> None:
    live_through(stage, state, seconds=30)
