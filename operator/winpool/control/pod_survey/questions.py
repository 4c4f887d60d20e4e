"""What all pools want to know of pods, where one pool that cannot be asked about keeps no other from it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from winpool.contract.questions import question_of
from winpool.control.faults import Faults

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from winpool.objects.node import Node
    from winpool.objects.pool import Pool
    from winpool.pods.survey import PoolQuestion

log = logging.getLogger(__name__)


class Questions:
    """Asks for each pool."""

    def __init__(self) -> None:
        self._faults = Faults("its question about pods", logger=log)

    def of(self, pools: Iterable[Pool], nodes: Sequence[Node], *, now: datetime) -> list[PoolQuestion]:
        """Return the questions of ``pools``, without those that have none."""
        found = (self._question_of(pool, nodes, now=now) for pool in pools)
        return [question for question in found if question is not None]

    def _question_of(self, pool: Pool, nodes: Sequence[Node], *, now: datetime) -> PoolQuestion | None:
        try:
            question = question_of(pool, nodes, now=now)
        except Exception as error:  # noqa: BLE001 - a bug of ours must not end the looks of all pools
            self._faults.failed(pool.name, error)
            return None
        self._faults.ended(pool.name)
        return question
