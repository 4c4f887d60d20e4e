"""Whether the moving pods of one node have room on others: proofs that they do not, and placements.

A proof that pods do not fit takes of each node the room that it has at most, an attempt to place them only
what it certainly has. In between it is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.upgrade.spots import slots_on

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from winpool.upgrade.audiences import Audience
    from winpool.upgrade.spots import Spot

MOST_STEPS: Final = 4096
"""Nodes that one attempt tries, over all pods: a millisecond."""

STEPS_OF_ALL: Final = 1_500_000
"""The same for all nodes of a build together, half a second at most. Of 5,000 nodes each attempt tries 300:
more than its pods, and the roomiest come first, so that more of them seldom help."""

Demand = tuple["Need", int]
"""A need, and how many pods have it."""


@dataclass(frozen=True, eq=False, slots=True)
class Need:
    """What the pods of one shape need. ``cpu`` is in thousandths of a core, ``memory`` in bytes.

    ``low`` is the same or less, for what is counted once for several needs. ``nodes`` is how many nodes
    certainly have room for one, COUNTED at most and never too many. ``key`` orders needs, the largest first.
    """

    audience: Audience
    cpu: int
    memory: int
    low: tuple[int, int]
    nodes: int
    selector: tuple[tuple[str, str], ...]
    key: tuple[object, ...]

    def slots_without(self, own: int) -> int:
        """Return how many pods have room on the nodes except that of the number ``own``, if all were alike.

        It is never too few.
        """
        spot = self.audience.possible_by_number.get(own)
        return self.audience.slots_for(*self.low) - (slots_on(spot, *self.low) if spot else 0)


def have_a_node_each(demands: list[Demand]) -> bool:
    """Whether each pod can have a node for itself: then all fit, and nothing has to be placed.

    One node of each need is left out, since the own one may be among them. Where those with the fewest
    nodes choose first, each finds one that no pod before has.
    """
    pods = 0
    for need, number in sorted(demands, key=_by_nodes):
        pods += number
        if need.nodes <= pods:
            return False
    return True


def left_over(demands: Sequence[Demand], own: int, *, everyone: Audience) -> list[Demand]:
    """Return pods that do not fit however all are placed, as few as that is certain of.

    Two bounds: of pods that are alike, how many have room on each node; and of all pods together, and of all
    with the same nodes, what these nodes have in sum. ``everyone`` are all nodes.
    """
    left: list[Demand] = []
    kept: list[Demand] = []
    for need, number in sorted(demands, key=_by_key):
        fitting = min(max(need.slots_without(own), 0), number)
        if fitting < number:
            left.append((need, number - fitting))
        if fitting:
            kept.append((need, fitting))
    sums = [_beyond_sum(same, audience, own) for audience, same in _by_audience(kept, everyone)]
    return [*left, *max(sums, key=_pods_of, default=[])]


def are_placed(demands: Sequence[Demand], own: int, *, everyone: Audience) -> bool:
    """Whether one of two attempts places all pods, on nodes except that of the number ``own``.

    The first begins with those that the fewest nodes may take, and fills the roomiest nodes; the second
    begins with the largest, and fills the fullest nodes.
    """
    fussiest = sorted(demands, key=lambda each: (len(each[0].audience.sure), *_by_key(each)))
    largest = sorted(demands, key=_by_key)
    steps = min(STEPS_OF_ALL // max(len(everyone.possible), 1), MOST_STEPS)
    return _attempt(fussiest, own, steps, roomiest=True) or _attempt(largest, own, steps, roomiest=False)


def _attempt(demands: Iterable[Demand], own: int, steps: int, *, roomiest: bool) -> bool:
    left: dict[int, Spot] = {}
    for need, number in demands:
        cpu, memory = need.cpu, need.memory
        spots = need.audience.sure
        for full in spots if roomiest else reversed(spots):
            steps -= 1
            if full[0] == own:
                continue
            spot = left.get(full[0], full)
            placed = min(slots_on(spot, cpu, memory), number)
            if placed:
                left[full[0]] = (
                    spot[0],
                    spot[1] - placed * cpu,
                    spot[2] - placed * memory,
                    spot[3] - placed,
                )
                number -= placed  # noqa: PLW2901
                if not number:
                    break
            if not steps:
                return False
        else:
            return False
    return True


def _by_audience(demands: Sequence[Demand], everyone: Audience) -> list[tuple[Audience, list[Demand]]]:
    together: dict[int, list[Demand]] = {}
    for each in demands:
        together.setdefault(id(each[0].audience), []).append(each)
    found = [(same[0][0].audience, same) for same in together.values()]
    return found if len(found) == 1 else [*found, (everyone, list(demands))]


def _beyond_sum(demands: Sequence[Demand], audience: Audience, own: int) -> list[Demand]:
    """Return the pods that do not fit into what all nodes of an audience have, of one resource."""
    _, cpu, memory, pods = audience.total
    if spot := audience.possible_by_number.get(own):
        cpu, memory, pods = cpu - spot[1], memory - spot[2], pods - spot[3]
    return max(
        _beyond(demands, [need.cpu for need, _ in demands], cpu),
        _beyond(demands, [need.memory for need, _ in demands], memory),
        _beyond(demands, [1] * len(demands), pods),
        key=_pods_of,
    )


def _beyond(demands: Sequence[Demand], amounts: Sequence[int], free: int) -> list[Demand]:
    """Return as few pods as must be left out, so that the others need no more than ``free``."""
    excess = sum(amount * number for (_, number), amount in zip(demands, amounts, strict=True)) - free
    found: list[Demand] = []
    if excess <= 0:
        return found
    ordered = sorted(zip(amounts, demands, strict=True), key=lambda each: (-each[0], _by_key(each[1])))
    for amount, (need, number) in ordered:
        if excess <= 0 or not amount:
            break
        left = min(number, -(-excess // amount))
        found.append((need, left))
        excess -= left * amount
    return found


def _by_nodes(demand: Demand) -> int:
    return demand[0].nodes


def _by_key(demand: Demand) -> tuple[object, ...]:
    return demand[0].key


def _pods_of(demands: Iterable[Demand]) -> int:
    return sum(number for _, number in demands)
