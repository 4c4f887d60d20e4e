"""Until when Windows is serviced. A release is supported through its last day, in UTC."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from winpool.api.verdicts import Verdict
from winpool.support.verdicts import Layer, Reason

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date

    from winpool.support.data import WindowsRelease

NOTICE_DAYS: Final = 180
"""Half a year: long enough to plan new node pools, and before most yearly change freezes."""

WARNING_DAYS: Final = 90
"""A quarter: by now the move should have begun."""


class EndingLevel(StrEnum):
    """How near the end of support is."""

    NONE = "None"
    NOTICE = "Notice"
    WARNING = "Warning"
    ENDED = "Ended"


@dataclass(frozen=True, slots=True)
class SupportEnding:
    """The days that are left after today, 0 on the last day and negative after it, and how near that is."""

    days_left: int
    level: EndingLevel


def support_ending(end: date, today: date) -> SupportEnding:
    """Return how near ``end``, the last supported day, is on ``today``, both in UTC."""
    left = (end - today).days
    if left < 0:
        return SupportEnding(left, EndingLevel.ENDED)
    if left <= WARNING_DAYS:
        return SupportEnding(left, EndingLevel.WARNING)
    return SupportEnding(left, EndingLevel.NOTICE if left <= NOTICE_DAYS else EndingLevel.NONE)


def servicing_told(release: WindowsRelease, today: date) -> str:
    """Say in a sentence how long Microsoft services ``release``, and what can be bought after that."""
    parts = [("mainstream" if release.extended_end else "all", release.mainstream_end)]
    if release.extended_end:
        parts.append(("extended", release.extended_end))
    told = ", ".join(f"{name} support {'ended' if today > end else 'ends'} on {end}" for name, end in parts)
    bought = f"; extended security updates {release.esu}" if release.esu else ""
    return f"Windows Server {release.name}: {told}{bought}."


def ended_reasons(release: str, end: date, *, layer: Layer, today: date) -> Iterator[Reason]:
    """Say that the support of ``release`` has ended, where it has; ``end`` comes from ``layer``."""
    if today <= end:
        return
    who = "Microsoft's support" if layer is Layer.BUILT_IN else f"The support that {layer.rows} grants"
    yield Reason(
        "SupportEnded",
        Verdict.UNSUPPORTED,
        f"{who} for Windows Server {release} ended on {end}.",
        fix="Replace the nodes with a newer release. If you have support beyond that day, set endOfSupport "
        "in a supportMatrix row.",
        layer=layer,
    )
