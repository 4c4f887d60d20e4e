"""Nodes that cannot be gone on with, since their pods cannot be looked at: which, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.pods.evidence import Evidence
from winpool.report.tally import count_nodes, enumerate_names
from winpool.report.wording import nameless, sentence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from winpool.report.assessment import Assessment
    from winpool.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Blind:
    """The names of those nodes, and what to say and to do about it.

    ``message`` names them, for conditions; ``finding`` does not, for an issue. ``of_all`` says that looks at
    all pods fail. Otherwise those at these nodes do, and it is about no other.
    """

    nodes: tuple[str, ...] = ()
    message: str = ""
    finding: str = ""
    fix: str = ""
    of_all: bool = False

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.nodes)


NOT_BLIND: Final = Blind()

_TRIED_AGAIN: Final = "The operator tries again, at most half a minute apart."


def blind(snapshot: Snapshot, assessed: Sequence[Assessment]) -> Blind:
    """Return the nodes that wait for a look at their pods that fails.

    One whose own look fails is not among them while a young look at all pods covers it.
    """
    asking = [each.node for each in assessed if each.needs_pods]
    if asking and snapshot.pods.problem:
        names = tuple(node.name for node in asking)
        return Blind(
            names,
            f"{count_nodes(len(names))} ({enumerate_names(names)}) cannot be gone on with before all pods "
            f"have been looked at, and that fails: {snapshot.pods.problem}",
            sentence(
                f"these nodes wait because the pods of the cluster cannot be listed: {snapshot.pods.problem}"
            ),
            f"Check the API server, and what stands between it and the operator. {_TRIED_AGAIN}",
            of_all=True,
        )
    problems, evidence = snapshot.pods.look_problems, Evidence(snapshot)
    failing = [node for node in asking if node.uid in problems and not evidence.covered_lately(node)]
    if not failing:
        return NOT_BLIND
    names = tuple(node.name for node in failing)
    # One of them, the same whichever nodes come and go.
    why = min(nameless(problems[node.uid].message, name=node.name) for node in failing)
    return Blind(
        names,
        f"{count_nodes(len(names))} ({enumerate_names(names)}) cannot be gone on with before the pods there "
        f"have been looked at, and that fails: {problems[failing[0].uid].message}",
        sentence(f"these nodes wait because their pods cannot be listed: {why}"),
        "Check whether the pods there are too many or too large to be listed, and what stands between the "
        f"API server and the operator. {_TRIED_AGAIN}",
    )
