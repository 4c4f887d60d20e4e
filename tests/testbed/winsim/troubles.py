"""Says what goes wrong on many nodes without saying it many times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from testbed.winsim.clock import Clock
    from testbed.winsim.wire import ApiError

# Often enough to be seen, seldom enough that a refused fleet leaves its log readable.
_REPEAT_SECONDS: Final = 30.0


@dataclass(slots=True)
class _Kind:
    told: float
    unreported: int = 0


class Troubles:
    """Collects errors by what was done and how the API server refused it, whichever the node."""

    def __init__(self, *, clock: Clock, say: Callable[[str], None]) -> None:
        self._clock = clock
        self._say = say
        self._kinds: dict[tuple[str, int, str], _Kind] = {}

    def report(self, node: str, action: str, error: ApiError) -> None:
        """Tell of an error: the first of its kind at once, then one in thirty seconds with a count."""
        now = self._clock.monotonic()
        key = (action, error.code, error.reason)
        kind = self._kinds.get(key)
        if kind is None:
            self._kinds[key] = _Kind(told=now)
            self._say(f"{node}: {action}: {error}")
        elif now - kind.told < _REPEAT_SECONDS:
            kind.unreported += 1
        else:
            self._say(f"{node}: {action}: {error} (and {kind.unreported} times more, on any node)")
            self._kinds[key] = _Kind(told=now)
