"""What a reflector does after trouble, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from winpool.cluster.errors import Gone, StreamGarbled, StreamSilent, TooLarge

if TYPE_CHECKING:
    from winpool.cluster.errors import ApiError


@dataclass(frozen=True, slots=True)
class Recovery:
    """What to do after trouble: list anew or go on from the last good version, at once or after a pause."""

    relist: bool
    pause: bool = True


def recovery_after(error: ApiError, *, progressed: bool, expired_before: bool) -> Recovery:
    """Decide how to go on after ``error``.

    ``progressed`` tells whether anything had come in since the trouble before, ``expired_before``
    whether that was a 410 too.

    - 410: the version is too old to go on from, only a list tells what was missed. At once
      the first time, as after any outage that was long enough: waiting makes nothing better.
    - Silence: either the connection is dead, where going on would be enough, or the version
      is one that the server does not know yet (etcd was put back), where a watch is silent
      for ever. The two look the same from here; a list tells.
    - A line too large: it would come again.
    - A line cut off, garbage, a broken connection, no server, a refusal: all that was taken
      in before is good, so go on from there; the server sends again what came after. Garbage
      that comes again at the same place, with nothing good in between, is listed around.
    """
    if isinstance(error, Gone):
        return Recovery(relist=True, pause=expired_before and not progressed)
    if isinstance(error, StreamSilent | TooLarge):
        return Recovery(relist=True)
    if isinstance(error, StreamGarbled):
        return Recovery(relist=not progressed)
    return Recovery(relist=False)
