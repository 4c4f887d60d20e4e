"""Which right that evictions need is missing, as the API server has refused it.

A right counts as missing until a request that needs it is answered otherwise. Requests come only while a node
is short of memory, so a refusal is forgotten some time after the last one: no one can show that the right was
granted since.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.cluster.access import explain

if TYPE_CHECKING:
    from collections.abc import Callable

    from winpool.cluster.errors import Forbidden

REPORTED_SECONDS: Final = 600.0
"""How long after its last refusal a right is reported as missing. While it is needed it is refused again
within three minutes: a pod without an eviction gets a new intent at the deadline of the last one."""


@dataclass(slots=True)
class _Refused:
    """The first ``sentence`` stays: refusals in two namespaces must not change the report in turn."""

    sentence: str
    at: float


class MissingRights:
    """What was refused, by the resource that was asked for. ``monotonic`` is the clock of the samples."""

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._refused: dict[str, _Refused] = {}

    def refused(self, resource: str, error: Forbidden) -> None:
        """Note that a request about ``resource`` is not permitted."""
        known = self._refused.get(resource) if self._is_reported(resource) else None
        sentence = explain(error) if known is None else known.sentence
        self._refused[resource] = _Refused(sentence, self._monotonic())

    def granted(self, resource: str) -> None:
        """Note that a request about ``resource`` was permitted."""
        self._refused.pop(resource, None)

    def sentence(self) -> str:
        """Return what is missing, in words for people; empty where nothing is."""
        found = (each.sentence for resource, each in self._refused.items() if self._is_reported(resource))
        return next(found, "")

    def seconds_left(self) -> float | None:
        """Return after how long time alone changes the sentence; None where nothing is missing."""
        left = (each.at + REPORTED_SECONDS - self._monotonic() for each in self._refused.values())
        return min((seconds for seconds in left if seconds > 0), default=None)

    def _is_reported(self, resource: str) -> bool:
        known = self._refused.get(resource)
        return known is not None and self._monotonic() < known.at + REPORTED_SECONDS
