"""What a reflector does after an error, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from winpool.cluster.errors import Gone, StreamGarbled, StreamSilent, TooLarge

if TYPE_CHECKING:
    from winpool.cluster.errors import ApiError


@dataclass(frozen=True, slots=True)
class Recovery:
    """What to do after an error: list, or continue from the last good version; at once or after a pause."""

    relist: bool
    pause: bool = True


def recovery_after(error: ApiError, *, progressed: bool, expired_before: bool) -> Recovery:
    """Decide how to continue after ``error``.

    ``progressed`` says whether anything had come in since the error before, ``expired_before``
    whether that was a 410 too.

    - 410: the version is too old to continue from; only a list shows what was missed. The first
      time it is listed at once, as after any outage that was long enough: waiting changes nothing.
    - Silence: either the connection is dead, and continuing would be enough. Or the server does
      not know the version yet (etcd was restored from a backup), and the watch is silent for ever.
      The client cannot distinguish the two, so it lists.
    - A line too large: it would come again, so it lists.
    - A line cut off, garbage, a broken connection, no server, a refusal: all that was stored before
      is good, so it continues from there; the server sends again what came after. If garbage comes
      again at the same place, with nothing good in between, it lists.
    """
    if isinstance(error, Gone):
        return Recovery(relist=True, pause=expired_before and not progressed)
    if isinstance(error, StreamSilent | TooLarge):
        return Recovery(relist=True)
    if isinstance(error, StreamGarbled):
        return Recovery(relist=not progressed)
    return Recovery(relist=False)
