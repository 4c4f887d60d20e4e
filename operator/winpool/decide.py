"""The whole pass in one function: from what is seen to what is to be done.

No input but the snapshot, no output but the decision: the same picture always leads to the
same writes, and a picture in which they have been made leads to none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.api.events import EventReason
from winpool.api.keys import RELEASE_FINALIZER
from winpool.api.v1alpha1 import Mode
from winpool.contract.acceptance import refusal_of
from winpool.contract.questions import taints_of
from winpool.contract.room import ContractResult, contract
from winpool.mandate import evictions_of, finishing, mandate_of, permitted
from winpool.objects.acts import NO_ACTS, Acts
from winpool.ownership.dues import dues_of
from winpool.ownership.members import divide
from winpool.ownership.rights import asked_keys, keys_to_remember, remembered_keys
from winpool.pods.evidence import OWN_LOOKS, current_survey, is_too_slow
from winpool.report.announce import Announcement, about_node, of_issues, on_transition
from winpool.report.assessment import assessed
from winpool.report.figures import Figures, figures_of
from winpool.report.pods import overdue_at
from winpool.report.preflight import is_untold
from winpool.report.status import status
from winpool.rooms import Mandate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from winpool.api.v1alpha1 import WindowsNodePoolStatus
    from winpool.objects.acts import NodePatch
    from winpool.objects.keys import Keys
    from winpool.objects.node import Node
    from winpool.objects.pool import Pool
    from winpool.ownership.members import Members
    from winpool.report.assessment import Assessment
    from winpool.rooms import Room, RoomResult
    from winpool.snapshot import Snapshot

ROOMS: Final[tuple[Room, ...]] = (contract,)
"""All rooms of the house. No two of them know each other, or name one key of a node."""


@dataclass(frozen=True, slots=True)
class Promise:
    """What has to stand on the pool before anything is done for it.

    ``finalizers`` is the list to put there before any node is written, or, where nothing is left to do, to
    take our finalizer off; None leaves it. With ``status_first`` the status is written before any node: it
    says what the taints will meet, and for which keys records count.
    """

    finalizers: tuple[str, ...] | None
    status_first: bool


@dataclass(frozen=True, slots=True)
class Decision:
    """What one pass is to do: what ``promise`` says comes first, then ``acts``, then ``status``.

    ``node_events`` are said, by node, once the patch of that node was written, and ``repaired`` names what
    somebody had undone there. ``status`` is what the pool is to report, ``pool_events`` are said once it was
    written; with ``keeps_status`` what stands there is left until more is known. ``needs_pods`` asks for a
    look at all pods, soon, ``looks`` for one at the pods of each of these nodes alone. At ``look_again`` time
    alone may lead to another decision. ``figures`` are for the metrics.
    """

    promise: Promise
    acts: Acts
    node_events: Mapping[str, Announcement]
    repaired: Mapping[str, tuple[str, ...]]
    status: WindowsNodePoolStatus
    pool_events: tuple[Announcement, ...]
    keeps_status: bool
    needs_pods: bool
    looks: tuple[Node, ...]
    look_again: datetime | None
    figures: Figures

    @property
    def patches(self) -> tuple[NodePatch, ...]:
        """The patches of nodes, at most one for each."""
        return self.acts.patches

    @property
    def finalizers(self) -> tuple[str, ...] | None:
        """What ``promise`` says of them."""
        return self.promise.finalizers

    @property
    def reports_first(self) -> bool:
        """Whether the status has to be written before any node."""
        return self.promise.status_first

    @property
    def releases_pool(self) -> bool:
        """Whether the pool is let go: nothing of it is on any node, and the finalizer comes off."""
        return self.finalizers is not None and RELEASE_FINALIZER not in self.finalizers


def decide(snapshot: Snapshot, rooms: Sequence[Room] = ROOMS) -> Decision:
    """Decide one pass of one pool. Raises RoomsDisagreeError, which is a bug of a room."""
    pool = snapshot.pool
    members = divide(snapshot)
    refusal, pods_permission = refusal_of(snapshot, members), _pods_permission(snapshot)
    mandate = mandate_of(pool, is_accepted=not refusal and not pods_permission)
    results = tuple(room(snapshot, members, mandate) for room in rooms)
    dues = dues_of(snapshot, members, [result.goals for result in results])
    nodes = assessed(snapshot, members, results, dues)
    may_write = mandate in (Mandate.ACT, Mandate.RELEASE)
    asking = _asking(snapshot, nodes.notable) if may_write else ()
    acts = _acts(
        snapshot, members, results, nodes.notable, mandate=mandate, looks_come=len(asking) <= OWN_LOOKS
    )
    reported = status(
        snapshot,
        nodes,
        results,
        refusal=refusal,
        missing_permission=snapshot.missing_permission or pods_permission,
        set_keys=_set_keys(pool, members, may_write=may_write),
    )
    promise = _promise(
        pool, reported, acts, is_due=may_write and any(each.patch is not None for each in nodes.notable)
    )
    return Decision(
        promise=promise,
        acts=acts,
        node_events=_node_events(nodes.notable, pool) if acts.patches else {},
        repaired={
            each.node.name: (*each.drifted, *each.undone)
            for each in nodes.notable
            if acts.patches and (each.drifted or each.undone)
        },
        status=reported,
        pool_events=_pool_events(snapshot, reported, nodes.all, finalizers=promise.finalizers),
        keeps_status=_keeps_status(snapshot, nodes.notable)
        and (bool(pool.status_problem) or not promise.status_first),
        needs_pods=_needs_pods(snapshot, asking, results),
        looks=_looks(snapshot, asking, results),
        look_again=_look_again(results, reported, now=snapshot.now),
        figures=Figures() if pool.deleting else figures_of(nodes.all),
    )


def _acts(
    snapshot: Snapshot,
    members: Members,
    results: Sequence[RoomResult],
    nodes: Sequence[Assessment],
    *,
    mandate: Mandate,
    looks_come: bool,
) -> Acts:
    """Return what may be done now: of what is due, what waits for nothing and was not tried too lately.

    With ``looks_come`` the nodes that want a look of their own wait for it.
    """
    attempts = snapshot.attempts
    if mandate is Mandate.FINISH:
        return permitted(finishing(snapshot, members, results), attempts)
    if mandate is Mandate.NOTHING:
        return NO_ACTS
    return permitted(
        Acts(
            patches=tuple(
                [
                    each.patch
                    for each in nodes
                    if each.patch and each.may_be_written and not (each.held.wants_own_look and looks_come)
                ]
            ),
            evictions=evictions_of(results) if mandate is Mandate.ACT else (),
            conditions=tuple([each.conditions for each in nodes if each.conditions is not None]),
        ),
        attempts,
    )


def _set_keys(pool: Pool, members: Members, *, may_write: bool) -> Keys:
    """Return the keys that the status is to remember: those of the spec once nodes may be written for it."""
    if pool.deleting or not may_write:
        return remembered_keys(pool)
    return keys_to_remember(pool, nodes=(each.node for each in members.all))


def _pods_permission(snapshot: Snapshot) -> str:
    """Say which permission is missing to look at pods, where the spec has taints, which need that."""
    spec = snapshot.pool.spec
    return snapshot.pods_forbidden if spec and taints_of(spec) else ""


def _keeps_status(snapshot: Snapshot, nodes: Sequence[Assessment]) -> bool:
    """Whether the first look at all pods is about to tell more, and the status can wait for it.

    One that tells of this very spec: each start of the operator would take back, for a moment, what is known
    of pods that are in the way. And that of a dry run: its plan would leave out what waits for the look.
    One that cannot be read is not rebuilt without it either: what it said of pods was not nothing.
    """
    pool = snapshot.pool
    is_coming = snapshot.survey is None and not snapshot.pods_problem
    if pool.status_problem:
        return is_coming and pool.spec is not None and not pool.deleting
    is_dry_run = pool.spec is not None and pool.spec.mode is Mode.DRY_RUN
    is_known = is_dry_run or pool.status.observed_generation == pool.generation
    return is_known and is_coming and not pool.deleting and any(each.needs_pods for each in nodes)


def _promise(pool: Pool, reported: WindowsNodePoolStatus, acts: Acts, *, is_due: bool) -> Promise:
    """Return what has to stand on the pool first.

    Our finalizer goes on before the first node is written, and off when nothing is left to undo.
    """
    return Promise(
        finalizers=_finalizers(pool, is_due=is_due or bool(acts.patches)),
        status_first=bool(acts.patches) and _is_status_due(pool, reported),
    )


def _finalizers(pool: Pool, *, is_due: bool) -> tuple[str, ...] | None:
    held = RELEASE_FINALIZER in pool.finalizers
    if is_due and not held and not pool.deleting:
        return (*pool.finalizers, RELEASE_FINALIZER)
    if pool.deleting and held and not is_due:
        return tuple(name for name in pool.finalizers if name != RELEASE_FINALIZER)
    return None


def _is_status_due(pool: Pool, reported: WindowsNodePoolStatus) -> bool:
    """Whether the status has to be written before any node.

    The next pass goes by what stands there. It says what the taints will meet, and for which keys records
    count that no guard vouches for: with the node first, a crash in between could leave a key there for ever
    (P8).
    """
    if pool.status_problem or pool.deleting:
        return bool(pool.status_problem)
    return bool(asked_keys(pool) - remembered_keys(pool)) or is_untold(reported, pool.status)


def _asking(snapshot: Snapshot, nodes: Iterable[Assessment]) -> tuple[Assessment, ...]:
    """Return the nodes whose pods are to be looked at before they are written."""
    attempts = snapshot.attempts
    return tuple(
        [
            each
            for each in nodes
            if (each.needs_pods or each.held.wants_own_look)
            and not (
                attempts.holds_back(each.patch) if each.patch else attempts.holds_back_some(each.node.uid)
            )
        ]
    )


def _looks(
    snapshot: Snapshot, asking: Sequence[Assessment], results: Iterable[RoomResult]
) -> tuple[Node, ...]:
    """Return the nodes to be looked at by themselves: all that ask where they are few.

    Of many the first, where a look at all pods takes too long to be of use.
    """
    also = [node for result in results if not isinstance(result, ContractResult) for node in result.looks]
    if len(asking) > OWN_LOOKS and not is_too_slow(current_survey(snapshot)):
        return tuple(also[:OWN_LOOKS])
    return tuple({each.uid: each for each in (*(one.node for one in asking), *also)}.values())[:OWN_LOOKS]


def _needs_pods(snapshot: Snapshot, asking: Sequence[Assessment], results: Iterable[RoomResult]) -> bool:
    """Whether all pods are to be looked at soon: a room needs it, or many nodes wait.

    So are they where one waits whose own look goes on failing: a look at all pods has to do instead.
    """
    if snapshot.pool.spec is None or snapshot.pool.deleting:
        return False
    if any(result.needs_all_pods for result in results):
        return True
    waiting = [each.node.uid for each in asking if each.needs_pods]
    problems = (snapshot.look_problems.get(uid) for uid in waiting)
    return (len(asking) > OWN_LOOKS and bool(waiting)) or any(each and each.lasts for each in problems)


def _look_again(
    results: Iterable[RoomResult], reported: WindowsNodePoolStatus, *, now: datetime
) -> datetime | None:
    """Return the next moment that a rule names. One that has passed has had its say in this decision."""
    moments = (*(result.requeue_at for result in results), overdue_at(reported.issues))
    return min((moment for moment in moments if moment and moment > now), default=None)


def _node_events(nodes: Sequence[Assessment], pool: Pool) -> dict[str, Announcement]:
    events = ((each.node.name, about_node(each, pool=pool.name)) for each in nodes if each.patch)
    return {name: event for name, event in events if event}


def _pool_events(
    snapshot: Snapshot,
    reported: WindowsNodePoolStatus,
    nodes: Sequence[Assessment],
    *,
    finalizers: tuple[str, ...] | None,
) -> tuple[Announcement, ...]:
    pool = snapshot.pool
    if pool.deleting:
        if finalizers is None:
            return ()
        note = "nothing is left on any node that an ownership record names as the pool's"
        return (Announcement(EventReason.NODES_RELEASED, note, pool.name, pool.uid),)
    if pool.status_problem:
        return ()  # nobody knows what has been told
    of_pool = (
        Announcement(reason, note, pool.name, pool.uid)
        for reason, note in on_transition(
            before=pool.status,
            after=reported,
            wrote=snapshot.attempts.written_generation == pool.generation,
        )
    )
    return (*of_pool, *of_issues(pool, reported, nodes))
