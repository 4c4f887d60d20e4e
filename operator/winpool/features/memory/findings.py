"""Finds the issues of memory pressure and of its evictions: one for each cause, with the worst numbers.

The numbers are those of the moment when the level of a node last changed, so that an issue changes on
transitions only. So each message with numbers has the time of their sample.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from heapq import nsmallest
from operator import attrgetter
from typing import Final, TypeVar

from winpool.api.fields import DNS_SUBDOMAIN_PATTERN, is_pool_name
from winpool.api.issues import IssueReason
from winpool.api.keys import MEMORY_ANNOTATION, MEMORY_PRESSURE_TAINT
from winpool.api.memory_pressure import MemoryMode
from winpool.api.text import grouped, written_moment
from winpool.features.feature import Finding
from winpool.features.memory.eviction import EvictionState, Step
from winpool.features.memory.intents import Intent
from winpool.features.memory.overview import Overview, numbers_of, worst_axis
from winpool.features.memory.victims import Exclusion
from winpool.model.budgets import MOST_COMPARED, MOST_TERMS
from winpool.model.node_pods import KnownEvictions
from winpool.model.pressure import Axis, AxisPressure, Guard, Level, NodePressure, Reading

KeyT = TypeVar("KeyT")

_PODS_NAMED: Final = 3
"""Pods that a message names, as many as an issue names nodes. Each name has at most 317 characters."""

_NAMESPACES_NAMED: Final = 3
"""Namespaces that a message names. Each name has at most 63 characters."""

SLOW_LIST_SECONDS: Final = 10.0
"""How long a list may take, in seconds. A node whose memory is short is sampled as often, by default."""

_IN_THE_RECORD: Final = f"{MEMORY_ANNOTATION} on the others names theirs."
_BY_THE_PLUGIN: Final = "kubectl winpool memory node/NODE shows those of the others."

_POD: Final = re.compile(f"{DNS_SUBDOMAIN_PATTERN}/{DNS_SUBDOMAIN_PATTERN}", re.ASCII)

_BY_UNREAD_BUDGETS: Final = (
    "These nodes are short of memory, and no pod of them may be evicted. In some namespaces the "
    "PodDisruptionBudgets are too large or too many to be read, so the operator evicts no pod there. One may "
    "take 16 KiB of the operator's memory, those of a namespace 4 MiB, and all together 32 MiB. In a "
    f"namespace, their selectors may have {MOST_TERMS:,} labels and requirements, and their comparison with "
    f"pods may take {MOST_COMPARED:,} steps.",
    "Make the selectors of these PodDisruptionBudgets smaller, or delete those that are not needed. List "
    "them: kubectl get pdb -n NAMESPACE",
)
"""The sizes are those of ``kube.budgets``, which no feature imports."""

_BY_A_BUDGET: Final = (
    "These nodes are short of memory, and no pod of them may be evicted now. PodDisruptionBudgets permit no "
    "eviction of the pods that could be.",
    "Make the missing replicas Ready, add replicas, or let the PodDisruptionBudgets permit one more "
    "disruption.",
)
_BY_SILENCE: Final = (
    "These nodes are short of memory, and it is not known how much memory each of their pods uses. The "
    "operator evicts no pod of unknown memory. Only kubelets report the memory of pods.",
    "Add the source Kubelet to spec.memoryPressure.sources if it is missing. If it is there, correct what "
    "the pool reports about the samples of these nodes.",
)
_BY_RULE: Final = (
    "These nodes are short of memory, and no pod of them may be evicted: they are node agents, have no "
    "controller, are protected, are too young, or use too little.",
    "Find the pods there that use the most memory, and lower their memory or move them. If a rule in "
    "spec.memoryPressure.eviction.rules protects too many pods, change it.",
)

_BY_REQUEST: Final = (
    "These nodes are short of memory, and the pod that uses most above its request asks not to be disrupted, "
    "or is of a Job that does not restart it. It is evicted only at Hard, and no other goes in its place.",
    "Lower its memory or move it. To have such pods evicted like others, add a rule with behavior Prefer to "
    "spec.memoryPressure.eviction.rules.",
)

_BY_A_GROWER: Final = (
    "These nodes are short of memory, and the pod with most of the growth since the node was calm may not be "
    "evicted now: a PodDisruptionBudget or a rule protects it, or it is a node agent, has no controller, is "
    "too young, or uses too little. No other pod is evicted in its place, since the memory of that would be "
    "used up as well.",
    "Lower the memory of the pod or move it. If a PodDisruptionBudget or a rule in "
    "spec.memoryPressure.eviction.rules protects it, change that.",
)
_BY_NO_GROWTH: Final = (
    "These nodes are short of memory, and no pod that may be evicted has grown much since the node was calm, "
    "as far as kubelets show it. Of a node that was under pressure before the operator started, or stays so "
    "for hours, what counts is the growth of the last one to two hours. The operator evicts no pod that has "
    "not grown.",
    "Compare the pods there with what the node has committed: kubectl winpool memory node/NODE. If it is "
    "much more, what grows is Windows itself or a service. Otherwise lower the memory of the largest pods, "
    "or give the pool more.",
)

_BLOCKS: Final = (
    (Exclusion.ANOTHER_GROWS, _BY_A_GROWER, "grower"),
    (Exclusion.ASKS_TO_STAY, _BY_REQUEST, "request"),
    (Exclusion.NOT_GROWING, _BY_NO_GROWTH, "growth"),
    (Exclusion.BUDGET, _BY_A_BUDGET, "budget"),
    (Exclusion.UNKNOWN_USAGE, _BY_SILENCE, "usage"),
    (None, _BY_RULE, "rule"),
)
"""Why no pod of a node is evicted. Of several reasons, the first is reported: with each of the first three,
a pod could go that has no other reason to stay. Budgets that are too large or
too many are reported besides (``_unread``): those of one namespace hide no reason that another has."""


def eviction_findings(steps: Collection[Step], known: KnownEvictions) -> Iterator[Finding]:
    """Yield what is to be said of ``steps``, which were decided on what is ``known``."""
    yield from _stuck(steps)
    yield from _blocked(steps)
    if unreadable := [each.node.name for each in steps if each.state is EvictionState.UNREADABLE]:
        yield Finding(
            IssueReason.EVICTION_RECORD_UNREADABLE,
            unreadable,
            f"The annotation {MEMORY_ANNOTATION} of these nodes cannot be read, so it is not known what was "
            "evicted there. The operator evicts no pod there. Each counts as a node with an eviction.",
            f"Remove it: kubectl annotate node NODE {MEMORY_ANNOTATION}-",
            cause="unreadable",
        )
    yield from _unlisted(steps, known)


def _unlisted(steps: Collection[Step], known: KnownEvictions) -> Iterator[Finding]:
    """Yield where lists of pods fail, or take so long that they permit no eviction."""
    if unlisted := [each.node.name for each in steps if each.look and each.node.uid in known.problems]:
        yield Finding(
            IssueReason.POD_LIST_FAILING,
            unlisted,
            "The operator cannot list the pods of these nodes, which are short of memory, or their "
            "PodDisruptionBudgets. It evicts no pod there, and tries again.",
            "Read the operator's log for the error, and correct what it names.",
            cause="evictions",
        )
    if late := [each.node.name for each in steps if _is_late(each, known)]:
        yield Finding(
            IssueReason.POD_LIST_FAILING,
            late,
            "These nodes are short of memory, and a list of their pods and PodDisruptionBudgets takes "
            f"{SLOW_LIST_SECONDS:.0f} s or longer. By then there is a sample that is newer than the list. "
            "The operator evicts no pod there until a list is newer than the last sample.",
            "Find out why the API server answers the operator so slowly: its load, its flow control "
            "(kubectl get --raw /debug/api_priority_and_fairness/dump_priority_levels), or the network.",
            cause="late",
        )


def _is_late(step: Step, known: KnownEvictions) -> bool:
    """Whether an eviction is next, and the last list for one took too long. One that fails is no late one."""
    uid = step.node.uid
    pods = known.pods.get(uid)
    is_next = step.look is not None and step.look.with_budgets and uid not in known.problems
    return is_next and pods is not None and pods.has_budgets and pods.seconds >= SLOW_LIST_SECONDS


def _stuck(steps: Collection[Step]) -> Iterator[Finding]:
    stuck = {
        each.node.name: _pod(each.intent)
        for each in steps
        if each.state is EvictionState.STUCK and each.intent is not None
    }
    if stuck:
        yield Finding(
            IssueReason.EVICTION_STUCK,
            list(stuck),
            "A pod that was evicted from these nodes is still being deleted, two minutes after its grace "
            "period, of which ten minutes count at most. The operator evicts no other pod there until it is "
            f"gone. {_named(stuck, _IN_THE_RECORD)}",
            "Find out why the pod does not end: a long grace period, a finalizer, a volume, or the container "
            "runtime.",
            cause="stuck",
        )


def _named(pods: Mapping[str, str], others: str) -> str:
    """Return a sentence that names the pods of the first nodes, and where ``others`` are found.

    ``pods`` are by the names of their nodes; it changes only with them.
    """
    first = ", ".join(pods[node] for node in nsmallest(_PODS_NAMED, pods))
    return f"The first of these pods are {first}. {others}" if len(pods) > _PODS_NAMED else f"Pods: {first}."


def _pod(intent: Intent) -> str:
    """Return namespace and name, or the UID where the annotation has no name that a pod can have.

    Others can write the annotation, so not every text in it becomes a message.
    """
    return intent.pod if _POD.fullmatch(intent.pod) else f"UID {intent.uid}"


def _blocked(steps: Collection[Step]) -> Iterator[Finding]:
    left = [each for each in steps if each.state is EvictionState.BLOCKED and each.choice is not None]
    yield from _unread(left)
    for exclusion, (message, fix), cause in _BLOCKS:
        nodes = [each.node.name for each in left if _excludes(each, exclusion)]
        growers = {
            each.node.name: each.choice.grower.full_name
            for each in left
            if each.choice is not None and each.choice.grower is not None
        }
        left = [each for each in left if not _excludes(each, exclusion)]
        if nodes:
            said = (
                f"{message} {_named(growers, _BY_THE_PLUGIN)}"
                if exclusion is Exclusion.ANOTHER_GROWS
                else message
            )
            yield Finding(IssueReason.EVICTION_BLOCKED, nodes, said, fix, cause)


def _unread(blocked: Collection[Step]) -> Iterator[Finding]:
    """Yield that budgets are too large or too many to be read, with the first of their namespaces.

    Their names alone decide about the message, and no order of nodes or pods.
    """
    there = {each.node.name: each.choice.unread for each in blocked if each.choice and each.choice.unread}
    if there:
        message, fix = _BY_UNREAD_BUDGETS
        said = f"{message}{_namespaces(name for names in there.values() for name in names)}"
        yield Finding(IssueReason.EVICTION_BLOCKED, list(there), said, fix, "unread")


def _namespaces(names: Iterable[str]) -> str:
    """Return a sentence that names the first namespaces, without what can be no name of one."""
    found = {each for each in names if is_pool_name(each)}  # the form of both is that of RFC 1123 labels
    first = ", ".join(nsmallest(_NAMESPACES_NAMED, found))
    if len(found) > _NAMESPACES_NAMED:
        return f" The first of these namespaces are {first}."
    return f" Namespaces: {first}." if found else ""


def _excludes(step: Step, exclusion: Exclusion | None) -> bool:
    """Whether a pod of the node is not evicted for that; None is for any, where all budgets could be read."""
    if step.choice is None:
        return False
    return not step.choice.unread if exclusion is None else exclusion in step.choice.excluded


_WHAT: Final = {
    (Axis.COMMIT, Level.HARD): "These nodes can commit hardly any more memory, so allocations are about to "
    "fail there",
    (Axis.COMMIT, Level.SOFT): "These nodes have committed most of the memory that they can commit",
    (Axis.PHYSICAL, Level.HARD): "These nodes have hardly any RAM left, and do little but page",
    (Axis.PHYSICAL, Level.SOFT): "These nodes are short of RAM, and page",
    (Axis.PHYSICAL, Level.PROXY_ONLY): "These nodes are short of RAM, as far as their kubelets show it",
}
_ENDING: Final = (
    "The memory of these nodes was short, and is signalled as short until it has been enough for a while"
)

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
    Guard.INEFFECTIVE: "On these nodes a pod was evicted, and less than half of its memory came back",
    Guard.BLIND: "On these nodes a pod was evicted, the pressure has not ended, and it is not known how much "
    "memory came back",
}

_RECYCLE: Final = (
    "Recycle each of these nodes: drain it, then restart or replace the machine. If it comes back, look for "
    "a driver, a service or a node agent that leaks memory."
)

_STALE: Final = (
    "Their last samples are too old, though no poll has failed since. Usually more kubelets answer slowly "
    "than the operator can poll in time. Check the load of these nodes."
)
"""Slow kubelets share 16 slots (``kubelet/schedule.py``), so that they delay no other. Where these are
too few, each poll still succeeds, but the next one comes after the sample has grown old."""

_UNKNOWN_FIX: Final = (
    "Correct what the message names. Until there are samples, the operator leaves condition and taint of "
    "these nodes as they are, and evicts no pod there."
)

_FAILING_FIX: Final = (
    "Correct what the message names, or remove the source from spec.memoryPressure.sources. Meanwhile the "
    "operator uses the other sources."
)


def memory_findings(overview: Overview, *, mode: MemoryMode) -> Iterator[Finding]:
    """Yield what is to be said of the nodes, for a pool in this ``mode``."""
    if overview.is_systemic:
        yield _systemic(overview)
    under = {name: overview.raised[name] for name in overview.pressured}
    yield from _pressure(under, mode)
    yield from _unattributed(under)
    others = {*overview.pressured, *overview.silent}
    yield from _warnings({name: memory for name, memory in overview.raised.items() if name not in others})
    yield from _unknown(overview.silent, overview.problems)
    yield from _failing(overview.silent, overview.problems)


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


def _pressure(under: Mapping[str, NodePressure], mode: MemoryMode) -> Iterator[Finding]:
    signals = _NOT_TAINTED if mode is MemoryMode.OBSERVE else _TAINTED
    found = _by_worst(under, lambda worst: (worst.axis, worst.level or Level.NORMAL))
    for (axis, level), nodes in found.items():
        what = _WHAT.get((axis, level), _ENDING)
        said, fix = f"{what}: {_worst(nodes.values())}.", f"{_FIX[axis]} {signals}"
        yield Finding(IssueReason.MEMORY_PRESSURE, list(nodes), said, fix, f"{axis.value}/{level.name}")


def _unattributed(under: Mapping[str, NodePressure]) -> Iterator[Finding]:
    for guard, what in _UNATTRIBUTED.items():
        if nodes := [name for name, memory in under.items() if memory.guard is guard]:
            said = f"{what}. Evicting pods does not help there."
            yield Finding(IssueReason.UNATTRIBUTED_MEMORY, nodes, said, _RECYCLE, guard.value)


def _warnings(above: Mapping[str, NodePressure]) -> Iterator[Finding]:
    for axis, nodes in _by_worst(above, attrgetter("axis")).items():
        said = f"{_WARNING[axis]}: {_worst(nodes.values())}."
        fix = f"{_FIX[axis]} Nothing is signalled on the nodes yet."
        yield Finding(IssueReason.MEMORY_WARNING, list(nodes), said, fix, axis.value)


def _unknown(silent: Sequence[str], problems: Mapping[str, str]) -> Iterator[Finding]:
    for cause, nodes in grouped((problems.get(name, _STALE), name) for name in silent).items():
        said = f"The operator does not know the memory of these nodes. {cause}"
        yield Finding(IssueReason.MEMORY_UNKNOWN, nodes, said, _UNKNOWN_FIX, cause)


def _failing(silent: Sequence[str], problems: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the sources that give no samples of nodes of which another source does.

    A cause of unknown memory is reported with that, and not twice.
    """
    unknown = frozenset(silent)
    reported = {problems.get(name) for name in silent}
    others = (
        (cause, name) for name, cause in problems.items() if name not in unknown and cause not in reported
    )
    for cause, nodes in grouped(others).items():
        said = f"A source gives no samples of the memory of these nodes. {cause}"
        yield Finding(IssueReason.MEMORY_SOURCE_FAILING, nodes, said, _FAILING_FIX, cause)


