"""Reports the memory of nodes as ``/memory`` serves it and ``kubectl winpool memory`` reads it.

It has names of nodes, pools and protected namespaces, and numbers: no names of pods, and nothing that a
kubelet or a data source has answered in words. Bytes are whole, percentages have one decimal. What is not
known is absent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, Literal, NamedTuple, cast

import msgspec

from winpool.model.pressure import Axis, AxisPressure, Level, NodePressure, Reading

VERSION: Final = 1
"""Of the form. A field that is added leaves it as it is; a field with another meaning does not."""

MOST_NODES: Final = 10_000
"""Twice the nodes of the largest cluster that Kubernetes supports. So an answer has a few MiB at most."""

PROBLEM_CHARACTERS: Final = 512
"""Of a sentence about a node that gives no samples: ours have at most half of that."""

LevelName = Literal["Normal", "Warning", "ProxyOnly", "Soft", "Hard"]

_ORDER: Final[tuple[LevelName | None, ...]] = ("Hard", "Soft", "ProxyOnly", "Warning", None, "Normal")
"""The worst first. Unknown is worse than Normal: such a node may have any level."""

Moment = Annotated[datetime, msgspec.Meta(tz=True)]
Bytes = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _Reported(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What all parts of a report share: the names of JSON, and that nothing unknown is written."""


class CommitReport(_Reported, frozen=True):
    """What is committed of the ``ceiling``, what can be committed at most, in bytes.

    ``trend_bytes_per_second`` is how fast that grows, 0 where it does not, absent where there is no trend
    yet. ``seconds_left`` is when nothing is left at that rate.
    """

    level: LevelName | None
    used: Bytes
    ceiling: Bytes
    used_percent: float | None = None
    trend_bytes_per_second: float | None = None
    seconds_left: float | None = None


class PhysicalReport(_Reported, frozen=True):
    """What is available of RAM, in bytes; ``is_estimate`` where it is derived from the kubelet's numbers."""

    level: LevelName | None
    available: Bytes
    total: Bytes
    available_percent: float | None = None
    is_estimate: bool = False


class PagingReport(_Reported, frozen=True):
    """Operations of page reads and pages written, each a second. Only an exporter reports them."""

    reads_per_second: float | None = None
    writes_per_second: float | None = None


class NodeReport(_Reported, frozen=True):
    """The memory of one node.

    ``level`` is None where it is not known. ``axis``, ``since``, ``age_seconds`` and ``source`` are of the
    worst axis, or of the newest sample where none is known: ``since`` is when the level was reached,
    ``age_seconds`` how old the sample is. ``guard`` is why evictions cannot be expected to help, ``hold`` why
    the detector permits none now; both are names of ``model.pressure``. ``problem`` is the sentence about a
    node that gives no samples.
    """

    node: str
    pool: str
    level: LevelName | None
    axis: Axis | None = None
    since: Moment | None = None
    age_seconds: float | None = None
    source: str = ""
    commit: CommitReport | None = None
    physical: PhysicalReport | None = None
    paging: PagingReport | None = None
    outside_pods: Bytes | None = None
    guard: str | None = None
    hold: str | None = None
    problem: str = ""


class MemoryReport(_Reported, frozen=True):
    """All nodes whose memory is watched, the worst first, as they were ``at`` one moment.

    ``left_out`` is how many are not among ``nodes``, since there are more than MOST_NODES. ``v`` is VERSION.
    ``protected_namespaces`` are those whose pods are never evicted by the operator's settings; None where an
    older operator does not say.
    """

    v: int
    at: Moment
    nodes: tuple[NodeReport, ...]
    left_out: int = 0
    protected_namespaces: tuple[str, ...] | None = None


class SeenNode(NamedTuple):
    """What is known of a node whose memory is watched.

    ``problem`` is why it gives no samples, as a sentence without names of nodes; empty where it gives some.
    """

    name: str
    pool: str
    view: NodePressure
    problem: str = ""


def report_of(
    nodes: Iterable[SeenNode], *, monotonic: float, now: datetime, protected: Iterable[str] = ()
) -> MemoryReport:
    """Return the report of ``nodes`` at one moment: ``monotonic`` by the clock of the views, ``now`` by ours.

    It needs some 20 µs for each node, so it is not for the event loop.
    """
    found = worst_first(_node_report(each, monotonic=monotonic, now=now) for each in nodes)
    return MemoryReport(
        v=VERSION,
        at=now.astimezone(UTC),
        nodes=tuple(found[:MOST_NODES]),
        left_out=max(0, len(found) - MOST_NODES),
        protected_namespaces=tuple(sorted(protected)),
    )


