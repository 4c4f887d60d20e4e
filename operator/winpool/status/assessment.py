"""Puts together what is known of each node of a pool: its claim, what is found, what is due; and counts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from winpool.api.conditions import Reason
from winpool.api.keys import HOLD_ANNOTATION
from winpool.api.text import enumerate_names
from winpool.features.contract.feature import NOTHING_FOUND, ContractResult, NodeContract
from winpool.features.feature import FeatureResult, Progress, Stage
from winpool.model.node import Node, Taint
from winpool.model.snapshot import Snapshot
from winpool.ownership.diff import NO_DIFF, NodeDiff
from winpool.ownership.members import Claim, Members


class Assessment(msgspec.Struct, frozen=True):
    """What is known of one node.

    ``claim`` says what the pool may do with it, ``rival`` names the other pool that has the node or asks for
    it too, and ``owner_is_gone`` says that its owner is no pool. ``found`` is what the contract finds of it,
    ``diff`` how it differs from what is desired there; ``compared`` is False where there was no readable spec
    to compare it with. ``contested`` is what somebody keeps undoing; ``refused`` says why the API server did
    not let the patch pass when it was last tried. ``is_held`` says that someone holds the node, so that
    nothing is written to it, except to release a deleted pool.

    A struct: a frozen dataclass takes ten times as long to make.
    """

    node: Node
    claim: Claim
    found: NodeContract
    diff: NodeDiff = NO_DIFF
    rival: str = ""
    owner_is_gone: bool = False
    compared: bool = True
    contested: tuple[str, ...] = ()
    refused: str = ""
    is_held: bool = False

    @property
    def is_settled(self) -> bool:
        """Whether nothing is to be written to the node, now or later."""
        return self.diff.patch is None and self.diff.conditions is None and self.found.is_settled

    @property
    def is_current(self) -> bool:
        """Whether the node is as this generation of the spec asks."""
        return (
            self.compared
            and self.diff.patch is None
            and self.diff.conditions is None
            and self.found.is_current
        )

    @property
    def needs_pods(self) -> bool:
        """Whether a look at its pods has to come first; of a node that may be written."""
        return self.found.needs_pods and not self.is_held

    @property
    def may_be_written(self) -> bool:
        """Whether the patch may be sent now: a NoExecute taint needs a look at the pods that is young."""
        return (
            self.diff.patch is not None
            and not self.is_held
            and not self.found.held.is_stale
            and not self.diff.awaits_guard
            and not self.diff.awaits_conditions
        )


class Assessed(msgspec.Struct, frozen=True):
    """What is known of all nodes that concern a pool.

    ``notable`` are those of them that anything is to be said or done of, in the order of their names: mostly
    a few of thousands. ``usual`` are the others, all of the pool, by what the contract finds of them: nodes
    that are alike share one object. ``compared`` is False where there was no readable spec to compare with.
    """

    notable: tuple[Assessment, ...]
    usual: tuple[tuple[NodeContract, list[Node]], ...]
    compared: bool

    def __iter__(self) -> Iterator[Assessment]:
        """Yield those of all nodes, in no particular order."""
        yield from self.notable
        for found, nodes in self.usual:
            for node in nodes:
                yield Assessment(node, Claim.OURS, found, compared=self.compared)

    def own_nodes(self) -> dict[str, Node]:
        """Return the nodes of the pool, by name."""
        usual = {node.name: node for _, alike in self.usual for node in alike}
        return usual | {each.node.name: each.node for each in self.notable if each.claim is Claim.OURS}

    def by_finding(self) -> Iterator[tuple[NodeContract, Sequence[Node]]]:
        """Yield all nodes by what the contract finds of them."""
        yield from self.usual
        for each in self.notable:
            yield each.found, (each.node,)


_WRITTEN: Final = (Claim.OURS, Claim.LEFT)
"""Whose nodes a pool writes to."""


def assessed(
    snapshot: Snapshot,
    members: Members,
    contract: ContractResult,
    diffs: Mapping[str, NodeDiff],
    *,
    held: Collection[str],
) -> Assessed:
    """Put together what is known of each node. A refusal is one as long as its patch is due.

    ``held`` are the names of the nodes that people hold.
    """
    found = contract.nodes
    refused, contested = snapshot.attempts.refused, snapshot.attempts.contested
    is_readable = snapshot.pool.spec is not None or snapshot.pool.deleting
    notable: list[Assessment] = []
    usual: dict[int, tuple[NodeContract, list[Node]]] = {}
    for member in members.all:
        node, claim = member.node, member.claim
        uid = node.uid
        of_contract = found.get(uid, NOTHING_FOUND)
        is_usual = (
            claim is Claim.OURS
            and uid not in diffs
            and node.ready == "True"
            and not cloud_taints(node)
            and (not held or node.name not in held)
            and not member.rival
            and (not contested or uid not in contested)
        )
        if is_usual:
            alike = usual.get(id(of_contract))
            if alike is not None:
                alike[1].append(node)
                continue
            if of_contract.is_settled:
                usual[id(of_contract)] = (of_contract, [node])
                continue
        diff = diffs.get(uid, NO_DIFF)
        notable.append(
            Assessment(
                node,
                claim,
                of_contract,
                diff,
                member.rival,
                member.owner_is_gone,
                compared=is_readable,
                contested=contested.get(uid, ()) if claim is Claim.OURS else (),
                refused=refused.get(uid, "") if diff.patch else "",
                is_held=node.name in held,
            )
        )
    return Assessed(tuple(notable), tuple(usual.values()), is_readable)


SHUTDOWN: Final = "node.cloudprovider.kubernetes.io/shutdown"
_CLOUD_TAINTS: Final = frozenset({"node.cloudprovider.kubernetes.io/uninitialized", SHUTDOWN})


def cloud_taints(node: Node) -> list[Taint]:
    """Return the taints that a cloud controller manager removes once the node is usable."""
    return [taint for taint in node.taints if taint.key in _CLOUD_TAINTS]


class Tally(msgspec.Struct, frozen=True):
    """How many nodes are in which state.

    ``outstanding`` names those that a patch is due for, ``writable`` those of them that nothing has to
    come first for, ``refused`` those that the API server does not let us write. ``progress`` says at which
    stage nodes are that are not as they should be, each feature by itself, that of what is to be written
    first. ``asking`` names those that a look at all pods soon would help along. ``foreign`` are selected and
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


