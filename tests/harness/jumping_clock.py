"""The operator on a wall clock that a test can set while it runs. The clock of the machine stays as it is.

``python -m harness.jumping_clock`` replaces the class ``datetime`` in the two modules from which the operator
reads the wall clock (``winpool.kube.leader_election``, ``winpool.loops``), and ``time.time``. The seconds
to add are in the file that JUMPING_CLOCK names, which is read at each look at the clock. Monotonic clocks are
left as they are: on a real machine nobody can set those either.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Self

from winpool import app, logs
from winpool import loops as control_clock
from winpool.kube import leader_election as lease_clock
from winpool.settings import Settings

_FILE = "JUMPING_CLOCK"


def _jump() -> float:
    return float(Path(os.environ[_FILE]).read_text() or "0")


class _Jumping(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return super().now(tz) + timedelta(seconds=_jump())


def environment(file: Path) -> dict[str, str]:
    """Return what an operator of this module needs in its environment; ``file`` is made."""
    set_clock(file, seconds=0)
    return {_FILE: str(file)}


def set_clock(file: Path, *, seconds: float) -> None:
    """Set the wall clock of the operator to so many seconds after that of the machine."""
    fresh = file.with_suffix(".new")
    fresh.write_text(str(seconds))
    fresh.replace(file)


def main() -> int:
    """Run the operator on this clock; return the exit code."""
    real = time.time
    time.time = lambda: real() + _jump()
    for module in (control_clock, lease_clock):
        module.datetime = _Jumping  # type: ignore[attr-defined]
    settings = Settings()
    logs.configure(settings)
    return asyncio.run(app.run(settings))


if __name__ == "__main__":
    sys.exit(main())
