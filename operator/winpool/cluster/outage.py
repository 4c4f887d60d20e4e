"""One line in the log when something begins to fail, one when it recovers, and few in between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from winpool.cluster.errors import UnconfirmedRefusal

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

REMINDER_SECONDS: Final = 300.0
"""How often an outage that continues unchanged is logged again."""

FLAP_SECONDS: Final = 60.0
"""The same failure within this time after its last line is not logged again, recovered or not."""


class Outage:
    """Logs failures of one thing by their kind: the same failure again and again is one message.

    ``meanwhile`` says what the operator does about it.
    """

    __slots__ = ("_announced", "_kind", "_logger", "_meanwhile", "_monotonic", "_since", "_told_at", "_what")

    def __init__(
        self, what: str, *, logger: logging.Logger, monotonic: Callable[[], float], meanwhile: str
    ) -> None:
        self._what = what
        self._meanwhile = meanwhile
        self._logger = logger
        self._monotonic = monotonic
        self._since: float | None = None
        self._told_at = float("-inf")
        self._kind: tuple[type[Exception], str] | None = None
        self._announced = False

    def failed(self, error: Exception) -> None:
        """Log a failure, if it is of another kind than the last or that was long ago.

        The kind is its type, and its reason where it is an ApiError. An UnconfirmedRefusal is logged for
        debugging only: either it is over in a moment, or it comes again as a confirmed one.
        """
        now = self._monotonic()
        quiet = FLAP_SECONDS if self._since is None else REMINDER_SECONDS
        if self._since is None:
            self._since = now
        kind = (type(error), getattr(error, "reason", ""))
        is_told = kind == self._kind and now - self._told_at < quiet
        if is_told or isinstance(error, UnconfirmedRefusal):
            self._logger.debug("%s: %s; %s", self._what, error, self._meanwhile)
            return
        self._kind, self._told_at, self._announced = kind, now, True
        self._logger.warning("%s: %s; %s", self._what, error, self._meanwhile)

    def ended(self) -> None:
        """Log, once and only after a failure that was logged, that it works again."""
        if self._since is None:
            return
        if self._announced:
            self._logger.info("%s: recovered after %.1f s", self._what, self._monotonic() - self._since)
        self._since, self._announced = None, False
