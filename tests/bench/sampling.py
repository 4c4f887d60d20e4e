"""CPU and memory of processes, as the kernel counts them in /proc."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psutil

from bench.errors import BenchError


def cpu_seconds(pid: int) -> float:
    """Return the user and system time of a process since its start; steps of 10 ms.

    Raises BenchError where the process is gone.
    """
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.NoSuchProcess:
        raise BenchError(f"process {pid} has ended during a measurement") from None
    return float(times.user + times.system)


def memory_bytes(pid: int, *, peak: bool = False) -> int:
    """Return the resident memory of a process: VmRSS, or VmHWM, the highest that it ever was.

    Raises BenchError where the process is gone.
    """
    name = "VmHWM" if peak else "VmRSS"
    try:
        return parse_memory(Path(f"/proc/{pid}/status").read_text(), name=name)
    except OSError:
        raise BenchError(f"process {pid} has ended during a measurement") from None


def parse_memory(status: str, *, name: str) -> int:
    """Read a line such as ``VmHWM:     1234 kB`` of /proc/PID/status; bytes."""
    lines = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    if name not in lines:
        raise BenchError(f"/proc/PID/status has no {name}: the process is about to end")
    return int(lines[name].split()[0]) * 1024


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds by name of process, over so many seconds."""

    cpu: Mapping[str, float]
    seconds: float

    def fraction(self, name: str) -> float:
        """Return the CPU of a process as a fraction of one core."""
        return self.cpu[name] / self.seconds


class Meter:
    """Measures the CPU of some processes from when it is made."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = dict(pids)
        self._before = self._now()
        self._started = time.monotonic()

    def read(self) -> Usage:
        """Return what was used since the start."""
        seconds = time.monotonic() - self._started
        used = {name: total - self._before[name] for name, total in self._now().items()}
        return Usage(used, seconds)

    @classmethod
    def of(cls, **pids: int) -> Self:
        """Measure processes given by name."""
        return cls(pids)

    def _now(self) -> dict[str, float]:
        return {name: cpu_seconds(pid) for name, pid in self._pids.items()}
