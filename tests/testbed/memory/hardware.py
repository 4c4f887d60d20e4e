"""What a simulated machine is: its memory, its page file, its disk, and what Windows itself takes.

Numbers without a source are choices of this model. They can be set, so that a benchmark can vary them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Final

from testbed.memory.pages import GIB, MIB

_MAX_RAM_FACTOR: Final = 3
_MAX_FLOOR_BYTES: Final = 4 * GIB
_INITIAL_DIVISOR: Final = 8
_MAX_INITIAL_BYTES: Final = 32 * GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedPageFile:
    """A page file that never changes its size, as on AKS (8,096 MB); 0 is a machine without one."""

    size_bytes: int

    def __post_init__(self) -> None:
        _demand(self.size_bytes >= 0, f"size_bytes: {self.size_bytes} is below 0")

    def initial_bytes_on(self, _ram_bytes: int) -> int:
        """Return the size at the start of the machine."""
        return self.size_bytes

    def maximum_bytes_on(self, _ram_bytes: int) -> int:
        """Return the size up to which it grows."""
        return self.size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemManagedPageFile:
    """A page file that Windows extends when commit reaches 90 % of the limit.

    It begins with RAM / 8 (at most 32 GiB) and grows up to three times RAM or 4 GiB, whichever is larger.
    Source: determine-appropriate-page-file-size.md in MicrosoftDocs/windows-itpro-docs. That it may also
    shrink is left out.
    """

    initial_bytes: int | None = None
    maximum_bytes: int | None = None
    """Where it stops growing earlier, such as at an eighth of the volume."""

    def __post_init__(self) -> None:
        for each in ("initial_bytes", "maximum_bytes"):
            given = getattr(self, each)
            _demand(given is None or given >= 0, f"{each}: {given} is below 0")

    def initial_bytes_on(self, ram_bytes: int) -> int:
        """Return the size at the start of the machine."""
        usual = min(ram_bytes // _INITIAL_DIVISOR, _MAX_INITIAL_BYTES)
        wanted = usual if self.initial_bytes is None else self.initial_bytes
        return min(wanted, self.maximum_bytes_on(ram_bytes))

    def maximum_bytes_on(self, ram_bytes: int) -> int:
        """Return the size up to which it grows."""
        most = max(_MAX_RAM_FACTOR * ram_bytes, _MAX_FLOOR_BYTES)
        return most if self.maximum_bytes is None else min(most, self.maximum_bytes)


PageFile = FixedPageFile | SystemManagedPageFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """The disk of the page file. The defaults are those of a mid-size managed disk in a cloud."""

    reads_per_second: int = 4000
    """Page read operations, one after the other: 0.25 ms each."""
    pages_per_read: int = 4
    """Windows reads neighbours of the missing page along with it."""
    write_bytes_per_second: int = 200 * MIB
    page_file_growth_bytes_per_second: int = 512 * MIB

    def __post_init__(self) -> None:
        for each in fields(self):
            given = getattr(self, each.name)
            _demand(given > 0, f"{each.name}: {given} is not above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class OsFootprint:
    """What Windows and its node agents take.

    The three that are committed are 1,157 MiB together: an idle node of 4 GiB has committed 21 % of 5.38 GiB
    (kubernetes/website#48535).
    """

    nonpaged_pool_bytes: int = 250 * MIB
    paged_pool_bytes: int = 250 * MIB
    process_bytes: int = 657 * MIB
    process_touched: float = 0.7
    """The part of it that the processes have written to."""
    shared_bytes: int = 800 * MIB
    """Code and mapped files: in RAM, not committed, in no private working set."""
    modified_bytes: int = 200 * MIB
    """On the modified list in any case: "typically, several hundred megabytes" (the same page)."""
    active: float = 0.3
    """The part of all that which is used again and again."""

    @property
    def committed_bytes(self) -> int:
        """Return what it adds to commit."""
        return self.nonpaged_pool_bytes + self.paged_pool_bytes + self.process_bytes

    @property
    def resident_bytes(self) -> int:
        """Return what it has in RAM where nothing presses."""
        return self.committed_bytes + self.shared_bytes + self.modified_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """A machine."""

    ram_bytes: int
    page_file: PageFile = field(default_factory=SystemManagedPageFile)
    disk: Disk = field(default_factory=Disk)
    os: OsFootprint = field(default_factory=OsFootprint)
    trim_below: float = 0.02
    """Windows takes pages from working sets while less than this part of RAM is available. It publishes no
    number. It must be below the 5 % that performance guides call critical, or no machine would get there."""

    def __post_init__(self) -> None:
        least = self.os.resident_bytes
        _demand(
            self.ram_bytes > least, f"ram_bytes: {self.ram_bytes} is not more than Windows takes, {least}"
        )
        _demand(0 < self.trim_below < 0.5, f"trim_below: {self.trim_below} is not between 0 and 0.5")


def _demand(fine: bool, mistake: str) -> None:
    if not fine:
        raise ValueError(mistake)
