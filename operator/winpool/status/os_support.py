"""What the support matrix says of the nodes of a pool: builds, the condition OSSupported, and issues.

Nodes that run the same are judged alike, so everything here goes by groups of nodes: there are a handful,
whatever the size of the pool.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import Final

import msgspec

from winpool.api.conditions import Reason
from winpool.api.issues import IssueReason
from winpool.api.matrix import Verdict
from winpool.api.status import MAX_BUILDS, Build
from winpool.api.text import enumerate_names, grouped
from winpool.features.feature import Finding
from winpool.status.assessment import Assessed, count_nodes, of_all
from winpool.support.judge import Judgement
from winpool.support.servicing import EndingLevel, support_ending
from winpool.support.servicing import Reason as JudgedBy

UNKNOWN_BUILD: Final = "Unknown"
"""Stands in ``status.builds`` for all nodes whose build cannot be read."""

_REASONS: Final = {
    "SupportEnded": IssueReason.SUPPORT_ENDED,
    "RevisionTooLow": IssueReason.REVISION_BELOW_FLOOR,
    "KubeletNewer": IssueReason.VERSION_SKEW,
    "KubeletTooOld": IssueReason.VERSION_SKEW,
    "RuntimeTooOld": IssueReason.RUNTIME_TOO_OLD,
    "RuntimeUnsupported": IssueReason.RUNTIME_TOO_OLD,
    "LabelDisagrees": IssueReason.BUILD_LABEL_DISAGREES,
}
"""Reasons of a judgement that have a name of their own among the issues; the others go by their verdict."""

_BY_VERDICT: Final = {
    Verdict.UNSUPPORTED: IssueReason.BUILD_UNSUPPORTED,
    Verdict.UNKNOWN: IssueReason.BUILD_UNKNOWN,
    Verdict.WARNED: IssueReason.BUILD_WARNED,
}

_CHECK: Final = "Check what the message names."

_WORST_LAST: Final = tuple(Verdict)


class Group(msgspec.Struct, frozen=True):
    """Nodes of a pool that are judged alike, by their names, in order."""

    judgement: Judgement
    nodes: Sequence[str]


def groups_of(nodes: Assessed) -> tuple[Group, ...]:
    """Group the pool's nodes by how they are judged. A pass has one object for each judgement."""
    found: dict[int, tuple[Judgement, list[str]]] = {}
    for of_contract, alike in nodes.by_finding():
        if (judgement := of_contract.judgement) is not None:
            names = found.setdefault(id(judgement), (judgement, []))[1]
            names += [node.name for node in alike]
    groups = [Group(judgement, sorted(names)) for judgement, names in found.values()]
    return tuple(sorted(groups, key=lambda group: group.nodes[0]))


def builds(groups: Iterable[Group]) -> tuple[Build, ...]:
    """Return a row for each build, those with the most nodes first, and never more than fit."""
    of_build = grouped((group.judgement.build or UNKNOWN_BUILD, group) for group in groups)
    rows = [_build(name, of_it) for name, of_it in of_build.items()]
    return tuple(sorted(rows, key=lambda row: (-row.nodes, row.build))[:MAX_BUILDS])


def _build(name: str, groups: Sequence[Group]) -> Build:
    revisions = [revision for each in groups if (revision := each.judgement.revision) is not None]
    first = groups[0].judgement
    return Build(
        build=name,
        os_version=first.os_version or None,
        nodes=sum(len(each.nodes) for each in groups),
        min_revision=min(revisions, default=None),
        max_revision=max(revisions, default=None),
        verdict=max((each.judgement.verdict for each in groups), key=_WORST_LAST.index),
        end_of_support=first.end_of_support.isoformat() if first.end_of_support else None,
    )


def findings(groups: Iterable[Group], *, today: date) -> tuple[Finding, ...]:
    """Return all that is to be said against the nodes, the worst first."""
    order = list(IssueReason)
    judged = sorted(_judged(groups), key=lambda each: (each.nodes[0], each.message))
    return tuple(sorted((*judged, *_endings(groups, today=today)), key=lambda each: order.index(each.reason)))


