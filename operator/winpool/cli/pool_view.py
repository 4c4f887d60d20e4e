"""What ``status`` shows of one pool, read from the object as the API server sends it.

Plugin and operator may be of different versions, so nothing here refuses: what is missing or of another type
counts as absent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from winpool.api.condition_table import CONDITIONS
from winpool.api.conditions import ConditionType, Polarity
from winpool.api.v1alpha1 import NOT_OBSERVED, Mode, PlanAction
from winpool.cli.lenient import count, items, mapping, moment, number, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

_POLARITY: Final[Mapping[str, Polarity]] = {kind.type: kind.polarity for kind in CONDITIONS}
_ORDER: Final = [str(kind.type) for kind in CONDITIONS]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionView:
    """A condition of the pool; ``since`` is when its status last changed."""

    type: str
    status: str
    reason: str
    message: str
    since: datetime | None

    @property
    def is_trouble(self) -> bool:
        """Whether it says that something is wrong, and not only that something goes on."""
        return _POLARITY.get(self.type) in (Polarity.GOOD, Polarity.BAD)

    @property
    def is_notable(self) -> bool:
        """Whether it is not as it should be, or says that the pool is being worked on, paused or deleted.

        Of a type that this version does not know, nobody can tell.
        """
        match _POLARITY.get(self.type):
            case None:
                return False
            case Polarity.GOOD:
                return self.status != "True"
            case _:
                return self.status != "False"


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueView:
    """An issue; ``nodes`` are the first of the ``node_count`` nodes that it is about, none for the pool."""

    reason: str
    node_count: int
    nodes: tuple[str, ...]
    since: datetime | None
    message: str
    fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildView:
    """A build of Windows that nodes of the pool run."""

    build: str
    os_version: str
    revisions: str
    nodes: int
    verdict: str
    end_of_support: str


@dataclass(frozen=True, slots=True)
class StepView:
    """What is planned for one node, one text a change, or one word where it does not say what.

    ``more`` are the changes that the plan has no room for.
    """

    node: str
    changes: tuple[str, ...]
    more: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightView:
    """What a taint would meet: how many pods on how many nodes, the first of them, and the DaemonSets."""

    taint: str
    nodes: int
    intolerant_pods: int
    pods: tuple[str, ...]
    daemon_sets: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolView:
    """A pool: what is asked of it, and what the operator says of it.

    ``ready`` is the condition Ready, whose reason is the STATE of ``kubectl get``; None before the operator's
    first look. ``planned_nodes`` is None but in DryRun; ``plans_upgrades`` says that the plan has upgrades
    too, which the operator does not do itself. ``content`` is the object itself.
    """

    name: str
    os_version: str
    target_revision: int | None
    mode: str
    created: datetime | None
    generation: int
    observed_generation: int
    nodes: int
    ready_nodes: int
    available_nodes: int
    up_to_date_nodes: int
    misplaced_pods: int
    pressured_nodes: int
    held_nodes: int
    ready: ConditionView | None
    conditions: tuple[ConditionView, ...]
    issues: tuple[IssueView, ...]
    issue_count: int
    builds: tuple[BuildView, ...]
    planned_nodes: int | None
    plans_upgrades: bool
    plan: tuple[StepView, ...]
    preflight: tuple[PreflightView, ...]
    content: Mapping[str, Any]

    @property
    def state(self) -> str:
        """The column STATE of ``kubectl get``."""
        return self.ready.reason if self.ready is not None else ""

    @property
    def notable(self) -> tuple[ConditionView, ...]:
        """The conditions that are worth a person's look, beside Ready, which tells the state."""
        return tuple(each for each in self.conditions if each.is_notable and each.type != ConditionType.READY)

    @property
    def is_observed(self) -> bool:
        """Whether the operator has looked at the pool at all."""
        return self.observed_generation > NOT_OBSERVED


