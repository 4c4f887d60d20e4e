"""How pages leave RAM: trimmed from working sets, cold ones first, and then written to the page file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from testbed.memory.owners import Kind, Owner
from testbed.memory.pages import apportion

if TYPE_CHECKING:
    from collections.abc import Sequence

_MISJUDGED_DIVISOR: Final = 20
"""Every twentieth page that is trimmed is in use: Windows guesses by the age of pages. So some are read back
long before all that is active no longer fits into RAM."""


def trim(owners: Sequence[Owner], need: int, *, page_file: int) -> int:
    """Take so many pages from working sets, as far as the page file could hold them.

    Returns:
        How many of them are available at once, since they need not be written.

    """
    loose = [owner for owner in owners if owner.kind is not Kind.NONPAGED_POOL]
    storable = page_file - sum(
        owner.stored + owner.modified for owner in loose if owner.is_backed_by_page_file
    )
    trimmed = available = 0
    for from_active, most in ((False, need - need // _MISJUDGED_DIVISOR), (True, need)):
        weights = [_active_resident(owner) if from_active else _cold(owner) for owner in loose]
        parts = apportion(min(most - trimmed, sum(weights)), weights)
        for owner, part in zip(loose, parts, strict=True):
            pages = min(part, storable) if owner.is_backed_by_page_file else part
            available += _trim_one(owner, pages)
            storable -= pages if owner.is_backed_by_page_file else 0
            owner.misjudged += pages if from_active else 0
            trimmed += pages
    return available


def write_modified(owners: Sequence[Owner], most: int, *, page_file: int) -> int:
    """Write modified pages to the page file; return how many."""
    waiting = [owner for owner in owners if owner.modified]
    modified = [owner.modified for owner in waiting]
    wanted = min(sum(modified), most)
    if not wanted:
        return 0
    _make_room(owners, wanted, page_file=page_file)
    written = min(wanted, page_file - used_page_file(owners))
    for owner, pages in zip(waiting, apportion(written, modified), strict=True):
        owner.modified -= pages
        owner.stored += pages
    return written


def used_page_file(owners: Sequence[Owner]) -> int:
    """Return how many pages have a copy in the page file."""
    return sum(owner.clean + owner.stored for owner in owners if owner.is_backed_by_page_file)


def _make_room(owners: Sequence[Owner], wanted: int, *, page_file: int) -> None:
    """Give up copies of pages that are resident, where the page file has no other room."""
    lacking = wanted - (page_file - used_page_file(owners))
    if lacking <= 0:
        return
    copied = [owner for owner in owners if owner.clean and owner.is_backed_by_page_file]
    copies = [owner.clean for owner in copied]
    for owner, pages in zip(copied, apportion(min(lacking, sum(copies)), copies), strict=True):
        owner.clean -= pages
        owner.dirty += pages


def _trim_one(owner: Owner, pages: int) -> int:
    dirty, clean = apportion(pages, (owner.dirty, owner.clean))
    owner.dirty -= dirty
    owner.modified += dirty
    owner.clean -= clean
    owner.stored += clean
    return clean


def _cold(owner: Owner) -> int:
    return max(0, owner.resident - owner.active)


def _active_resident(owner: Owner) -> int:
    return min(owner.resident, owner.active)
