"""Puts together what is known of each node at the end of a decision, and counts the nodes of a pool."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from winpool.api.conditions import Reason
from winpool.api.keys import HOLD_ANNOTATION
from winpool.features.contract.feature import NOTHING_FOUND, ContractResult, NodeContract
from winpool.features.contract.taints import NOTHING_HELD, Held
from winpool.features.contract.validation import NO_STARTUP, Startup
from winpool.features.feature import Progress, RoomResult, Stage
from winpool.features.judge import AS_ASKED
from winpool.features.reserved_memory import Reserved
from winpool.model.node import NO_KEYS, ConditionsPatch, Keys, Node, NodePatch, is_held
from winpool.model.snapshot import Snapshot
from winpool.ownership.members import Claim, Members
from winpool.ownership.pending import NOTHING_DUE, Due
from winpool.support.judge import Judgement


class Assessment(msgspec.Struct, frozen=True):
    """What is known of one node. ``patch`` is None where the node is as it should be.

    ``claim`` says what the pool may do with it, ``rival`` names the other pool that has the node or asks for
    it too, and ``owner_is_gone`` says that its owner is no pool. ``found`` is what the contract finds of it;
    ``compared`` is False where there was no readable spec to compare it with. ``drifted`` is what somebody
    undid, ``undone`` the same where it may not be put back now, and ``contested`` what somebody keeps
    undoing; ``unreadable`` says why the ownership record gives no rights, and ``lost`` what stays behind when
    the pool goes, since a record could not be read; ``refused`` why the API server did not let the patch pass
    when it was last tried. ``left_alone`` is what stands there by a record that may be forged.
    ``awaits_guard`` says that the patch has to wait until it is known what the record permits,
    ``awaits_conditions`` that the conditions that the record names have to come off first. ``following`` are
    the conditions that are written once the patch has named them in the record. ``is_held`` says
    that someone holds the node, so that nothing is written to it, except to release a deleted pool.

    A struct, since every pass makes one for each node: a frozen dataclass takes ten times as long to make.
    """

    node: Node
    claim: Claim
    found: NodeContract
    rival: str = ""
    owner_is_gone: bool = False
    patch: NodePatch | None = None
    compared: bool = True
    drifted: tuple[str, ...] = ()
    undone: tuple[str, ...] = ()
    contested: tuple[str, ...] = ()
    unreadable: str = ""
    lost: Keys = NO_KEYS
    refused: str = ""
    left_alone: Keys = NO_KEYS
    conditions: ConditionsPatch | None = None
    following: ConditionsPatch | None = None
    awaits_guard: bool = False
    awaits_conditions: bool = False
    is_held: bool = False

    @property
    def held(self) -> Held:
        """What the brake keeps away."""
        return self.found.held

    @property
    def startup(self) -> Startup:
        """How the node stands with the startup taints."""
        return self.found.startup

    @property
    def lacks_taints(self) -> bool:
        """Whether a taint of the spec is not there."""
        return self.found.lacks_taints

    @property
    def judgement(self) -> Judgement | None:
        """What the support matrix says; of our nodes only."""
        return self.found.judgement

    @property
    def reserved(self) -> Reserved | None:
        """How its reserved memory compares; of our nodes only."""
        return self.found.reserved

    @property
    def is_due(self) -> bool:
        """Whether the node is known to run another release, or an older revision, than the spec asks for."""
        return self.found.release.stage is Stage.DUE

    @property
    def is_settled(self) -> bool:
        """Whether nothing is to be written to the node, now or later."""
        return self.patch is None and self.conditions is None and self.found.is_settled

    @property
    def is_current(self) -> bool:
        """Whether the node is as this generation of the spec asks."""
        return (
            self.compared
            and self.patch is None
            and self.conditions is None
            and self.found.held is NOTHING_HELD
            and self.found.startup is NO_STARTUP
            and self.found.release is AS_ASKED
        )

    @property
    def needs_pods(self) -> bool:
        """Whether a look at its pods has to come first; of a node that may be written."""
        return self.found.needs_pods and not self.is_held

    @property
    def may_be_written(self) -> bool:
        """Whether the patch may be sent now: a NoExecute taint needs a look at the pods that is young."""
        return (
            self.patch is not None
            and not self.is_held
            and not self.held.is_stale
            and not self.awaits_guard
            and not self.awaits_conditions
        )


@dataclass(frozen=True, slots=True)
class Assessed:
    """What is known of all nodes that concern a pool, in the order of their names.

    ``notable`` are those of them that anything is to be said or done of: mostly a few of thousands.
    """

    all: tuple[Assessment, ...]
    notable: tuple[Assessment, ...]


_WRITTEN: Final = (Claim.OURS, Claim.LEFT)
"""Whose nodes a pool writes to."""


def assessed(
    snapshot: Snapshot, members: Members, results: Iterable[RoomResult], dues: Mapping[str, Due]
) -> Assessed:
    """Put together what is known of each node. A refusal is one as long as its patch is due."""
    found: Mapping[str, NodeContract] = {}
    for result in results:
        if isinstance(result, ContractResult):
            found = result.nodes
    refused, contested = snapshot.attempts.refused, snapshot.attempts.contested
    is_deleting, now = snapshot.pool.deleting, snapshot.now
    is_readable = snapshot.pool.spec is not None or is_deleting
    listed: list[Assessment] = []
    notable: list[Assessment] = []
    for member in members.all:
        node, claim = member.node, member.claim
        due, of_contract = dues.get(node.uid), found.get(node.uid, NOTHING_FOUND)
        held = not is_deleting and claim in _WRITTEN and is_held(node, now=now)
        if due is None and not (contested and node.uid in contested):
            each = Assessment(
                node,
                claim,
                of_contract,
                member.rival,
                member.owner_is_gone,
                compared=is_readable,
                is_held=held,
            )
            listed.append(each)
            if held or claim is not Claim.OURS or member.rival or not of_contract.is_settled:
                notable.append(each)
            continue
        due = due or NOTHING_DUE
        state = due.state
        each = Assessment(
            node,
            claim,
            of_contract,
            member.rival,
            member.owner_is_gone,
            state.patch,
            compared=is_readable,
            drifted=state.drifted,
            undone=state.undone,
            contested=contested.get(node.uid, ()) if claim is Claim.OURS else (),
            unreadable=state.unreadable,
            lost=state.lost,
            refused=refused.get(node.uid, "") if state.patch else "",
            left_alone=state.left_alone,
            conditions=due.conditions,
            following=due.following,
            awaits_guard=due.awaits_guard,
            awaits_conditions=due.awaits_conditions,
            is_held=held,
        )
        listed.append(each)
        notable.append(each)
    return Assessed(tuple(listed), tuple(notable))


NAMES_SHOWN: Final = 3
"""As many names as a sentence bears."""


@dataclass(frozen=True, slots=True)
class Tally:
    """How many nodes are in which state.

    ``outstanding`` names those that a patch is due for, ``writable`` those of them that nothing has to
    come first for, ``refused`` those that the API server does not let us write. ``progress`` says at which
    stage nodes are that are not as they should be, each room by itself, that of what is to be written first.
    ``asking`` names those that a look at all pods soon would help along. ``foreign`` are selected and
    another pool's. ``undecided`` are selected, and it is not known yet whether their owner is a pool;
    ``ownerless`` are selected, their owner is none, and only a person can give them to the pool. ``held`` are
    the pool's, and people hold them: none of these is outstanding. ``awaiting_conditions`` names those on
    which node conditions are still to be written or removed.
    """

    nodes: int
    ready: int
    up_to_date: int
    up_to_date_and_ready: int
    available: int
    outstanding: tuple[str, ...]
    writable: tuple[str, ...]
    refused: tuple[str, ...]
    progress: tuple[Progress, ...]
    asking: tuple[str, ...]
    foreign: int
    undecided: int
    ownerless: int
    held: int
    awaiting_conditions: tuple[str, ...]

    @property
    def unknown(self) -> int:
        """How many nodes are selected whose owner is not known."""
        return self.undecided + self.ownerless

    def at(self, stage: Stage) -> tuple[Progress, ...]:
        """Return what is to be said of the nodes that are at ``stage``."""
        return tuple(each for each in self.progress if each.stage is stage)

    def names_at(self, stage: Stage) -> tuple[str, ...]:
        """Name the nodes that are at ``stage``, each once."""
        return tuple(dict.fromkeys(name for each in self.at(stage) for name in each.nodes))


_ON_HOLD: Final = f"Someone holds {{nodes}} with the annotation {HOLD_ANNOTATION}, so the operator waits."
_OF_WINDOWS: Final = (Stage.DUE, Stage.UNKNOWN)
"""What is true of a node whoever may write to it."""
_TO_BE_WRITTEN: Final = "Labels or taints have to change on {nodes}."


def tally(assessed: Sequence[Assessment], results: Sequence[RoomResult]) -> Tally:
    """Count the nodes that belong to the pool, and those that it selects but another pool has.

    A node that the pool has left belongs to it until it is released, or a gate that compares counts
    would pass too early.
    """
    nodes = ready = up_to_date = up_to_date_and_ready = available = foreign = undecided = ownerless = 0
    notable: list[Assessment] = []
    awaiting: list[str] = []
    pending = {name for result in results for each in result.progress for name in each.nodes}
    # One walk, not one for each count: a pass does this for every node.
    for each in assessed:
        node, whose = each.node, each.claim
        if each.patch is not None or each.is_held:
            notable.append(each)
        if each.conditions is not None and not each.is_held:
            awaiting.append(node.name)
        if whose is Claim.OURS or whose is Claim.LEFT:
            nodes += 1
            current = each.is_current and (not pending or node.name not in pending)
            up_to_date += current
            if is_ready(node):
                ready += 1
                up_to_date_and_ready += current
                available += is_available(node)
        elif whose is Claim.RIVAL:
            foreign += 1
        elif whose is Claim.UNKNOWN:
            ownerless += each.owner_is_gone
            undecided += not each.owner_is_gone
    due = [each for each in notable if not each.is_held]
    refused = [each.node.name for each in due if each.refused]
    return Tally(
        nodes=nodes,
        ready=ready,
        up_to_date=up_to_date,
        up_to_date_and_ready=up_to_date_and_ready,
        available=available,
        outstanding=tuple([each.node.name for each in due]),
        writable=tuple([each.node.name for each in due if each.may_be_written]),
        refused=tuple(refused),
        progress=tuple(
            _progress(
                [each.node.name for each in due],
                results,
                refused=frozenset(refused),
                on_hold=[each.node.name for each in notable if each.is_held and not each.is_settled],
            )
        ),
        asking=tuple([each.node.name for each in assessed if each.needs_pods]),
        foreign=foreign,
        undecided=undecided,
        ownerless=ownerless,
        held=sum(each.is_held for each in notable),
        awaiting_conditions=tuple(awaiting),
    )


def _progress(
    outstanding: Sequence[str],
    results: Iterable[RoomResult],
    *,
    refused: frozenset[str],
    on_hold: Sequence[str],
) -> Iterator[Progress]:
    """Yield the stages of nodes: first those that are to be written, then what each room says.

    One that the API server does not let us write cannot show anything: it is not being validated. One that a
    person holds goes no further in any way.
    """
    if outstanding:
        yield Progress(Stage.WRITING, outstanding, Reason.ROLLOUT_IN_PROGRESS, _TO_BE_WRITTEN)
    if on_hold:
        yield Progress(Stage.ON_HOLD, on_hold, Reason.NODES_HELD, _ON_HOLD)
    stopped = frozenset(on_hold)
    for result in results:
        for each in result.progress:
            out = refused | stopped if each.stage is Stage.VALIDATING else stopped
            left = [name for name in each.nodes if name not in out or each.stage in _OF_WINDOWS]
            if len(left) == len(each.nodes):
                yield each
            elif left:
                yield replace(each, nodes=left)


def is_ready(node: Node) -> bool:
    """Whether the kubelet reports Ready; a node that nothing is heard of is not ready."""
    return node.ready == "True"


def is_available(node: Node) -> bool:
    """Whether new pods can run there: ready, not cordoned, not on its way out."""
    return is_ready(node) and not node.unschedulable and not node.deleting


def enumerate_names(names: Iterable[str]) -> str:
    """Write ``names`` as a sentence bears them: the first three, and how many more."""
    listed = tuple(names)
    more = len(listed) - NAMES_SHOWN
    return ", ".join(listed[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def counted_nodes(names: Sequence[str], number: int | None = None) -> str:
    """Write how many nodes there are, and the first of them: "5 nodes (w1, w2, w3 and 2 more)".

    ``names`` may be the first of ``number`` names only.
    """
    number = len(names) if number is None else number
    shown = names[:NAMES_SHOWN]
    more = f" and {number - len(shown)} more" if number > len(shown) else ""
    return f"{count_nodes(number)} ({', '.join(shown)}{more})"


def count_nodes(number: int) -> str:
    """Write a number of nodes: "1 node", "12 nodes"."""
    return f"{number} node" if number == 1 else f"{number} nodes"


def count_pods(number: int) -> str:
    """Write a number of pods: "1 pod", "12 pods"."""
    return f"{number} pod" if number == 1 else f"{number} pods"