def worst_first(nodes: Iterable[NodeReport]) -> list[NodeReport]:
    """Return ``nodes`` by level, then by the time that is left, then by what is used, then by name."""
    return sorted(nodes, key=_badness)


def _badness(node: NodeReport) -> tuple[int, float, float, str, str]:
    commit, physical = node.commit, node.physical
    left = commit.seconds_left if commit is not None else None
    used = [
        0.0 if commit is None or commit.used_percent is None else commit.used_percent,
        0.0 if physical is None or physical.available_percent is None else 100 - physical.available_percent,
    ]
    return (_ORDER.index(node.level), math.inf if left is None else left, -max(used), node.node, node.pool)


def _node_report(node: SeenNode, *, monotonic: float, now: datetime) -> NodeReport:
    view, problem = node.view, node.problem[:PROBLEM_CHARACTERS]
    commit, physical = view.axes[Axis.COMMIT], view.axes[Axis.PHYSICAL]
    shown = view.worst or _newest(view)
    level = view.level
    return NodeReport(
        node=node.name,
        pool=node.pool,
        level=level_name(level),
        axis=None if shown is None or level is None else shown.axis,
        since=None if shown is None or level is None else _moment(shown.since, monotonic=monotonic, now=now),
        age_seconds=None if shown is None else _age(shown, monotonic),
        source="" if shown is None else shown.source,
        commit=_commit_report(commit),
        physical=_physical_report(physical),
        paging=_paging_report(physical.reading),
        outside_pods=_whole(view.outside_pods),
        guard=None if view.guard is None else view.guard.value,
        hold=None if shown is None or shown.hold is None else _camel(shown.hold.name),
        problem=problem,
    )


def _newest(view: NodePressure) -> AxisPressure | None:
    sampled = [(each.sampled_at, each) for each in view.axes.values() if each.sampled_at is not None]
    return max(sampled, key=lambda pair: pair[0])[1] if sampled else None


def _commit_report(view: AxisPressure) -> CommitReport | None:
    reading = view.reading
    if reading is None:
        return None
    used, ceiling = _whole(reading.used), _whole(reading.whole)
    if used is None or ceiling is None:
        return None
    left = view.seconds_left
    return CommitReport(
        level=level_name(view.level),
        used=used,
        ceiling=ceiling,
        used_percent=_percent(reading.used, reading.whole),
        trend_bytes_per_second=_trend(reading, left),
        seconds_left=None if left is None or not math.isfinite(left) else round(left, 1),
    )


def _physical_report(view: AxisPressure) -> PhysicalReport | None:
    reading = view.reading
    if reading is None:
        return None
    available, total = _whole(reading.left), _whole(reading.whole)
    if available is None or total is None:
        return None
    return PhysicalReport(
        level=level_name(view.level),
        available=available,
        total=total,
        available_percent=_percent(reading.left, reading.whole),
        is_estimate=reading.is_estimate,
    )


def _paging_report(reading: Reading | None) -> PagingReport | None:
    """Return the rates: a sample of an exporter gives them to PHYSICAL."""
    if reading is None:
        return None
    reads, writes = _rate(reading.hard_reads_per_second), _rate(reading.write_out_per_second)
    if reads is None and writes is None:
        return None
    return PagingReport(reads_per_second=reads, writes_per_second=writes)


def _trend(reading: Reading, seconds_left: float | None) -> float | None:
    """Return how fast more is used: what is left and when it is exhausted say it."""
    if seconds_left is None or math.isnan(seconds_left):
        return None
    if math.isinf(seconds_left):
        return 0.0
    return _rate(reading.left / seconds_left) if seconds_left > 0 and reading.left > 0 else None


def _age(view: AxisPressure, monotonic: float) -> float | None:
    return None if view.sampled_at is None else round(max(0.0, monotonic - view.sampled_at), 1)


def _moment(at: float | None, *, monotonic: float, now: datetime) -> datetime | None:
    if at is None:
        return None
    try:
        return (now - timedelta(seconds=monotonic - at)).astimezone(UTC).replace(microsecond=0)
    except OverflowError:
        return None


def _percent(part: float, whole: float) -> float | None:
    return _rate(100 * part / whole) if whole > 0 else None


def _rate(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, 1)


def _whole(value: float | None) -> int | None:
    """Return whole bytes; None for what no memory has."""
    if value is None or not math.isfinite(value) or abs(value) >= 2**63:
        return None
    return round(value)


def level_name(level: Level | None) -> LevelName | None:
    """Return the name of a level as people read it; None where it is unknown."""
    return None if level is None else cast("LevelName", _camel(level.name))


def _camel(name: str) -> str:
    return name.title().replace("_", "")
