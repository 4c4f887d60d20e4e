"""Commit: what Windows promises for every page that may be written, and how much it can promise.

The limit is RAM and page file together. What would exceed it is denied: there is no overcommit, and no OOM
killer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from testbed.memory.pages import apportion, pages_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from testbed.memory.hardware import Hardware

_GROWS_AT_TENTHS: Final = 9
"""A page file is extended when commit reaches 90 % of the limit (see ``SystemManagedPageFile``)."""


class CommitCharge:
    """Commit total and limit, in pages. The total never exceeds the limit."""

    def __init__(self, hardware: Hardware) -> None:
        ram = hardware.ram_bytes
        self._ram = pages_of(ram)
        self._page_file_maximum = pages_of(hardware.page_file.maximum_bytes_on(ram))
        self._growth = pages_of(hardware.disk.page_file_growth_bytes_per_second)
        self.page_file = pages_of(hardware.page_file.initial_bytes_on(ram))
        self.total = 0

    @property
    def limit(self) -> int:
        """Return the most that can be promised now."""
        return self._ram + self.page_file

    def release(self, pages: int) -> None:
        """Take a promise back."""
        self.total -= pages

    def grant(self, asks: Sequence[int]) -> list[int]:
        """Promise as much as the limit allows within one second, and say how much of each that is.

        The page file is extended first, where it can be. Where that does not suffice, each gets the same part
        of what it asked for.
        """
        asked = sum(asks)
        self._extend(self.total + asked)
        granted = list(asks) if asked <= self.limit - self.total else apportion(self.limit - self.total, asks)
        self.total += sum(granted)
        return granted

    def _extend(self, wanted: int) -> None:
        """Extend the page file until what is wanted is 90 % of the limit, as far as one second allows."""
        enough = -(-wanted * 10 // _GROWS_AT_TENTHS) - self._ram
        self.page_file = max(
            self.page_file, min(enough, self._page_file_maximum, self.page_file + self._growth)
        )
