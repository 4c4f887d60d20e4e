"""Slices of the audit log between two moments, in bounded memory and without a look at Lease renewals."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from bench.counting import FAILED_FROM
from bench.errors import BenchError
from testbed.audit import AuditRecord, parse

SETTLE_SECONDS: Final = 30.0
"""The line is in the file when the answer is; the rest is for a machine that was put to sleep."""

POLL_SECONDS: Final = 0.02

LEASE: Final = b'"resource":"leases"'
"""Five thousand kubelets renew 100 Leases a second; whoever counts here leaves all Leases out."""


class AuditTrail:
    """The audit log as a file that grows: ``mark`` names a moment, ``between`` reads from one to another.

    Nothing is kept, so that asking costs what was written in between, whatever stands before it. The API
    server must not be killed meanwhile: a line that a kill has cut cannot be read.
    """

    def __init__(self, path: Path, *, ask: Callable[[str], object]) -> None:
        self._path = path
        self._ask = ask

    def mark(self) -> int:
        """Return the moment after all that was answered before this call.

        It asks the API server something of its own and waits for that line: an answer of more than
        4 KiB may reach its client a little before its line is in the file.
        """
        start = self._path.stat().st_size
        word = f"/version?mark={uuid.uuid4().hex}"
        self._ask(word)
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            with self._path.open("rb") as file:
                file.seek(start)
                before, found, after = file.read().partition(word.encode())
            if found and b"\n" in after:
                return start + len(before) + len(found) + after.index(b"\n") + 1
            if time.monotonic() > deadline:
                raise BenchError(f"a request of our own does not appear in {self._path}")
            time.sleep(POLL_SECONDS)

    def between(self, start: int, end: int) -> list[AuditRecord]:
        """Return the requests answered between two marks, and the watches begun, but those to Leases."""
        return list(read(self._path, start=start, end=end))


def read(path: Path, *, start: int, end: int) -> Iterator[AuditRecord]:
    """Give the records of the lines that begin at ``start`` or later and end at ``end`` or earlier."""
    position = start
    with path.open("rb") as file:
        file.seek(start)
        for line in file:
            position += len(line)
            if position > end:
                return
            if LEASE not in line and not is_end_of_watch(record := parse(line)):
                yield record


def is_end_of_watch(record: AuditRecord) -> bool:
    """Whether the line tells of the end of a watch, which a line before has told of the start of.

    A watch that was refused has the one line only, and is none of these.
    """
    return record.verb == "watch" and record.completed is not None and record.code < FAILED_FROM