def _by_worst(
    nodes: Mapping[str, NodePressure], key: Callable[[AxisPressure], KeyT]
) -> dict[KeyT, dict[str, AxisPressure]]:
    """Return the worst axis of each node by its name, grouped by the ``key`` of that axis."""
    worst = ((name, worst_axis(memory)) for name, memory in nodes.items())
    return {kind: dict(alike) for kind, alike in grouped((key(each[1]), each) for each in worst).items()}


def _worst(axes: Iterable[AxisPressure]) -> str:
    """Return the numbers of the node with the least left; of no name, since the issue has the names."""
    listed = list(axes)
    readings = [each.reading for each in listed if each.reading is not None]
    if not readings:
        return "their numbers are not known"
    worst = min(readings, key=lambda each: (each.left / each.whole if each.whole else 0.0, each.whole))
    said = f"{numbers_of(worst)}{_sampled(worst)}"
    return said if len(listed) == 1 else f"on the worst of them, {said}"


def _sampled(reading: Reading) -> str:
    """Return of when the numbers are, by the clock of their source, which may be any; or nothing."""
    try:
        at = datetime.fromtimestamp(reading.taken_at or 0.0, UTC)
    except (ValueError, OverflowError, OSError):
        return ""
    return f", sampled at {written_moment(at)}" if reading.taken_at is not None else ""