def _judged(groups: Iterable[Group]) -> Iterator[Finding]:
    """Yield what the support matrix has against nodes, once for all nodes of whatever versions."""
    alike = grouped(
        ((named, reason.cause or reason.message, reason.fix or _CHECK), (group, reason.message))
        for group in groups
        for reason in group.judgement.reasons
        if (named := _named(reason)) is not None
    )
    for (named, cause, fix), found in alike.items():
        said = {message for _, message in found}
        others = " Other nodes report other texts, to which the same applies." if len(said) > 1 else ""
        nodes = sorted(name for group, _ in found for name in group.nodes)
        yield Finding(named, nodes, f"{min(said)}{others}", fix, cause=f"{cause} {fix}")


def _named(reason: JudgedBy) -> IssueReason | None:
    return _REASONS.get(reason.code) or _BY_VERDICT.get(reason.verdict)


def _endings(groups: Iterable[Group], *, today: date) -> list[Finding]:
    """Say once per release that its support ends, the next to end first.

    That it has ended, each judgement says by itself.
    """
    ending: dict[tuple[date, str], list[str]] = {}
    for group in groups:
        release, end = group.judgement.os_version, group.judgement.end_of_support
        if end and support_ending(end, today) in (EndingLevel.NOTICE, EndingLevel.WARNING):
            ending.setdefault((end, release), []).extend(group.nodes)
    return [
        Finding(
            IssueReason.SUPPORT_ENDING,
            nodes,
            # No days that are left: they would be a status write a day.
            f"Support for Windows Server {release} ends on {end} (UTC).",
            "Add nodes with a newer release of Windows Server, and move the workload there before that day.",
            cause=f"{end} {release}",
        )
        for (end, release), nodes in sorted(ending.items())
    ]


_ENDING: Final = re.compile(r"support (?:of|for) Windows Server (.*?) ends (?:with|on) (\S+)", re.IGNORECASE)


def ending_of(message: str) -> str:
    """Return which end of support the message of a SupportEnding issue is about: its release and its day.

    Earlier versions said it in other words, and one event is enough.
    """
    found = _ENDING.match(message)
    return " ".join(found.groups()) if found else message


def os_supported(
    groups: Sequence[Group], found: Sequence[Finding], *, today: date
) -> tuple[str, Reason, str]:
    """Return status, reason and message of OSSupported: the worst node counts, and there has to be one.

    ``found`` are the ``findings`` of ``groups``.
    """
    worst = max((group.judgement.verdict for group in groups), key=_WORST_LAST.index)
    if worst is Verdict.UNSUPPORTED:
        reason = found[0].reason
        return "False", Reason(reason), _about(reason, found, groups, said="not supported")
    if worst is Verdict.UNKNOWN:
        said = _about(IssueReason.BUILD_UNKNOWN, found, groups, said="not known to be supported")
        return "Unknown", Reason.BUILD_UNKNOWN, said
    ends = [end for group in groups if (end := group.judgement.end_of_support)]
    if ends and support_ending(min(ends), today) is EndingLevel.WARNING:
        said = _about(IssueReason.SUPPORT_ENDING, found, groups, said="supported for some days only")
        return "True", Reason.SUPPORT_ENDING, said
    if worst is Verdict.WARNED:
        reason = next(each.reason for each in found if each.reason is not IssueReason.SUPPORT_ENDING)
        return "True", Reason.BUILD_WARNED, _about(reason, found, groups, said="supported with a warning")
    releases = ", ".join(sorted({group.judgement.os_version for group in groups}))
    nodes = count_nodes(sum(len(group.nodes) for group in groups))
    said = f"The support matrix allows Windows Server {releases} on {nodes}."
    return "True", Reason.NODES_SUPPORTED, said


def _about(reason: IssueReason, found: Iterable[Finding], groups: Iterable[Group], *, said: str) -> str:
    """Say how many nodes it is about, and which. What is wrong with them, the issue says."""
    names = sorted({name for each in found if each.reason is reason for name in each.nodes})
    of_them = of_all(len(names), sum(len(group.nodes) for group in groups))
    return f"{of_them} {said} ({enumerate_names(names)}). See the issue {reason}."
