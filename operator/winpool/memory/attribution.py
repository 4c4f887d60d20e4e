"""Whether the memory of a node belongs to pods: kernel, services and shims leak as well.

Evicting pods returns no memory that is not theirs. Such a node has to be recycled: drained, and rebooted or
replaced. Where no pod's commit is known, the non-paged pool of the kernel is what is certainly outside pods.

A guard is raised as soon as its line is crossed, and lowered when the node is clear of the line by a margin.
Otherwise memory that varies about the line would change the guard, and with it what is written, with each
sample.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from winpool.memory.axes import ceiling
from winpool.memory.settings import (
    GROWTH_FLOOR,
    GROWTH_FLOOR_CLEAR,
    GROWTH_SECONDS,
    GROWTH_SPACING_SECONDS,
    OUTSIDE_GROWTH_CLEAR,
    OUTSIDE_GROWTH_SHARE,
    OUTSIDE_SHARE,
    OUTSIDE_SHARE_CLEAR,
)
from winpool.objects.pressure import Guard

if TYPE_CHECKING:
    from winpool.memory.samples import MemorySample
    from winpool.memory.settings import PageFile


@dataclass(frozen=True, slots=True)
class Split:
    """How much was committed at one time, and how much of it outside pods, in bytes."""

    at: float
    total: float
    outside: float


@dataclass(frozen=True, slots=True)
class Growth:
    """The splits of the last ten minutes, all of one source.

    ``is_of_pods``: they come from the commit of pods. Otherwise ``outside`` is the non-paged pool alone.
    ``whole`` is the ceiling at the last one, None where it is unknown. ``raised`` are the guards whose lines
    were crossed, and of which the node is not clear.
    """

    source: str = ""
    is_of_pods: bool = False
    whole: float | None = None
    splits: tuple[Split, ...] = ()
    raised: frozenset[Guard] = frozenset()


def attributing(samples: tuple[MemorySample, ...]) -> MemorySample | None:
    """Return which sample says most of where memory is; None where none says it."""
    for name in ("pods_commit", "pool_nonpaged"):
        for sample in samples:
            if sample.commit_total is not None and getattr(sample, name) is not None:
                return sample
    return None


def grown(growth: Growth, sample: MemorySample, page_file: PageFile) -> Growth:
    """Return ``growth`` with what ``sample`` says, or unchanged where it does not say it.

    With another source, or another kind of evidence, it begins again. What pods have says more than the
    non-paged pool, which does not replace it for as long as it counts: a pod that has just begun has no
    numbers for a moment.
    """
    is_of_pods = sample.pods_commit is not None
    counts = bool(growth.splits) and sample.measured_at - growth.splits[-1].at <= GROWTH_SECONDS
    if sample.commit_total is None or (growth.is_of_pods and counts and not is_of_pods):
        return growth
    if sample.pods_commit is not None:
        outside = max(0.0, sample.commit_total - sample.pods_commit)
    elif sample.pool_nonpaged is not None:
        outside = sample.pool_nonpaged
    else:
        return growth
    split = Split(sample.measured_at, sample.commit_total, outside)
    is_same = growth.source == sample.source and growth.is_of_pods == is_of_pods
    splits = growth.splits if is_same else ()
    if len(splits) > 1 and splits[-1].at - splits[-2].at < GROWTH_SPACING_SECONDS:
        splits = splits[:-1]
    recent = tuple(each for each in splits if split.at - each.at <= GROWTH_SECONDS)
    found = Growth(sample.source, is_of_pods, ceiling(sample, page_file), (*recent, split))
    return replace(found, raised=_raised(found, growth.raised if is_same and counts else frozenset()))


def guard_of(growth: Growth, *, now: float) -> Guard | None:
    """Return why the memory is not that of pods; None where it is, or where that is unknown.

    What was seen counts for ten minutes, also if the source is silent since.
    """
    if not growth.splits or now - growth.splits[-1].at > GROWTH_SECONDS:
        return None
    return next(
        (guard for guard in (Guard.OUTSIDE_SHARE, Guard.OUTSIDE_GROWTH) if guard in growth.raised), None
    )


def _raised(growth: Growth, before: frozenset[Guard]) -> frozenset[Guard]:
    """Return which guards the splits raise; one that was raised ``before`` is lowered where it is clear."""
    first, last = growth.splits[0], growth.splits[-1]
    raised = set[Guard]()
    share = OUTSIDE_SHARE_CLEAR if Guard.OUTSIDE_SHARE in before else OUTSIDE_SHARE
    if growth.whole is not None and last.outside > share * growth.whole:
        raised.add(Guard.OUTSIDE_SHARE)
    was_growing = Guard.OUTSIDE_GROWTH in before
    floor = GROWTH_FLOOR_CLEAR if was_growing else GROWTH_FLOOR
    share = OUTSIDE_GROWTH_CLEAR if was_growing else OUTSIDE_GROWTH_SHARE
    increase = last.total - first.total
    if increase > floor * last.total and last.outside - first.outside > share * increase:
        raised.add(Guard.OUTSIDE_GROWTH)
    return frozenset(raised)
