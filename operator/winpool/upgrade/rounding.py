"""Requests of pods, rounded, so that what is counted for one is counted for many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from winpool.upgrade.spots import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from winpool.upgrade.audiences import Audience

EXACT: Final = UNLIMITED.bit_length()
"""Significant bits that no request exceeds."""

GRIDS: Final = (EXACT, 3, 1)
"""Significant bits: with three there are four steps between an amount and its double, with one there is one.
A pool of thousands of nodes whose pods all request different amounts needs the second; the third is for pods
that were made to cost time."""

MOST_COUNTED: Final = 1_000_000
"""Nodes that are counted in all, for all different requests: a tenth of a second."""


def rounded_up(amount: int, bits: int) -> int:
    """Return ``amount`` or more, with so many significant bits."""
    shift = max(amount.bit_length() - bits, 0)
    return -(-amount >> shift) << shift


def rounded_down(amount: int, bits: int) -> int:
    """Return ``amount`` or less, with so many significant bits."""
    shift = max(amount.bit_length() - bits, 0)
    return amount >> shift << shift


def grid_of(asked: Sequence[tuple[Audience, int, int]]) -> int:
    """Return with how many significant bits CPU and memory are counted, so that it takes a bounded time."""
    for bits in GRIDS[:-1]:
        different = {
            (id(audience), rounded_down(cpu, bits), rounded_down(memory, bits)): audience
            for audience, cpu, memory in asked
        }
        if sum(len(each.possible) for each in different.values()) <= MOST_COUNTED:
            return bits
    return GRIDS[-1]
