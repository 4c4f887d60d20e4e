"""Says every few seconds that a long step goes on, so that no one takes a quiet one for one that hangs.

Of the standard library alone: ``make install`` runs it as a script before any package is there.
"""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

SILENCE_SECONDS: Final = 8.0
"""No one is to wait for ten seconds without a line. The rest is for a machine under full load."""
DETAIL_WIDTH: Final = 70
"""Columns of a program's own words: enough to see what it does, and they stay on one line."""


class Voice:
    """Passes lines on to ``report``, and after a silence the last one again, with the seconds since it began.

    Threads may share it. ``report`` is never called by two of them at once.
    """

    def __init__(self, report: Callable[[str], None], *, silence_seconds: float) -> None:
        self._report = report
        self._silence_seconds = silence_seconds
        self._lock = threading.Lock()
        self._step = self._detail = ""
        self._began = self._spoke = time.monotonic()

    def say(self, line: str) -> None:
        """Report a line. It is repeated until another one comes."""
        with self._lock:
            self._step, self._detail = line, ""
            self._began = self._spoke = time.monotonic()
            self._report(line)

    def note(self, detail: str) -> None:
        """Remember what to add where the last line is repeated."""
        with self._lock:
            self._detail = detail

    def beat(self, ended: threading.Event) -> None:
        """Repeat the last line after each silence, until ``ended``."""
        wait = self._silence_seconds
        while not ended.wait(wait):
            with self._lock:
                now = time.monotonic()
                if self._step and now - self._spoke >= self._silence_seconds:
                    detail = f": {self._detail[:DETAIL_WIDTH]}" if self._detail else ""
                    self._report(f"{self._step} ({now - self._began:.0f} s){detail}")
                    self._spoke = now
                wait = max(self._spoke + self._silence_seconds - now, 0.1)


@contextmanager
def patiently(report: Callable[[str], None], *, silence_seconds: float = SILENCE_SECONDS) -> Iterator[Voice]:
    """Yield a voice whose last line is repeated while nothing is said, as long as the context lasts."""
    voice = Voice(report, silence_seconds=silence_seconds)
    ended = threading.Event()
    thread = threading.Thread(target=voice.beat, args=(ended,), daemon=True)
    thread.start()
    try:
        yield voice
    finally:
        ended.set()
        thread.join()


def run(title: str, command: Sequence[str]) -> int:
    """Run a command and say every few seconds which line it printed last; return its exit code.

    All that it printed is shown only where it fails, on standard error.
    """
    printed: list[str] = []
    with patiently(partial(print, flush=True)) as voice:
        voice.say(title)
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                printed.append(line.rstrip())
                voice.note(line.strip())
    if process.returncode:
        print("\n".join(printed), file=sys.stderr, flush=True)
    return process.returncode


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:]))
