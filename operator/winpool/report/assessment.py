"""What is known of each node at the end of a decision: whose it is, what is found of it, and what is due."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from winpool.contract.brake import NOTHING_HELD, Held
from winpool.contract.room import NOTHING_FOUND, ContractResult, NodeContract
from winpool.contract.validate import NO_STARTUP, Startup
from winpool.judging.release import AS_ASKED
from winpool.objects.acts import ConditionsPatch, NodePatch
from winpool.objects.hold import is_held
from winpool.objects.keys import NO_KEYS, Keys
from winpool.objects.node import Node
from winpool.ownership.dues import NOTHING_DUE
from winpool.ownership.membership import Claim
from winpool.rooms import Stage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from winpool.judging.reserved_memory import Reserved
    from winpool.ownership.dues import Due
    from winpool.ownership.members import Members
    from winpool.rooms import RoomResult
    from winpool.snapshot import Snapshot
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
