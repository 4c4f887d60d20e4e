"""RAM: which of its pages are available, and how fast programs get those that they want.

One call is one second. In it, in this order: pages that are no longer used go free; owners touch new pages
and use their active ones, which is slow where these have to be read; working sets are trimmed while too
little is available; modified pages are written; files are read.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Final

from testbed.memory.owners import Kind, Owner
from testbed.memory.pages import apportion, pages_of
from testbed.memory.trimming import trim, write_modified

if TYPE_CHECKING:
    from collections.abc import Sequence

    from testbed.memory.hardware import Hardware

_REWRITTEN_DIVISOR: Final = 2
"""Every second page that was read back is written to again, and loses its copy in the page file."""

_FILE_READS_AT_MOST: Final = 0.8
"""The part of the disk that file reads may take; the rest stays for the page file."""

_KEPT_DIVISOR: Final = 1024
"""This part of the available pages is never handed out: the kernel keeps it for itself."""

_CACHED_AT_START: Final = 0.5
"""The part of what is left after the start that has old file contents in it (standby). The rest is free."""


class PhysicalMemory:
    """The pages of RAM. Free, standby, modified and resident ones are all there are, at any time."""

    def __init__(self, hardware: Hardware, *, owners: Sequence[Owner]) -> None:
        """``owners`` are those that Windows starts with: they get what they want at once."""
        self.total = pages_of(hardware.ram_bytes)
        self._disk = hardware.disk
        self._low = int(self.total * hardware.trim_below)
        self._kept = self.total // _KEPT_DIVISOR
        self._writes = pages_of(hardware.disk.write_bytes_per_second)
        self._standing_modified = pages_of(hardware.os.modified_bytes)
        for owner in owners:
            if owner.kind is Kind.FILES:
                owner.clean = owner.target
            else:
                owner.dirty = owner.target
        left = self.total - self._standing_modified - sum(owner.resident for owner in owners)
        self.standby = int(left * _CACHED_AT_START)
        self.free = left - self.standby
        self.reads = 0
        self.pages_read = 0
        self.pages_written = 0
        self.repurposed = 0
        self.stall = 0.0

    @property
    def available(self) -> int:
        """Return what Windows calls available."""
        return self.free + self.standby

    def modified_list(self, owners: Sequence[Owner]) -> int:
        """Return how many pages wait to be written."""
        return self._standing_modified + sum(owner.modified for owner in owners)

    def release(self, owner: Owner, pages: int) -> None:
        """Take touched pages from their owner, wherever they are."""
        dirty, clean, modified, stored = apportion(
            pages, (owner.dirty, owner.clean, owner.modified, owner.stored)
        )
        owner.dirty -= dirty
        owner.clean -= clean
        owner.modified -= modified
        owner.stored -= stored
        self.free += dirty + clean + modified

    def second(self, owners: Sequence[Owner], *, page_file: int, file_reads: int) -> bool:
        """Live through one second.

        Args:
            owners: all that there are.
            page_file: its size.
            file_reads: read operations on files that are not in RAM, which programs wait for anyway.

        Returns:
            Whether the next second will be like this one, as long as no owner wants anything else.

        """
        self._shrink(owners)
        used = self._use(owners, file_reads=file_reads)
        need = self._low - self.available - sum(owner.modified for owner in owners)
        if need > 0:
            self.standby += trim(owners, need, page_file=page_file)
        written = write_modified(owners, self._writes, page_file=page_file)
        self.standby += written
        self.pages_written += written
        self._read_files(file_reads, seconds=1)
        return not (used or need > 0 or written)

    def skip(self, seconds: int, *, file_reads: int) -> None:
        """Live through many seconds like the last one."""
        self._read_files(file_reads, seconds=seconds)

    def _shrink(self, owners: Sequence[Owner]) -> None:
        for owner in owners:
            if owner.target < owner.touched:
                self.release(owner, owner.touched - owner.target)

    def _use(self, owners: Sequence[Owner], *, file_reads: int) -> bool:
        """Let the owners touch and use pages, as fast as disk and available pages allow."""
        growing = [(owner, more) for owner in owners if (more := owner.target - owner.touched) > 0]
        faulting = [(owner, *_faults(owner)) for owner in owners if owner.missing]
        self.stall = 0.0
        if not growing and not faulting:
            return False
        hard = sum(read for _, _, read in faulting)
        pace = self._pace(hard, file_reads=file_reads)
        needed = pace * (hard + sum(more for _, more in growing))
        room = max(0, self.available - self._kept)
        speed = pace if needed <= room else pace * room / needed
        self.stall = 1.0 - speed
        for owner, soft, read in faulting:
            self._fault(owner, soft=round(soft * speed), hard=round(read * speed))
        for owner, more in growing:
            self._touch(owner, round(more * speed))
        return True

    def _pace(self, hard: int, *, file_reads: int) -> float:
        """Return how fast programs are that wait for so many pages in a second of theirs; 1 is full speed."""
        left = self._disk.reads_per_second - self._possible(file_reads)
        return 1.0 / (1.0 + hard / self._disk.pages_per_read / left)

    def _possible(self, file_reads: int) -> int:
        return min(file_reads, int(self._disk.reads_per_second * _FILE_READS_AT_MOST))

    def _fault(self, owner: Owner, *, soft: int, hard: int) -> None:
        owner.modified -= soft
        owner.dirty += soft
        owner.misjudged = max(0, owner.misjudged - soft - hard)
        hard = min(hard, self.available)
        if not hard:
            return
        self._take(hard)
        owner.stored -= hard
        rewritten = hard // _REWRITTEN_DIVISOR if owner.is_backed_by_page_file else 0
        owner.dirty += rewritten
        owner.clean += hard - rewritten
        self.reads += ceil(hard / self._disk.pages_per_read)
        self.pages_read += hard

    def _touch(self, owner: Owner, pages: int) -> None:
        pages = min(pages, self.available)
        self._take(pages)
        owner.dirty += pages

    def _take(self, pages: int) -> None:
        """Hand out available pages: free ones, and then those that still have old contents."""
        from_free = min(pages, self.free)
        self.free -= from_free
        self.standby -= pages - from_free
        self.repurposed += pages - from_free

    def _read_files(self, file_reads: int, *, seconds: int) -> None:
        operations = self._possible(file_reads) * seconds
        pages = operations * self._disk.pages_per_read
        self.reads += operations
        self.pages_read += pages
        fresh = min(pages, self.free)
        self.free -= fresh
        self.standby += fresh
        self.repurposed += pages - fresh


def _faults(owner: Owner) -> tuple[int, int]:
    """Return how many pages an owner wants back in a second: those still in RAM, and those to be read."""
    wanted = ceil(owner.missing * min(1.0, 1.0 / owner.use_seconds))
    if not wanted:
        return 0, 0
    soft = wanted * owner.modified // (owner.modified + owner.stored)
    return soft, wanted - soft
