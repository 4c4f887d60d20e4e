"""What a row of the table of metrics says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Labels = tuple[str, ...]
Kind = Literal["gauge", "counter"]


@dataclass(frozen=True, slots=True)
class Definition:
    """A metric: its name without the ``_total`` of counters, its labels, and what it means.

    The first label of a metric about pools is ``pool``, the pool's name.
    """

    name: str
    kind: Kind
    labels: Labels
    help: str