def tally(assessed: Assessed, results: Sequence[FeatureResult]) -> Tally:
    """Count the nodes that belong to the pool, and those that it selects but another pool has.

    A node that the pool has left belongs to it until it is released, or a gate that compares counts
    would pass too early.
    """
    notable = assessed.notable
    held = [each for each in notable if each.is_held]
    others = [each for each in notable if not each.is_held]
    due = [each for each in others if each.diff.patch is not None]
    refused = _names(each for each in due if each.refused)
    on_hold = _names(each for each in held if not each.is_settled)
    unknown = [each for each in notable if each.claim is Claim.UNKNOWN]
    ownerless = sum(each.owner_is_gone for each in unknown)
    return Tally(
        *_counted(assessed, results),
        outstanding=_names(due),
        writable=_names(each for each in due if each.may_be_written),
        refused=refused,
        progress=tuple(_progress(_names(due), results, refused=frozenset(refused), on_hold=on_hold)),
        asking=_names(each for each in notable if each.needs_pods),
        foreign=sum(each.claim is Claim.RIVAL for each in notable),
        undecided=len(unknown) - ownerless,
        ownerless=ownerless,
        held=len(held),
        awaiting_conditions=_names(each for each in others if each.diff.conditions is not None),
    )


def _names(those: Iterable[Assessment]) -> tuple[str, ...]:
    return tuple([each.node.name for each in those])


def _counted(assessed: Assessed, results: Iterable[FeatureResult]) -> tuple[int, int, int, int, int]:
    """Count the pool's nodes: all, the ready, those up to date, those that are both, and the available."""
    pending = {name for result in results for each in result.progress for name in each.nodes}
    alike: list[tuple[bool, Sequence[Node]]] = [
        *((assessed.compared and found.is_current, nodes) for found, nodes in assessed.usual),
        *((each.is_current, (each.node,)) for each in assessed.notable if each.claim in _WRITTEN),
    ]
    ready = up_to_date = up_to_date_and_ready = available = 0
    for is_current, nodes in alike:
        for node in nodes:
            current = is_current and (not pending or node.name not in pending)
            up_to_date += current
            if node.ready == "True":
                ready += 1
                up_to_date_and_ready += current
                available += not (node.unschedulable or node.deleting)
    return sum(len(nodes) for _, nodes in alike), ready, up_to_date, up_to_date_and_ready, available


def _progress(
    outstanding: Sequence[str],
    results: Iterable[FeatureResult],
    *,
    refused: frozenset[str],
    on_hold: Sequence[str],
) -> Iterator[Progress]:
    """Yield the stages of nodes: first those that are to be written, then what each feature says.

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


def counted_nodes(names: Sequence[str], number: int | None = None) -> str:
    """Write how many nodes there are, and the first of them: "5 nodes (w1, w2, w3 and 2 more)"."""
    return f"{count_nodes(len(names) if number is None else number)} ({enumerate_names(names, number)})"


def count_nodes(number: int) -> str:
    """Write a number of nodes: "1 node", "12 nodes"."""
    return f"{number} node" if number == 1 else f"{number} nodes"


def of_all(number: int, nodes: int) -> str:
    """Begin a sentence about so many of the ``nodes``."""
    return f"{number} of {count_nodes(nodes)} {'is' if number == 1 else 'are'}"


def count_pods(number: int) -> str:
    """Write a number of pods: "1 pod", "12 pods"."""
    return f"{number} pod" if number == 1 else f"{number} pods"
