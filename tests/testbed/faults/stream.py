"""What can be done to the lines of a watch: to those that pass from now on, on open watches too.

``after_lines`` counts the lines that passed since the rule took the watch in: when it was opened, or when
the rule was added to one that was open already. 0 is at that very moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from testbed.faults.counting import Count

LINE_LIMIT: Final = 64 * 1024 * 1024
"""Bytes of a line that may be held; etcd takes objects of 1.5 MiB, a test may make larger ones."""


class Mark(Enum):
    """What is to happen between lines."""

    HOLD = auto()
    """Let nothing pass before the rule is released."""
    CUT = auto()
    """Break the connection off."""
    END = auto()
    """End the answer properly, as the API server does after ``timeoutSeconds``."""


Step = bytes | Mark
Filter = Callable[[bytes | None], Iterable[Step]]
"""What to do at a line (with its newline), or at the moment of taking a watch in (None)."""
LineTest = Callable[[bytes], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamAction:
    """Something that is done to the lines of a watch."""

    label: str
    open: Callable[[], Filter]
    """Returns what does it, for one watch."""


def _once(
    label: str,
    steps: Callable[[list[bytes]], Iterable[Step]],
    *,
    after_lines: int,
    in_line: bool = False,
    keeps: bool = False,
) -> StreamAction:
    """Return what happens once on each watch: ``steps``, made of the lines before where it ``keeps`` them."""
    if after_lines < 0:
        raise ValueError("after_lines counts from 0")

    def open_() -> Filter:
        passed: list[bytes] = []
        count = 0

        def take(line: bytes | None) -> Iterator[Step]:
            nonlocal count
            if line is not None:
                count += 1
                if keeps and count <= after_lines:
                    passed.append(line)
                if in_line and count == after_lines + 1:
                    yield line[: len(line) // 2]
                    yield from steps(passed)
                    return
                yield line
            if not in_line and count == after_lines:
                yield from steps(passed)

        return take

    return StreamAction(label=label, open=open_)


def _each(
    label: str, change: Callable[[bytes], bytes | None], *, where: LineTest | None, count: Count
) -> StreamAction:
    """Return what happens to lines one by one."""

    def open_() -> Filter:
        matching = 0

        def take(line: bytes | None) -> Iterator[Step]:
            nonlocal matching
            if line is None:
                return
            if where is None or where(line):
                matching += 1
                if count.selects(matching):
                    changed = change(line.removesuffix(b"\n"))
                    if changed is not None:
                        yield _ended(changed)
                    return
            yield line

        return take

    return StreamAction(label=label, open=open_)


def cut_stream(*, after_lines: int = 0, in_line: bool = False, clean: bool = False) -> StreamAction:
    """End the watch after so many lines.

    Args:
        after_lines: so many pass before.
        in_line: in the middle of the next line.
        clean: end the answer properly in place of breaking the connection off.

    """
    end = Mark.END if clean else Mark.CUT
    return _once("cut stream", lambda _: (end,), after_lines=after_lines, in_line=in_line)


def silence(*, after_lines: int = 0) -> StreamAction:
    """Let no line pass any more and keep the connection open, until the rule is released or removed.

    Nothing is lost: what the API server sent meanwhile passes then.
    """
    return _once("silence", lambda _: (Mark.HOLD,), after_lines=after_lines)


def insert(line: bytes, *, after_lines: int = 0) -> StreamAction:
    """Add a line that the API server did not send: ``error_line(410)``, garbage, ``bookmark_line(…)``."""
    return _once("insert", lambda _: (_ended(line),), after_lines=after_lines)


def replay(*, after_lines: int) -> StreamAction:
    """After so many lines send all these once more, in the same order."""
    if after_lines < 1:
        raise ValueError("there is nothing to send once more before the first line")
    return _once("replay", tuple, after_lines=after_lines, keeps=True)


def alter(
    change: Callable[[bytes], bytes | None],
    *,
    where: LineTest | None = None,
    nth: int | None = None,
    every: int | None = None,
    first: int | None = None,
) -> StreamAction:
    """Send another line in place of one; None in its place drops it.

    Args:
        change: is given the line without its newline.
        where: which lines, see ``event``; by default all.
        nth: only this one of the lines that match.
        every: this one of them, and the one after as many again.
        first: so many of them and no more.

    """
    return _each("alter", change, where=where, count=Count.of(nth=nth, every=every, first=first))


def drop(
    *,
    where: LineTest | None = None,
    nth: int | None = None,
    every: int | None = None,
    first: int | None = None,
) -> StreamAction:
    """Leave lines out; which ones is said as for ``alter``."""
    return _each("drop", lambda _: None, where=where, count=Count.of(nth=nth, every=every, first=first))


def _ended(line: bytes) -> bytes:
    return line if line.endswith(b"\n") else line + b"\n"


class LineBuffer:
    """Cuts chunks of bytes into lines that keep their newline."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take a chunk, return the lines it completes.

        Raises:
            ValueError: a line is longer than LINE_LIMIT.

        """
        *ended, rest = chunk.split(b"\n")
        if ended:
            ended[0] = b"".join((*self._parts, ended[0]))
            self._parts, self._size = [], 0
        if rest:
            self._parts.append(rest)
            self._size += len(rest)
            if self._size > LINE_LIMIT:
                raise ValueError(f"a line of more than {LINE_LIMIT} bytes in a watch")
        return [line + b"\n" for line in ended]

    def rest(self) -> bytes:
        """Return what has begun and not ended."""
        return b"".join(self._parts)
