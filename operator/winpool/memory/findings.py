"""What is found of the memory of a pool's nodes, as issues: one for each cause, with the worst numbers.

The numbers are those of the moment when the level of a node last changed, so that an issue changes on
transitions only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from winpool.api.issues import IssueReason
from winpool.api.keys import MEMORY_PRESSURE_TAINT
from winpool.api.memory_pressure import MemoryMode
from winpool.memory.known import worst_axis
from winpool.memory.numbers import numbers_of
from winpool.objects.pressure import Axis, Guard, Level
from winpool.rooms import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from winpool.memory.overview import Overview, Tally
    from winpool.objects.pressure import AxisView, NodeView

_WHAT: Final = {
    (Axis.COMMIT, Level.HARD): "These nodes can commit hardly any more memory, so allocations are about to "
    "fail there",
    (Axis.COMMIT, Level.SOFT): "These nodes have committed most of the memory that they can commit",
    (Axis.PHYSICAL, Level.HARD): "These nodes have hardly any RAM left, and do little but page",
    (Axis.PHYSICAL, Level.SOFT): "These nodes are short of RAM, and page",
    (Axis.PHYSICAL, Level.PROXY_ONLY): "These nodes are short of RAM, as far as their kubelets show it",
}
_ENDING: Final = "The memory of these nodes was short, and is still signalled as short for a moment"

_WARNING: Final = {
    Axis.COMMIT: "These nodes have committed much of the memory that they can commit, or soon will have",
    Axis.PHYSICAL: "These nodes have little RAM left",
}

_FIX: Final = {
    Axis.COMMIT: "Find the pods there that commit the most, and lower their memory or move them. A larger "
    "page file raises what the node can commit.",
    Axis.PHYSICAL: "Find the pods there that use the most RAM, and lower their memory or move them.",
}

_TAINTED: Final = f"The taint {MEMORY_PRESSURE_TAINT} keeps new pods away until the pressure has ended."
_NOT_TAINTED: Final = (
    "Set spec.memoryPressure.mode to Signal, and the operator keeps new pods away from such nodes."
)

_UNATTRIBUTED: Final = {
    Guard.OUTSIDE_SHARE: "On these nodes much of the committed memory belongs to no pod",
    Guard.OUTSIDE_GROWTH: "On these nodes most of the memory that was committed lately belongs to no pod",
    Guard.INEFFECTIVE: "On these nodes two pods were evicted, and less than half of their memory came back",
    Guard.BLIND: "On these nodes two pods were evicted, the pressure has not ended, and it is not known how "
    "much memory pods commit",
}

_RECYCLE: Final = (
    "Recycle each of these nodes: drain it, then restart or replace the machine. If it comes back, look for "
    "a driver, a service or a node agent that leaks memory."
)

_STALE: Final = (
    "Their last samples are too old, though no poll has failed since. Usually more kubelets answer slowly "
    "than the operator can poll in time. Check the load of these nodes."
)
"""Slow kubelets share 16 places (``kubelet.limits``), so that they delay no other. Where these are too few,
each poll still succeeds, but the next one comes after the sample has grown old."""

_UNKNOWN_FIX: Final = (
    "Correct what the message names. Until there are samples, the operator leaves condition and taint of "
    "these nodes as they are, and evicts no pod there."
)

_FAILING_FIX: Final = (
    "Correct what the message names, or remove the source from spec.memoryPressure.sources. Meanwhile the "
    "operator uses the other sources."
)


def memory_findings(overview: Overview, tally: Tally, *, mode: MemoryMode) -> Iterator[Finding]:
    """Yield what is to be said of the nodes in ``tally``, for a pool in this ``mode``."""
    if overview.is_systemic:
        yield _systemic(overview)
    under = {name: tally.raised[name] for name in overview.pressured}
    yield from _pressure(under, mode)
    yield from _unattributed(under)
    others = {*overview.pressured, *overview.silent}
    yield from _warnings({name: view for name, view in tally.raised.items() if name not in others})
    yield from _unknown(overview.silent, tally.problems)
    yield from _failing(overview.silent, tally.problems)


def _systemic(overview: Overview) -> Finding:
    return Finding(
        IssueReason.SYSTEMIC_PRESSURE,
        (*overview.pressured, *overview.silent),
        "More nodes are under memory pressure, or give no samples, than "
        f"spec.memoryPressure.eviction.maxPressuredNodes ({overview.allowed}) allows. The operator evicts no "
        "pod meanwhile, since it would only move the pressure to other nodes.",
        "Add nodes to the pool, or lower the memory that its pods use.",
        cause="systemic",
    )


def _pressure(under: Mapping[str, NodeView], mode: MemoryMode) -> Iterator[Finding]:
    signals = _NOT_TAINTED if mode is MemoryMode.OBSERVE else _TAINTED
    for (axis, level), nodes in _alike(under).items():
        what = _WHAT.get((axis, level), _ENDING)
        yield Finding(
            IssueReason.MEMORY_PRESSURE,
            list(nodes),
            f"{what}: {_worst(nodes.values())}.",
            f"{_FIX[axis]} {signals}",
            cause=f"{axis.value}/{level.name}",
        )


def _unattributed(under: Mapping[str, NodeView]) -> Iterator[Finding]:
    for guard, what in _UNATTRIBUTED.items():
        if nodes := [name for name, view in under.items() if view.guard is guard]:
            yield Finding(
                IssueReason.UNATTRIBUTED_MEMORY,
                nodes,
                f"{what}. Evicting pods does not help there.",
                _RECYCLE,
                cause=guard.value,
            )


def _warnings(above: Mapping[str, NodeView]) -> Iterator[Finding]:
    by_axis: dict[Axis, dict[str, AxisView]] = {}
    for name, view in above.items():
        worst = worst_axis(view)
        by_axis.setdefault(worst.axis, {})[name] = worst
    for axis, nodes in by_axis.items():
        yield Finding(
            IssueReason.MEMORY_WARNING,
            list(nodes),
            f"{_WARNING[axis]}: {_worst(nodes.values())}.",
            f"{_FIX[axis]} Nothing is signalled on the nodes yet.",
            cause=axis.value,
        )


def _unknown(silent: Sequence[str], problems: Mapping[str, str]) -> Iterator[Finding]:
    causes: dict[str, list[str]] = {}
    for name in silent:
        causes.setdefault(problems.get(name, _STALE), []).append(name)
    for cause, nodes in causes.items():
        yield Finding(
            IssueReason.MEMORY_UNKNOWN,
            nodes,
            f"The operator does not know the memory of these nodes. {cause}",
            _UNKNOWN_FIX,
            cause=cause,
        )


def _failing(silent: Sequence[str], problems: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the sources that give no samples of nodes of which another source does.

    A cause of unknown memory is reported with that, and not twice.
    """
    unknown = frozenset(silent)
    reported = {problems.get(name) for name in silent}
    causes: dict[str, list[str]] = {}
    for name, cause in problems.items():
        if name not in unknown and cause not in reported:
            causes.setdefault(cause, []).append(name)
    for cause, nodes in causes.items():
        yield Finding(
            IssueReason.MEMORY_SOURCE_FAILING,
            nodes,
            f"A source gives no samples of the memory of these nodes. {cause}",
            _FAILING_FIX,
            cause=cause,
        )


def _alike(under: Mapping[str, NodeView]) -> dict[tuple[Axis, Level], dict[str, AxisView]]:
    """Group nodes by the axis that is worst there, and its level."""
    found: dict[tuple[Axis, Level], dict[str, AxisView]] = {}
    for name, view in under.items():
        axis = worst_axis(view)
        found.setdefault((axis.axis, axis.level or Level.NORMAL), {})[name] = axis
    return found


def _worst(axes: Iterable[AxisView]) -> str:
    """Return the numbers of the node with the least left; of no name, since the issue has the names."""
    listed = list(axes)
    readings = [each.reading for each in listed if each.reading is not None]
    if not readings:
        return "their numbers are not known"
    worst = min(readings, key=lambda each: (each.left / each.whole if each.whole else 0.0, each.whole))
    return numbers_of(worst) if len(listed) == 1 else f"on the worst of them, {numbers_of(worst)}"
