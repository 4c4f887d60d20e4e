"""The clusters that ``make up`` started on this machine, so that ``make down`` finds them wherever they are.

Each has a file in the cache. A pid alone is no identity, since the kernel gives it out again: with it is when
the process started, and no other process is ever ended.
"""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from testbed.launch import end_stranger
from testbed.paths import Layout, cache_directory, write_atomically
from testbed.process import find
from testbed.state import State


class Started(BaseModel):
    """A cluster: its directory, and the process that all others of it end with."""

    model_config = ConfigDict(frozen=True)

    directory: Path
    pid: int
    start_time: float
    """In seconds since the epoch, as psutil tells it."""

    @classmethod
    def at(cls, directory: Path) -> Self | None:
        """Return the cluster that runs in a directory, also if its files are gone; None if none does."""
        directory = directory.absolute()
        state = State.read(Layout(directory))
        if state is None:
            return next((each for each in cls.running() if each.directory == directory), None)
        found = cls(directory=directory, pid=state.pid, start_time=state.start_time)
        return found if found.runs else None

    @classmethod
    def running(cls) -> list[Self]:
        """Return the clusters that were noted and still run; what is noted of others is removed."""
        found = []
        for file in sorted(_folder().glob("*.json")):
            try:
                noted = cls.model_validate_json(file.read_bytes())
            except (OSError, ValidationError):  # removed in this moment, or of another version
                continue
            if noted.runs:
                found.append(noted)
            else:
                file.unlink(missing_ok=True)
        return found

    @property
    def runs(self) -> bool:
        """Whether the process still is the one that was started."""
        return find(self.pid, started=self.start_time) is not None

    @property
    def has_files(self) -> bool:
        """Whether its directory still has what others need to use it."""
        return Layout(self.directory).state.exists()

    def note(self) -> None:
        """Write down that it was started."""
        _folder().mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(self._file, self.model_dump_json() + "\n")

    def end(self) -> None:
        """End it, and forget it."""
        end_stranger(self.pid, started=self.start_time)
        self._file.unlink(missing_ok=True)

    @property
    def _file(self) -> Path:
        return _folder() / f"{self.pid}.json"


def _folder() -> Path:
    return cache_directory() / "up"
