"""What is found of single nodes: whose they are, and what the operator cannot write there, by cause.

Nodes with the same cause are one finding, whatever their number: what is said of it is made once, from any of
them, and says nothing that is of one node alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.api.issues import IssueReason
from winpool.api.keys import APPLIED_ANNOTATION
from winpool.api.v1alpha1 import MAX_ISSUE_NODES
from winpool.report.left_alone import named, removal
from winpool.report.wording import NODE, nameless, sentence
from winpool.rooms import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from winpool.report.assessment import Assessment

REFUSAL_LENGTH: Final = 600
"""Characters of a refusal that are told. It was cut once before, behind names of different length: so much of
it is the same for all nodes. Enough for a policy's message, and short enough to be read."""


MOST_REFUSALS: Final = 5
"""Different refusals that are told one by one; a webhook may give each answer a number of its own."""


_CODE: Final = re.compile(r"^\d{3} ")
"""The HTTP code before the server's words. They say more, and the code reads like a number of nodes."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of trouble; ``told`` returns message and fix for the nodes that have it for one cause."""

    reason: IssueReason
    told: Callable[[_Alike], tuple[str, str]]


@dataclass(frozen=True, slots=True)
class _Alike:
    """Nodes with one kind of trouble for one cause, by their names, and what is known of one of them."""

    cause: str
    example: Assessment
    names: Sequence[str]

    @property
    def for_commands(self) -> str:
        """Their names as kubectl takes them, as many as an issue shows."""
        return " ".join(sorted(self.names)[:MAX_ISSUE_NODES])

    @property
    def on_each(self) -> str:
        """What to add to a command that does not name all of them."""
        return " from each of these nodes" if len(self.names) > MAX_ISSUE_NODES else ""


def node_findings(assessed: Iterable[Assessment]) -> Iterator[Finding]:
    """Yield a finding for each cause, with the names of all nodes that have it."""
    found: dict[tuple[_Kind, str], tuple[Assessment, list[str]]] = {}
    for each in assessed:
        for key in _causes(each):
            found.setdefault(key, (each, []))[1].append(each.node.name)
    yield from _various(found)
    for (kind, cause), (example, names) in found.items():
        message, fix = kind.told(_Alike(cause, example, names))
        yield Finding(kind.reason, names, message, fix, cause=cause)


def _various(found: dict[tuple[_Kind, str], tuple[Assessment, list[str]]]) -> Iterator[Finding]:
    """Take all refusals but those of the most nodes out of ``found``, and yield one finding for them."""
    refusals = [key for key in found if key[0] is _REFUSED]
    if len(refusals) <= MOST_REFUSALS:
        return
    refusals.sort(key=lambda key: (-len(found[key][1]), min(found[key][1])))
    rest = {key: found.pop(key)[1] for key in refusals[MOST_REFUSALS:]}
    message, fix = _refused_for(" for various reasons, such as", min(cause for _, cause in rest))
    names = [name for there in rest.values() for name in there]
    yield Finding(IssueReason.WRITE_REFUSED, names, message, fix, cause="various reasons")


def _causes(each: Assessment) -> Iterator[tuple[_Kind, str]]:
    """Yield each kind of trouble of a node with its cause, which no other kind of that reason has."""
    if each.refused:
        yield _REFUSED, _refusal(each)
    if each.startup.timed_out:
        yield _TIMED_OUT, each.startup.waits_for
    if each.contested:
        yield _CONTESTED, ", ".join(sorted({*each.contested}))
    if each.rival:
        yield _OVERLAP, each.rival
    if each.left_alone:
        yield _LEFT_ALONE, named(each.left_alone)


def _refusal(each: Assessment) -> str:
    """Return the server's own words, without what is of this node or this request alone."""
    name = each.node.name
    words = each.refused.removeprefix(f"patch nodes {name}: ")
    said = nameless(_CODE.sub("", words), name=name)
    return said if len(said) <= REFUSAL_LENGTH else f"{said[: REFUSAL_LENGTH - 1]}…"


def _refused(alike: _Alike) -> tuple[str, str]:
    return _refused_for("", alike.cause)


def _refused_for(how: str, cause: str) -> tuple[str, str]:
    return (
        sentence(f"The API server refuses to change these nodes{how}: {cause}"),
        "Change the policy, webhook or limit that the message names, or change the spec. The operator tries "
        "again after at most five minutes.",
    )


def _timed_out(alike: _Alike) -> tuple[str, str]:
    return (
        f"These nodes did not pass validation in time, because they wait for {alike.cause}.",
        "Make the kubelet or the listed pods Ready. The operator then removes the startup taints.",
    )


def _contested(alike: _Alike) -> tuple[str, str]:
    return (
        f"Someone repeatedly undoes what the pool sets on these nodes: {alike.cause}.",
        f"Find the other writer (kubectl get node {NODE} -o yaml --show-managed-fields). Let only one of the "
        "two set these keys.",
    )


def _overlap(alike: _Alike) -> tuple[str, str]:
    return (
        f"This pool and the pool {alike.cause} select the same nodes. Each node stays with the pool that "
        "has it.",
        f"Change nodeSelector of this pool or of {alike.cause} so that they exclude each other.",
    )


def _left_alone(alike: _Alike) -> tuple[str, str]:
    """Name nodes in the commands: no label selects just them, and others may carry the same keys by right."""
    commands = removal(alike.for_commands, alike.example.left_alone)
    return (
        f"The annotation {APPLIED_ANNOTATION} was written without the guard. It says that the pool set "
        f"{alike.cause}. The status of the pool does not say so, and the operator leaves it.",
        f"Remove it{alike.on_each} if the pool did set it and no one needs it: {commands}",
    )


_REFUSED: Final = _Kind(IssueReason.WRITE_REFUSED, _refused)
_TIMED_OUT: Final = _Kind(IssueReason.VALIDATION_TIMED_OUT, _timed_out)
_CONTESTED: Final = _Kind(IssueReason.FOREIGN_TAINT_CONFLICT, _contested)
_OVERLAP: Final = _Kind(IssueReason.POOL_OVERLAP, _overlap)
_LEFT_ALONE: Final = _Kind(IssueReason.KEYS_LEFT_ALONE, _left_alone)
