"""The dirty flag of a pool: each source of a change sets it, and the pool's loop waits for it.

Level-triggered: it does not matter how often or why it was set, since a pass checks everything.
"""

from __future__ import annotations

import asyncio


class Wake:
    """An event that can also be waited for with a time limit."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        """Ask for a pass. May be called any number of times, also during one."""
        self._event.set()

    async def wait(self, *, seconds: float | None) -> bool:
        """Return when set, or after ``seconds`` (None: only when set), and whether it was; clears the flag.

        It is cleared before the pass observes, so that a change during the pass is not lost.
        """
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            pass
        is_set = self._event.is_set()
        self._event.clear()
        return is_set

    def clear(self) -> None:
        """Clear the flag: a pass that observes right now serves all that asked until now."""
        self._event.clear()
