"""Memory in whole pages: the model computes in them, so that it never rounds two ways."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

PAGE_BYTES: Final = 4096

KIB: Final = 2**10
MIB: Final = 2**20
GIB: Final = 2**30
TIB: Final = 2**40


def pages_of(size_bytes: int) -> int:
    """Return how many pages hold that many bytes."""
    return -(-size_bytes // PAGE_BYTES)


def apportion(total: int, weights: Sequence[int]) -> list[int]:
    """Divide ``total`` by ``weights``, into whole parts whose sum is exactly ``total``.

    No part is larger than its weight, as long as ``total`` is at most their sum.
    """
    left, weight_left = total, sum(weights)
    parts = []
    for weight in weights:
        part = left * weight // weight_left if weight_left else 0
        parts.append(part)
        left -= part
        weight_left -= weight
    return parts
