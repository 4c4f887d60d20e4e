"""The bearer token for a Prometheus, from a file that someone else renews."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

log = logging.getLogger(__name__)

REREAD_SECONDS: Final = 10.0
"""How long a token is used before the file is read again. The kubelet renews a projected token at 80 % of its
life, which is an hour by default."""


class TokenFile:
    """Returns the token in the file; while the file is unreadable or empty, the one that was read before."""

    __slots__ = ("_complained", "_monotonic", "_path", "_read_at", "_token")

    def __init__(self, path: Path, *, monotonic: Callable[[], float]) -> None:
        self._path = path
        self._monotonic = monotonic
        self._token: str | None = None
        self._read_at = float("-inf")
        self._complained = False

    async def __call__(self) -> str | None:
        """Return the token, None where there has never been one. A reason is logged once."""
        now = self._monotonic()
        if now - self._read_at >= REREAD_SECONDS:
            self._read_at = now
            self._read()
        return self._token

    def _read(self) -> None:
        # A kilobyte from tmpfs or a local disk, at most every ten seconds: this needs no thread.
        try:
            token = self._path.read_text(encoding="utf-8").strip()
            problem = None if token else "it is empty"
        except (OSError, UnicodeDecodeError) as error:
            token, problem = "", getattr(error, "strerror", None) or "it is not text"
        if problem is None:
            self._token = token
        elif not self._complained:
            log.warning("token file %s for Prometheus cannot be used: %s", self._path, problem)
        self._complained = problem is not None