def view_of(content: Mapping[str, Any]) -> PoolView:
    """Read a pool."""
    metadata, spec, status = (mapping(content.get(name)) for name in ("metadata", "spec", "status"))
    system, plan = mapping(spec.get("os")), mapping(status.get("plan"))
    conditions = tuple(sorted(map(_condition, _maps(status, "conditions")), key=_place))
    issues = tuple(map(_issue, _maps(status, "issues")))
    observed = number(status.get("observedGeneration"))
    return PoolView(
        name=text(metadata.get("name")),
        os_version=text(system.get("version")),
        target_revision=number(system.get("targetRevision")),
        mode=text(spec.get("mode")) or Mode.ACTIVE,
        created=moment(metadata.get("creationTimestamp")),
        generation=count(metadata.get("generation")),
        observed_generation=NOT_OBSERVED if observed is None else observed,
        nodes=count(status.get("nodes")),
        ready_nodes=count(status.get("readyNodes")),
        available_nodes=count(status.get("availableNodes")),
        up_to_date_nodes=count(status.get("upToDateNodes")),
        misplaced_pods=count(status.get("misplacedPods")),
        pressured_nodes=count(status.get("pressuredNodes")),
        held_nodes=count(status.get("heldNodes")),
        ready=next((each for each in conditions if each.type == ConditionType.READY), None),
        conditions=conditions,
        issues=issues,
        issue_count=max(count(status.get("issueCount")), len(issues)),
        builds=tuple(map(_build, _maps(status, "builds"))),
        planned_nodes=count(plan.get("totalNodes")) if plan else None,
        plans_upgrades=bool(mapping(plan.get("upgrade"))),
        plan=tuple(map(_step, _maps(plan, "steps"))),
        preflight=tuple(map(_preflight, _maps(plan, "preflight"))),
        content=content,
    )


def _maps(holder: Mapping[str, Any], name: str) -> Iterator[Mapping[str, Any]]:
    return map(mapping, items(holder.get(name)))


def _texts(holder: Mapping[str, Any], name: str) -> tuple[str, ...]:
    return tuple(filter(None, map(text, items(holder.get(name)))))


def _place(condition: ConditionView) -> int:
    """Return what orders conditions: as the reference has them, then those that it does not have."""
    return _ORDER.index(condition.type) if condition.type in _ORDER else len(_ORDER)


def _condition(found: Mapping[str, Any]) -> ConditionView:
    return ConditionView(
        type=text(found.get("type")),
        status=text(found.get("status")),
        reason=text(found.get("reason")),
        message=text(found.get("message")),
        since=moment(found.get("lastTransitionTime")),
    )


def _issue(found: Mapping[str, Any]) -> IssueView:
    names = _texts(found, "nodes")
    return IssueView(
        reason=text(found.get("reason")),
        node_count=max(count(found.get("nodeCount")), len(names)),
        nodes=names,
        since=moment(found.get("since")),
        message=text(found.get("message")),
        fix=text(found.get("fix")),
    )


def _build(found: Mapping[str, Any]) -> BuildView:
    revisions = {each for name in ("minRevision", "maxRevision") if (each := number(found.get(name)))}
    return BuildView(
        build=text(found.get("build")),
        os_version=text(found.get("osVersion")),
        revisions="-".join(map(str, sorted(revisions))),
        nodes=count(found.get("nodes")),
        verdict=text(found.get("verdict")),
        end_of_support=text(found.get("endOfSupport")),
    )


def _step(found: Mapping[str, Any]) -> StepView:
    if text(found.get("action")) == PlanAction.UPGRADE:
        return StepView(text(found.get("node")), (_upgrade(found),))
    changes = tuple(map(_change, _maps(found, "changes")))
    more = max(0, count(found.get("changeCount")) - len(changes))
    return StepView(text(found.get("node")), changes or (text(found.get("reason")),), more)


def _upgrade(found: Mapping[str, Any]) -> str:
    """Write an upgrade that is due: ``upgrade for OSRevision, closed: Capacity``."""
    closed = _texts(found, "closedGates")
    return f"upgrade for {text(found.get('reason'))}" + (
        f", closed: {' and '.join(closed)}" if closed else ""
    )


def _preflight(found: Mapping[str, Any]) -> PreflightView:
    return PreflightView(
        taint=text(found.get("taint")),
        nodes=count(found.get("nodes")),
        intolerant_pods=count(found.get("intolerantPods")),
        pods=_texts(found, "pods"),
        daemon_sets=_texts(found, "daemonSets"),
    )


def _change(found: Mapping[str, Any]) -> str:
    """Write a change of one key: ``label team: payments -> billing``, with what is absent left out."""
    kind, key = text(found.get("kind")).lower(), text(found.get("key"))
    before, after = found.get("from"), found.get("to")
    match isinstance(before, str), isinstance(after, str):
        case True, True:
            return f"change {kind} {key}: {text(before)} -> {text(after)}"
        case True, False:
            return f"remove {kind} {key} ({text(before)})" if before else f"remove {kind} {key}"
        case _:
            return f"add {kind} {key}: {text(after)}" if after else f"add {kind} {key}"
