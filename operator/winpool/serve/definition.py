"""What a row of the table of metrics says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Labels = tuple[str, ...]
Kind = Literal["gauge", "counter", "histogram"]


@dataclass(frozen=True, slots=True)
class Distribution:
    """The value of a histogram: how many were at most so large, by the bound of the bucket, and their sum.

    The last bound is "+Inf".
    """

    buckets: tuple[tuple[str, float], ...]
    total: float


Value = float | Distribution


@dataclass(frozen=True, slots=True)
class Definition:
    """A metric: its name without the ``_total`` of counters, its labels, and what it means.

    The first label of a metric about pools is ``pool``, the pool's name.
    """

    name: str
    kind: Kind
    labels: Labels
    help: str
