"""What a sample says of the two axes: how much there is, and how much of it is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.memory.settings import PageFilePolicy
from winpool.objects.pressure import Axis, Reading

if TYPE_CHECKING:
    from winpool.memory.samples import MemorySample
    from winpool.memory.settings import PageFile


def read(axis: Axis, sample: MemorySample, *, page_file: PageFile, overhead: float) -> Reading | None:
    """Return what ``sample`` says of ``axis``; None where it does not say how much is left.

    ``overhead`` is what the kubelet's ``availableBytes`` does not count.
    """
    return _commit(sample, page_file) if axis is Axis.COMMIT else _physical(sample, overhead)


def ceiling(sample: MemorySample, page_file: PageFile) -> float | None:
    """Return how much the node can commit at most; None where that is unknown.

    The measured limit is that of the page file as it is now. A file of a fixed size is never extended, so the
    measurement is better than the declared size. A file that Windows manages is extended up to its declared
    size, so the larger one counts, and RAM has to be known. Kubelets before 1.31 report no limit: with an
    unknown page file the ceiling is unknown.
    """
    limit = sample.commit_limit or None
    ram = sample.physical_total or None
    possible = None if ram is None or page_file.max_bytes is None else ram + page_file.max_bytes
    match page_file.policy:
        case PageFilePolicy.UNKNOWN:
            return limit
        case PageFilePolicy.FIXED:
            return possible if limit is None else limit
        case PageFilePolicy.SYSTEM_MANAGED:
            return None if possible is None else max(possible, limit or 0.0)


def _commit(sample: MemorySample, page_file: PageFile) -> Reading | None:
    whole = ceiling(sample, page_file)
    if whole is None or sample.commit_total is None:
        return None
    return Reading(Axis.COMMIT, left=max(0.0, whole - sample.commit_total), whole=whole)


def _physical(sample: MemorySample, overhead: float) -> Reading | None:
    whole = sample.physical_total or None
    if whole is None:
        return None
    available = sample.physical_available
    is_estimate = available is None
    if available is None and sample.proxy_available is not None:
        available = max(0.0, sample.proxy_available - overhead)
    if available is None or available > whole:
        return None
    return Reading(
        Axis.PHYSICAL,
        left=available,
        whole=whole,
        hard_reads_per_second=sample.hard_reads_per_second,
        write_out_per_second=sample.write_out_per_second,
        repurposed_per_second=sample.repurposed_per_second,
        is_estimate=is_estimate,
    )
