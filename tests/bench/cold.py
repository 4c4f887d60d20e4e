"""The rounds: operator and loader in alternating order, each on a fleet that carries nothing yet."""

from __future__ import annotations

from dataclasses import dataclass

from bench.contenders import Cold, LoaderContender, OperatorContender
from bench.counting import Burst
from bench.fleet import read_fleet, require_bare, require_ready, wait_at_rest
from bench.ground import Ground
from bench.rounds import Side, order


@dataclass(slots=True)
class Rounds:
    """What both did, round by round; ``released`` is the operator taking off what it had put on."""

    operator: list[Cold]
    loader: list[Cold]
    released: list[Burst]

    @property
    def complete(self) -> list[tuple[Cold, Cold]]:
        """Operator and loader of each round."""
        return list(zip(self.operator, self.loader, strict=True))


def run_rounds(ground: Ground, *, rounds: int) -> Rounds:
    """Run all rounds; the operator does not run while the loader does.

    A turn of the loader that is not counted comes before them. It warms the API server, and it has the
    controller manager write what it writes at a node's next change only, minutes after the node
    registered: an annotation that depends on the size of the cluster.
    """
    operator, loader = OperatorContender(ground), LoaderContender(ground)
    warm_up = loader.apply()
    ground.report.say(f"warm-up: {warm_up.burst.nodes_per_second:,.1f} nodes a second")
    loader.undo()
    wait_at_rest(ground.trail)
    first = read_fleet(ground.api)
    require_bare(first, like=first)
    done = Rounds([], [], [])

    def turn(side: Side, *, number: int) -> None:
        if side == "operator":
            ground.operator.start()
        heartbeats = wait_at_rest(ground.trail)
        fleet = read_fleet(ground.api)
        require_ready(fleet, count=ground.nodes)
        require_bare(fleet, like=first)
        cold = operator.apply() if side == "operator" else loader.apply()
        counts = cold.burst
        ground.report.say(
            f"round {number}, {side}: {counts.node_patches:,} nodes in {counts.seconds:.2f} s = "
            f"{counts.nodes_per_second:,.1f} a second, {counts.node_conflicts} conflicts, "
            f"{counts.foreign_writes} writes by others ({heartbeats} heartbeats while at rest)"
        )
        if side == "operator":
            done.operator.append(cold)
            done.released.append(operator.undo())
            ground.operator.stop()
        else:
            done.loader.append(cold)
            loader.undo()

    for number, sides in enumerate(order(rounds), start=1):
        for side in sides:
            turn(side, number=number)
    return done
