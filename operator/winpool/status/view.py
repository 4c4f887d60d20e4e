"""What the conditions of a pool are computed from: how far its nodes are, and the condition MemoryHealthy.

What the conditions of a pool are computed from, what one of them says, and which of several is worst.

How far the nodes of a pool are from what its spec asks, and who has to do something about it.

What the status says of memory pressure: the condition MemoryHealthy, a count, and what stays for a while.

After a start of the operator it takes minutes until all nodes are judged again. Not to know them yet is no
reason to take back what was true a moment ago: what the status says of such nodes stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from winpool.api.conditions import STATES, ConditionType, Reason, see_condition
from winpool.api.events import NODES_WITH_OWN_EVENTS, EventReason, Regarding
from winpool.api.issues import IssueReason
from winpool.api.v1alpha1 import Issue, Mode, WindowsNodePoolStatus
from winpool.features.contract.feature import Refusal
from winpool.features.feature import Finding, RoomResult, Stage
from winpool.features.memory.feature import MemoryResult
from winpool.features.memory.overview import Overview
from winpool.features.upgrade.records import UpgradeOverview
from winpool.model.pool import Pool
from winpool.model.pressure import Capabilities, Capability
from winpool.status.assessment import Assessment, Tally, count_nodes, counted_nodes
from winpool.status.events import Announcement
from winpool.status.os_support import Group
from winpool.status.pool_findings import Blind

IDLE_MODES: Final = {Mode.PAUSED: Reason.PAUSED, Mode.DRY_RUN: Reason.DRY_RUN}
"""The modes in which nothing is written, and what Ready says of them."""

STATE_OF: Final = {
    Reason.RELEASING_NODES: Reason.DELETING,
    Reason.WAITING_FOR_ACTOR: Reason.UPGRADE_DUE,
}
"""The STATE that a reason of NodesUpToDate stands for, where it has another name."""

_RANKS: Final = {each.reason: rank for rank, each in enumerate(STATES)}


@dataclass(frozen=True, slots=True)
class View:
    """What the conditions of a pool are computed from.

    ``missing_permission`` says which rule is missing, empty where none is; ``blind`` which nodes cannot be
    gone on with, since their pods cannot be looked at, and ``is_overdue`` that they have been so too long.
    ``groups`` are the pool's nodes as the support matrix judges them, ``judged`` is what it has against them.
    ``found`` are the reasons of all issues, also of those that the status has no room for. ``memory`` is what
    is known of memory pressure, None where memory is not watched; ``upgrades`` what is known of upgrades,
    None without ``spec.upgrade``.
    """

    pool: Pool
    tally: Tally
    refusal: Refusal
    missing_permission: str
    blind: Blind
    is_overdue: bool
    groups: Sequence[Group]
    judged: Sequence[Finding]
    found: frozenset[str]
    memory: PoolMemory | None
    upgrades: UpgradeOverview | None

    @property
    def accepted(self) -> bool:
        """Whether the operator may act on this spec."""
        return not self.refusal and not self.missing_permission

    @property
    def is_owning_none(self) -> bool:
        """Whether other pools own nodes that the pool selects, and the pool neither owns nor awaits any."""
        return self.tally.nodes == 0 and self.tally.foreign > 0 and self.tally.undecided == 0

    @property
    def refused(self) -> tuple[str, ...]:
        """The nodes that the API server does not let the operator write.

        None where the spec is not accepted: nobody knows then what is to be written. What the API server has
        said stands in a mode that writes nothing, too.
        """
        return self.tally.refused if self.pool.deleting or self.accepted else ()

    @property
    def is_stuck(self) -> bool:
        """Whether all that is left to be written are nodes that the API server does not let us write."""
        tally = self.tally
        return bool(tally.outstanding) and tally.outstanding == tally.refused and not tally.at(Stage.WAITING)

    @property
    def can_be_written(self) -> frozenset[str]:
        """The nodes to be written that wait for nothing but their turn."""
        return frozenset(self.tally.writable).difference(self.tally.refused)

    @property
    def goes_on_with(self) -> frozenset[str]:
        """The nodes that are gone on with although others are blind."""
        return self.can_be_written | frozenset(self.tally.asking).difference(self.blind.nodes)

    @property
    def is_at_work(self) -> bool:
        """Whether the operator will go on by itself: it writes, or waits for what will come."""
        tally = self.tally
        may_write = self.accepted and self.mode is Mode.ACTIVE
        if not may_write or self.is_stuck:
            return False
        if self.blind and self.is_overdue:
            return bool(self.goes_on_with)
        if tally.outstanding or tally.awaiting_conditions or tally.at(Stage.WAITING):
            return True
        return bool(tally.at(Stage.VALIDATING)) and not (tally.at(Stage.HELD) or tally.at(Stage.TIMED_OUT))

    @property
    def mode(self) -> Mode:
        """The mode of the spec; a spec that cannot be read is not acted on, as if paused."""
        return self.pool.spec.mode if self.pool.spec else Mode.PAUSED


@dataclass(frozen=True, slots=True)
class Told:
    """Status, reason and message of a condition."""

    status: str
    reason: Reason
    message: str


def worst(said: Iterable[Told]) -> Told:
    """Return what comes first in the order of STATE; of those that are equally bad the first."""
    return min(said, key=lambda each: _RANKS[STATE_OF.get(each.reason, each.reason)])


NO_NODES: Final = "No Windows node has the labels that nodeSelector asks for."

SEE_ACCEPTED: Final = see_condition(ConditionType.ACCEPTED)
_SEE_DELETING: Final = see_condition(ConditionType.DELETING)

_TO_BE_DONE: Final = (Stage.WRITING, Stage.WAITING, Stage.HELD, Stage.TIMED_OUT, Stage.VALIDATING)
"""The stages on the way to the labels and taints of the spec."""

_FOR_OTHERS: Final = (Stage.ON_HOLD, Stage.DUE, Stage.UNKNOWN)
"""The stages of nodes that the operator does nothing about: someone holds them, or they have all that it
sets."""

_FOR_A_PERSON: Final = (Stage.HELD, Stage.TIMED_OUT)
"""The stages that end only once a person has acted."""

_SEE_POD_LIST: Final = f"See the issue {IssueReason.POD_LIST_FAILING}."

_STATUSES: Final = {Stage.UNKNOWN: "Unknown"}


def nodes_up_to_date(view: View) -> Told:
    """Say whether every node is as the spec asks, and if not, the worst that is in the way."""
    return worst(_standing(view))


def _standing(view: View) -> Iterator[Told]:
    """Yield all that is true of the nodes, as NodesUpToDate says it."""
    tally = view.tally
    if tally.outstanding and view.pool.deleting:
        yield Told("False", Reason.RELEASING_NODES, f"The nodes leave the pool. {_SEE_DELETING}")
    if view.refusal:
        said = f"The operator compares nodes only with an accepted spec. {SEE_ACCEPTED}"
        yield Told("False", Reason.SPEC_REJECTED, said)
    if tally.unknown:
        yield owner_unknown(tally)
    if tally.nodes == 0:
        none = none_of_ours(tally)
        yield replace(none, status="False") if none.reason is Reason.POOL_OVERLAP else none
    behind = tuple(_behind(view))
    yield from behind
    if behind and view.missing_permission:
        yield Told(
            "False",
            Reason.MISSING_PERMISSION,
            f"The operator needs a permission to write to nodes. {SEE_ACCEPTED}",
        )
    # Only where the mode is why: what waits for others would wait in mode Active too.
    if behind and view.mode in IDLE_MODES:
        yield Told("False", IDLE_MODES[view.mode], f"{idle_message(view)} {worst(behind).message}")
    yield from _told_at(tally, _FOR_OTHERS)
    yield Told(
        "True",
        Reason.UP_TO_DATE,
        f"Labels, taints and Windows are as the spec asks on {count_nodes(tally.nodes)}.",
    )


def idle_message(view: View) -> str:
    """Say that the mode keeps the operator from writing."""
    return f"spec.mode is {view.mode}, so the operator writes to no node."


def _behind(view: View) -> Iterator[Told]:
    """Yield why nodes do not carry what the spec asks for."""
    if view.refused:
        yield Told("False", Reason.WRITE_REFUSED, refused_message(view.refused))
    if view.blind and (view.blind.of_all or not view.goes_on_with):
        yield Told("False", Reason.POD_LIST_FAILING, view.blind.message)
    yield from _told_at(view.tally, _TO_BE_DONE)


def _told_at(tally: Tally, stages: Iterable[Stage]) -> Iterator[Told]:
    """Yield what is to be said of the nodes at each of ``stages``; the rooms speak in their order."""
    for stage in stages:
        for each in tally.at(stage):
            said = each.said.format(nodes=counted_nodes(each.nodes))
            yield Told(_STATUSES.get(stage, "False"), each.reason, said)


def refused_message(refused: Sequence[str]) -> str:
    """Name the nodes that the API server does not let be changed."""
    said = f"The API server refuses to change {counted_nodes(refused)}."
    return f"{said} See the issue {IssueReason.WRITE_REFUSED}."


def none_of_ours(tally: Tally) -> Told:
    """Say why the pool has no nodes: the worst that is true."""
    if tally.foreign:
        return overlap(tally)
    if tally.unknown:
        return owner_unknown(tally)
    return Told("True", Reason.NO_NODES_SELECTED, NO_NODES)


def owner_unknown(tally: Tally) -> Told:
    """Say that the owner of nodes that the pool selects is not known."""
    return Told(
        "Unknown",
        Reason.OWNER_UNKNOWN,
        f"nodeSelector selects {count_nodes(tally.unknown)} with the ownership record of a pool that the "
        f"operator does not know. See the issue {IssueReason.OWNER_UNKNOWN}.",
    )


def overlap(tally: Tally) -> Told:
    """Say that other pools own the nodes that the pool selects."""
    return Told(
        "True",
        Reason.POOL_OVERLAP,
        f"nodeSelector selects {count_nodes(tally.foreign)} of other pools, and the pool owns none. Change "
        "the selectors of the pools so that they exclude each other.",
    )


def reconciling(view: View) -> Told:
    """Say whether the operator itself is at work, and will go on by itself."""
    tally = view.tally
    if view.pool.deleting:
        return Told("True", Reason.RELEASING_NODES, _still("release", tally.outstanding))
    if not view.is_at_work:
        return Told("False", Reason.SETTLED, "The operator has nothing to do, or may not do it now.")
    if view.blind and not view.goes_on_with:
        return Told(
            "True", Reason.POD_LIST_FAILING, f"The operator tries again to list pods. {_SEE_POD_LIST}"
        )
    unwritten = {*tally.outstanding, *tally.awaiting_conditions, *tally.names_at(Stage.WAITING)}
    if not unwritten and (validating := tally.names_at(Stage.VALIDATING)):
        reason = tally.at(Stage.VALIDATING)[0].reason
        return Told("True", reason, f"The operator validates {count_nodes(len(validating))}.")
    return Told("True", Reason.ROLLOUT_IN_PROGRESS, _still("write to", unwritten))


def _still(what: str, nodes: Collection[str]) -> str:
    return f"The operator still has to {what} {count_nodes(len(nodes))}."


def stalled(view: View) -> Told:
    """Say whether a person has to do something before the operator can go on."""
    tally = view.tally
    if view.pool.deleting:
        if view.is_stuck:
            said = f"The operator cannot release the last nodes. {_SEE_DELETING}"
            return Told("True", Reason.WRITE_REFUSED, said)
    elif not view.accepted:
        reason = view.refusal.reason if view.refusal else Reason.MISSING_PERMISSION
        return Told("True", reason, f"A person has to correct the spec or the permissions. {SEE_ACCEPTED}")
    elif view.is_owning_none:
        return replace(none_of_ours(tally), status="True")
    elif view.mode is Mode.ACTIVE and not view.is_at_work:
        if view.is_stuck:
            return Told("True", Reason.WRITE_REFUSED, refused_message(tally.refused))
        if told := tuple(_told_at(tally, _FOR_A_PERSON)):
            return replace(worst(told), status="True")
        if view.blind and view.is_overdue:
            return Told("True", Reason.POD_LIST_FAILING, view.blind.message)
        if tally.ownerless and not tally.undecided:
            return replace(owner_unknown(tally), status="True")
    return Told("False", Reason.NOT_STALLED, "Nothing keeps the operator from continuing.")


MEMORY_ISSUES: Final = (
    IssueReason.SYSTEMIC_PRESSURE,
    IssueReason.UNATTRIBUTED_MEMORY,
    IssueReason.MEMORY_PRESSURE,
    IssueReason.MEMORY_WARNING,
    IssueReason.MEMORY_UNKNOWN,
    IssueReason.MEMORY_SOURCE_FAILING,
)


@dataclass(frozen=True, slots=True)
class PoolMemory:
    """What is known of the memory of a pool, and the issues of its status that stay until more is known."""

    overview: Overview
    carried: tuple[Issue, ...]

    @property
    def pressured(self) -> int:
        """How many nodes are under pressure, as far as that is known, or was before the last start."""
        said = sum(each.node_count for each in self.carried if each.reason == IssueReason.MEMORY_PRESSURE)
        return len(self.overview.pressured) + min(said, len(self.overview.undecided))


def overview_of(results: Iterable[RoomResult]) -> Overview | None:
    """Return what the room of memory has found; None where memory is not watched."""
    return next((each.overview for each in results if isinstance(each, MemoryResult)), None)


def pool_memory(pool: Pool, results: Sequence[RoomResult]) -> PoolMemory | None:
    """Return what is to be reported; None where memory is not watched."""
    overview = overview_of(results)
    if overview is None:
        return None
    found = [finding for result in results for finding in result.findings]
    return PoolMemory(overview, tuple(_carried(pool.status, overview, found)))


def _carried(status: WindowsNodePoolStatus, overview: Overview, found: Sequence[Finding]) -> Iterator[Issue]:
    """Yield the issues of the status with those of their nodes that are not judged yet."""
    for issue in status.issues if overview.undecided else ():
        if issue.reason not in MEMORY_ISSUES:
            continue
        anew = {name for each in found if each.reason == issue.reason for name in each.nodes}
        names = [name for name in issue.nodes if name in overview.undecided and name not in anew]
        if names:
            count = issue.node_count - (len(issue.nodes) - len(names))
            yield issue.model_copy(update={"nodes": tuple(names), "node_count": max(count, len(names))})


def memory_capabilities(pool: Pool, known: Capabilities | None) -> str:
    """Return what the nodes of ``pool`` can tell; what the status says already, until that is ``known``."""
    if known is None:
        return pool.status.memory_capabilities or ""
    return (
        f"Of {count_nodes(known.nodes)}, these report the commit limit: {_number(known.commit_limit)}, the "
        f"commit of pods: {_number(known.pod_commit)}, paging: {_number(known.paging)}. Kubelets that evict "
        f"pods themselves: {_number(known.kubelet_eviction)}."
    )


def _number(of: Capability) -> str:
    return f"{of.have} (unknown: {of.unknown})" if of.unknown else str(of.have)


def memory_healthy(view: View) -> Told | None:
    """Return what MemoryHealthy says; None where the spec does not ask for it."""
    spec, standing = view.pool.spec, view.pool.status.condition(ConditionType.MEMORY_HEALTHY)
    if spec is None:
        said = "The operator cannot read the spec, so it watches no memory."
        return Told("Unknown", Reason.SPEC_REJECTED, said) if standing else None
    if spec.memory_pressure is None:
        return None
    if view.memory is None:
        return Told(
            "Unknown",
            Reason.RELEASING_NODES,
            "The operator watches no memory for a pool that is being deleted.",
        )
    if not view.memory.overview.nodes:
        return none_of_ours(view.tally)
    was_healthy = standing is not None and standing.status == "True"
    told = _told(view.memory, was_healthy=was_healthy)
    marked = view.memory.overview.marked
    if view.mode not in IDLE_MODES or not marked:
        return told
    stays = f"spec.mode is {view.mode}: taint and condition stay as they are on {counted_nodes(marked)}."
    return Told(told.status, told.reason, f"{told.message} {stays}")


def _told(memory: PoolMemory, *, was_healthy: bool) -> Told:
    overview, pressured = memory.overview, memory.pressured
    silent, undecided = len(overview.silent), len(overview.undecided)
    if overview.is_systemic:
        missing = f", and {silent} {'gives' if silent == 1 else 'give'} no samples" if silent else ""
        return Told(
            "False",
            Reason.SYSTEMIC_PRESSURE,
            f"{_of_all(pressured, overview)} under memory pressure{missing}. This is more than "
            f"maxPressuredNodes ({overview.allowed}) allows. See the issue {IssueReason.SYSTEMIC_PRESSURE}.",
        )
    if pressured:
        return Told(
            "False",
            Reason.NODES_UNDER_PRESSURE,
            f"{_of_all(pressured, overview)} under memory pressure. See the issue "
            f"{IssueReason.MEMORY_PRESSURE}.",
        )
    if silent:
        return Told(
            "Unknown",
            Reason.SAMPLES_MISSING,
            f"The memory of {count_nodes(silent)} is not known. See the issue {IssueReason.MEMORY_UNKNOWN}.",
        )
    # Nodes join all the time, and a start is no news of a pool that was healthy.
    if undecided > overview.calm and not was_healthy:
        return Told("Unknown", Reason.SAMPLES_MISSING, "The operator waits for samples of most nodes.")
    return Told("True", Reason.NO_PRESSURE, "No node is under memory pressure.")


def _of_all(number: int, overview: Overview) -> str:
    return f"{number} of {count_nodes(overview.nodes)} {'is' if number == 1 else 'are'}"


def cleared(
    pool: Pool,
    before: WindowsNodePoolStatus,
    after: WindowsNodePoolStatus,
    overview: Overview | None,
    nodes: Iterable[Assessment],
) -> Iterator[Announcement]:
    """Yield the events of nodes that are under pressure no more, or one of the pool where these were many.

    A node of which nothing is known has not been cleared, nor has one that has left the pool.
    """
    was = [each for each in before.issues if each.reason == IssueReason.MEMORY_PRESSURE]
    if overview is None or not was:
        return
    named = {name for each in was for name in each.nodes}
    number = sum(each.node_count for each in was)
    if number > NODES_WITH_OWN_EVENTS:
        if not (overview.pressured or overview.silent or overview.undecided):
            note = f"{count_nodes(number)} were under memory pressure, and no node is any more."
            yield Announcement(EventReason.MEMORY_PRESSURE_CLEARED, note, pool.name, pool.uid)
        return
    still = {
        name for each in after.issues if each.reason == IssueReason.MEMORY_PRESSURE for name in each.nodes
    }
    calm = named - still - {*overview.pressured, *overview.silent} - overview.undecided
    note = f"Pool {pool.name}: The node is no longer under memory pressure."
    for each in nodes if calm else ():
        if each.node.name in calm:
            yield Announcement(
                EventReason.MEMORY_PRESSURE_CLEARED, note, each.node.name, each.node.uid, Regarding.NODE
            )
