"""Logs the warnings in the answers of the API server: each once, not once per answer.

The API server warns of a stored pool that newer rules would refuse at every status write, and of
a deprecated API at every call (header "Warning: 299 - ...", RFC 7234 5.5; KEP-1693).
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

log = logging.getLogger(__name__)

REPEAT_SECONDS: Final = 3600.0
"""The same text is logged again after this time, with how often it came."""

_TEXTS_KEPT: Final = 100
"""Bound of memory: texts may contain values. Beyond it, all texts are forgotten."""

_WARNING: Final = re.compile(r'\d{3} \S+ "((?:[^"\\]|\\.)*)"')


class Notices:
    """Logs the warnings of many answers, equal ones once."""

    __slots__ = ("_monotonic", "_seen")

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._seen: dict[str, tuple[float, int]] = {}

    def take(self, headers: Iterable[str], *, request: str) -> None:
        """Log what is new, or was last logged REPEAT_SECONDS ago."""
        for header in headers:
            for text in parse_warnings(header):
                self._take(text, request=request)

    def _take(self, text: str, *, request: str) -> None:
        now = self._monotonic()
        logged_at, times = self._seen.get(text, (float("-inf"), 0))
        times += 1
        if now - logged_at >= REPEAT_SECONDS:
            often = f" ({times} times since it was last reported)" if times > 1 else ""
            log.warning("the API server warns on %s: %s%s", request, text, often)
            logged_at, times = now, 0
        if len(self._seen) >= _TEXTS_KEPT and text not in self._seen:
            self._seen.clear()
        self._seen[text] = (logged_at, times)


def parse_warnings(header: str) -> list[str]:
    """Return the texts of one Warning header, which may have several."""
    return [re.sub(r"\\(.)", r"\1", text) for text in _WARNING.findall(header)]
