"""Who has memory, and where each of its pages is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class Kind(Enum):
    """What kind of memory it is."""

    POD = auto()
    PROCESSES = auto()
    """Of processes outside of pods."""
    PAGED_POOL = auto()
    NONPAGED_POOL = auto()
    """Never leaves RAM."""
    FILES = auto()
    """Code and mapped files. They are on a disk in any case: no commit, no page file, nothing to write."""


@dataclass(slots=True, eq=False)
class Owner:
    """Something that has memory, in pages.

    Every page that was touched is in exactly one of four places: ``dirty`` and ``clean`` are resident,
    ``modified`` is on its way to the page file and still in RAM, ``stored`` is only there. A clean page has a
    copy in the page file.
    """

    kind: Kind
    active_share: float
    """The part of what is touched that is used again and again."""
    use_seconds: float
    """In which all of the active part is used once."""
    commit: int = 0
    target: int = 0
    """How much of it the owner writes to, as soon as it gets the pages."""
    dirty: int = 0
    clean: int = 0
    modified: int = 0
    stored: int = 0
    misjudged: int = 0
    """Active pages that were trimmed although cold ones were left."""

    @property
    def touched(self) -> int:
        """Return how many pages the owner has written to."""
        return self.dirty + self.clean + self.modified + self.stored

    @property
    def resident(self) -> int:
        """Return the working set."""
        return self.dirty + self.clean

    @property
    def active(self) -> int:
        """Return how many pages the owner uses again and again."""
        return int(self.touched * self.active_share)

    @property
    def missing(self) -> int:
        """Return how many active pages are not resident."""
        away = self.modified + self.stored
        return max(self.active - self.resident, min(self.misjudged, self.active, away)) if away else 0

    @property
    def is_private(self) -> bool:
        """Return whether its resident pages are in a private working set."""
        return self.kind in (Kind.POD, Kind.PROCESSES)

    @property
    def is_backed_by_page_file(self) -> bool:
        """Return whether what leaves RAM takes space in the page file."""
        return self.kind is not Kind.FILES
