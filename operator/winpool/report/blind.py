"""Nodes with which the operator cannot continue, since it cannot list their pods: which, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.api.issues import IssueReason
from winpool.pods.evidence import Evidence
from winpool.report.tally import counted_nodes
from winpool.report.wording import nameless, sentence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from winpool.report.assessment import Assessment
    from winpool.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Blind:
    """The names of those nodes, and what to say and to do about it.

    ``message`` names them, for conditions; ``finding`` does not and says why, for an issue. ``of_all`` says
    that looks at all pods fail. Otherwise those at these nodes do, and it is about no other.
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

_SEE: Final = f"See the issue {IssueReason.POD_LIST_FAILING}."
_TRIED_AGAIN: Final = "The operator tries again after at most 30 seconds."


def blind(snapshot: Snapshot, assessed: Sequence[Assessment]) -> Blind:
    """Return the nodes that wait for a look at their pods that fails.

    One whose own look fails is not among them while a young look at all pods covers it.
    """
    asking = [each.node for each in assessed if each.needs_pods]
    if asking and snapshot.pods.problem:
        names = tuple(node.name for node in asking)
        return Blind(
            names,
            f"The operator cannot continue with {counted_nodes(names)}, because it cannot list the pods of "
            f"the cluster. {_SEE}",
            sentence(
                "These nodes wait because the operator cannot list the pods of the cluster: "
                f"{snapshot.pods.problem}"
            ),
            f"Check the API server, and the network between it and the operator. {_TRIED_AGAIN}",
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
        f"The operator cannot continue with {counted_nodes(names)}, because it cannot list their pods. "
        f"{_SEE}",
        sentence(f"These nodes wait because the operator cannot list their pods: {why}"),
        "Check whether these nodes have too many pods to be listed, or too large ones, and check the network "
        f"between the API server and the operator. {_TRIED_AGAIN}",
    )
