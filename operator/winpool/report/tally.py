"""The counts of a pool, from its assessments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from winpool.api.conditions import Reason
from winpool.api.keys import HOLD_ANNOTATION
from winpool.ownership.membership import Claim
from winpool.rooms import Progress, Stage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from winpool.objects.node import Node
    from winpool.report.assessment import Assessment
    from winpool.rooms import RoomResult

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
