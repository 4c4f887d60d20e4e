"""Bugs of winpool that something about one pool brings out: they cost that pool, and end no loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging


class Faults:
    """Logs what fails for a pool, once until it works again or fails in another way.

    ``what`` fails, as people call it, and ``logger`` gets the sentence.
    """

    def __init__(self, what: str, *, logger: logging.Logger) -> None:
        self._what = what
        self._logger = logger
        self._said: dict[str, str] = {}

    def failed(self, pool: str, error: Exception) -> None:
        """Log that it failed for the pool of that name, and the traceback at debug."""
        said = f"{type(error).__name__}: {error}"
        if self._said.get(pool) == said:
            return
        self._said[pool] = said
        self._logger.error(
            "pool %s: %s failed (%s), and other pools are served; this is a bug of winpool, please report it "
            "with the log at level debug, which has the traceback",
            pool,
            self._what,
            said,
        )
        self._logger.debug("pool %s: %s failed", pool, self._what, exc_info=error)

    def ended(self, pool: str) -> None:
        """Take note that it works for ``pool``, or that there is no such pool."""
        self._said.pop(pool, None)
