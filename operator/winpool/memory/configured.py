"""What a pool has set of the detector, as the detector reads it, with the operator's values for the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.api.quantity import bytes_of
from winpool.memory.settings import CommitLines, DetectorSettings, PageFile, PageFilePolicy, PhysicalLines

if TYPE_CHECKING:
    from winpool.api.memory_pressure import MemoryPressure
    from winpool.api.memory_pressure import PageFile as DeclaredPageFile
    from winpool.api.thresholds import CommitThresholds, PhysicalThresholds


def settings_of(pressure: MemoryPressure) -> DetectorSettings:
    """Return the numbers of the detector for nodes of a pool with this ``memoryPressure``."""
    return DetectorSettings(
        sources=tuple(each.name for each in pressure.sources),
        page_file=_page_file(pressure.page_file),
        commit=_commit(pressure.commit),
        physical=_physical(pressure.physical),
        soft_grace_seconds=float(pressure.grace_seconds),
        clear_after_seconds=float(pressure.clear_seconds),
    )


def _page_file(declared: DeclaredPageFile | None) -> PageFile:
    if declared is None:
        return PageFile()
    return PageFile(PageFilePolicy(declared.type.value), declared.max_bytes)


def _commit(declared: CommitThresholds | None) -> CommitLines:
    if declared is None:
        return CommitLines()
    return CommitLines(
        warning_used_percent=float(declared.warning_used_percent),
        soft_used_percent=float(declared.soft_used_percent),
        hard_headroom_bytes=bytes_of(declared.hard_headroom),
        hard_eta_seconds=float(declared.hard_eta_seconds),
    )


def _physical(declared: PhysicalThresholds | None) -> PhysicalLines:
    if declared is None:
        return PhysicalLines()
    return PhysicalLines(
        warning_available_percent=float(declared.warning_available_percent),
        soft_available_percent=float(declared.soft_available_percent),
        hard_available_percent=float(declared.hard_available_percent),
        soft_reads_per_second=float(declared.soft_reads_per_second),
        hard_reads_per_second=float(declared.hard_reads_per_second),
    )
