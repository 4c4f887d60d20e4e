"""Whatever goes wrong while nodes are upgraded: what is promised holds after each write, and all ends.

There is a world for every sixteen of WINPOOL_WORLDS, or as many as WINPOOL_ROLLOUTS says.
WINPOOL_FIRST_WORLD says with which to begin: each is made from its own number, so that one that fails is
played again alone.
"""

from __future__ import annotations

import os
from random import Random
from typing import Final

import pytest

from harness.rollout_faults import Play

WORLDS: Final = int(
    os.environ.get("WINPOOL_ROLLOUTS") or max(40, int(os.environ.get("WINPOOL_WORLDS", "160")) // 16)
)
FIRST: Final = int(os.environ.get("WINPOOL_FIRST_WORLD", "0"))
CHUNK: Final = 10
CHUNKS: Final = [range(at, min(at + CHUNK, FIRST + WORLDS)) for at in range(FIRST, FIRST + WORLDS, CHUNK)]


@pytest.mark.slow
@pytest.mark.parametrize("worlds", CHUNKS, ids=lambda worlds: str(worlds[0]))
def test_what_is_promised_holds_whatever_goes_wrong(worlds: range) -> None:
    for number in worlds:
        play = Play(Random(number))
        try:
            play.disturb()
            play.heal()
        except AssertionError as error:
            raise AssertionError(f"world {number}: {error}\n{play}") from error


@pytest.mark.slow
@pytest.mark.parametrize("worlds", CHUNKS[: max(2, len(CHUNKS) // 4)], ids=lambda worlds: str(worlds[0]))
def test_what_is_promised_holds_where_drains_are_forced(worlds: range) -> None:
    for number in worlds:
        play = Play(Random(number), forces=True)
        try:
            play.disturb()
            play.heal()
        except AssertionError as error:
            raise AssertionError(f"world {number}: {error}\n{play}") from error
