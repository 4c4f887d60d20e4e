"""Says what the templates of workloads leave open that Windows needs, by the controllers with the most pods.

Both issues are reports: no condition and no gate reads them, and there is no event of them. They name the
worst controllers and no numbers, which the metrics have, so that a status is written for them only when they
name other controllers. Who is named keeps the place until another has twice as many: pods come and go, and
two that are about equal must not take turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from winpool.api.issues import IssueReason
from winpool.api.status import Issue
from winpool.features.feature import Finding
from winpool.model.snapshot import Snapshot
from winpool.model.survey import CountedPods, Survey
from winpool.status.assessment import Assessed
from winpool.status.pods import own_nodes

NAMED: Final = 5
"""Controllers that an issue names: a message has room for five of the longest titles that are kept."""

_STAYS: Final = 2
"""How many times the pods of one that is named count."""

_NOT_ALL: Final = " There may be more: the cluster has more different pods than winpool compares."


class _Report(NamedTuple):
    """An issue: its message is ``before``, and then the titles as the end of the sentence."""

    reason: IssueReason
    before: str
    fix: str


_UNSELECTED: Final = _Report(
    IssueReason.UNSELECTED_WORKLOADS,
    "The scheduler can place pods of some workloads on the nodes of this pool, although nothing says that "
    "they are for Windows: no taint keeps them off, and they select no OS. Those with the most pods: ",
    "Add nodeSelector: {kubernetes.io/os: linux} or {kubernetes.io/os: windows} to the pod templates, or "
    "taint the nodes of the pool (spec.taints).",
)
_UNLIMITED: Final = _Report(
    IssueReason.MEMORY_LIMITS_MISSING,
    "Containers on the nodes of this pool have no memory limit, so they can use the memory that Windows and "
    "the kubelet need. The workloads with the most of them: ",
    "Set limits.memory of the containers, and requests.memory to the same amount or not at all.",
)


def workload_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield what the last list of all pods has found for this pool, in any generation of it."""
    survey, pool = _survey(snapshot), snapshot.pool
    if survey is None or pool.spec is None or pool.deleting:
        return
    for report, counted in ((_UNSELECTED, survey.unselected), (_UNLIMITED, survey.unlimited)):
        if counted.worst:
            titles = named(counted, before=_named_in(report, pool.status.issues))
            more = "" if counted.is_complete else _NOT_ALL
            message = f"{report.before}{', '.join(titles)}.{more}"
            yield Finding(report.reason, (), message, report.fix, cause="workloads")


def _survey(snapshot: Snapshot) -> Survey | None:
    survey = snapshot.pods.survey
    return survey if survey is not None and survey.pool_uid == snapshot.pool.uid else None


def _named_in(report: _Report, issues: Iterable[Issue]) -> list[str]:
    """Return the titles that the status names, as they stand there."""
    for each in issues:
        if each.reason == report.reason and each.message.startswith(report.before):
            titles = each.message[len(report.before) :].removesuffix(_NOT_ALL).removesuffix(".")
            return titles.split(", ")
    return []


def named(counted: CountedPods, *, before: list[str]) -> list[str]:
    """Return the worst titles, the worst first; ``before`` as it is where it has the same ones."""
    weights = {title: count * _STAYS if title in before else count for title, count in counted.worst}
    worst = sorted(weights, key=lambda title: (-weights[title], title not in before, title))[:NAMED]
    if {*worst} == {*before}:
        return before
    counts = dict(counted.worst)
    return sorted(worst, key=lambda title: (-counts[title], title))


class WorkloadFigures(NamedTuple):
    """What metrics say of it: pods, containers and bytes. None is 0 of some, where others were left out."""

    unselected_pods: int | None
    unlimited_containers: int | None
    memory_limit_excess: int


def workload_figures(snapshot: Snapshot, nodes: Assessed) -> WorkloadFigures | None:
    """Return them; None where pods have not been listed yet for this pool.

    A node that does not report its memory has no part in the excess.
    """
    survey = _survey(snapshot)
    if survey is None:
        return None
    excess = 0
    for node in own_nodes(nodes).values():
        if survey.saw(node) and (allocatable := node.memory.allocatable) is not None:
            excess += max(0, survey.memory_limits.get(node.name, 0) - allocatable)
    return WorkloadFigures(_known(survey.unselected), _known(survey.unlimited), excess)


def _known(counted: CountedPods) -> int | None:
    return counted.count if counted.count or counted.is_complete else None
