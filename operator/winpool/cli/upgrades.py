"""Reads through kubectl what upgrades depend on, and judges them by the rules of the operator.

It reads the pools, all Windows nodes and the version of the API server; where a pool has ``spec.upgrade``,
also all pods, PodDisruptionBudgets and RuntimeClasses. Two things only the operator knows, and they are taken
from what it reports. One is why it refuses a spec. The other is since when the version of the API server is
unchanged: from ``status.controlPlane``, or from a condition UpgradeAllowed about the newest spec that has the
gate ControlPlane as closed. Where no pool reports it, the version counts as unchanged.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from winpool.api.conditions import ConditionType
from winpool.api.spec import WindowsNodePoolSpec
from winpool.api.status import MAX_SLOTS, Condition, ControlPlaneSeen
from winpool.api.upgrade import Gate, Upgrade
from winpool.cli.kubectl import Kubectl, KubectlError, NotAskedError, complete, decoded, known
from winpool.cli.manifests import without_nulls
from winpool.cli.parsing import UsageError
from winpool.cli.reader import leader_problem, list_nodes, read_pools, read_version
from winpool.decide import allowed_actions, refusal_of
from winpool.features.contract.taints import question_of
from winpool.features.upgrade.feature import upgrade
from winpool.features.upgrade.plan import UpgradePlan, upgrade_plan
from winpool.features.upgrade.records import CAPPED, GateFinding, NodeUpgrade, Stand, UpgradeOverview
from winpool.kube.budgets import BUDGETS
from winpool.kube.listers import RUNTIME_CLASSES
from winpool.kube.nodes import WINDOWS_SELECTOR
from winpool.kube.pods import BOUND, PODS_PATH, decode_pod_page, node_request
from winpool.model.budgets import BudgetIndex
from winpool.model.node_pods import KnownEvictions, NodePods
from winpool.model.pool import GuardState, KnownUpgrades, OtherPools, Pool, read_pool
from winpool.model.rollout import NOTHING_READ, ForceTerms, KnownRollout
from winpool.model.snapshot import Snapshot
from winpool.model.survey import KnownPods, PoolQuestion, Survey
from winpool.model.surveyor import Surveyor, work_nodes
from winpool.ownership.members import Selections, divide
from winpool.ownership.trust import keys_of
from winpool.support.data import DataError
from winpool.support.judge import Basis
from winpool.support.matrix import built_in
from winpool.support.rows import Row, read_rows

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from winpool.model.node import Node


UNCHANGED: Final = timedelta(days=1)
"""For how long the version of the API server counts as unchanged where that is not known: longer than any
gate waits."""

VERSION_LENGTH: Final = 128
"""Characters of a version that a status keeps."""

_NOT_APPLIED: Final = "not applied: "
"""Begins the UID of a pool that is not in the cluster. No UID has a space, so no record names it."""

_REPORTED: Final = GateFinding(
    gate=Gate.CONTROL_PLANE,
    stand=Stand.CLOSED,
    message="The operator reports that the version of the API server is not known, or has changed lately.",
    opens="Wait until the operator has seen one version of the API server for 15 minutes.",
)

_NAMED: Final = re.compile(rf"\b{Gate.CONTROL_PLANE}: ")
"""Where a message of UpgradeAllowed has the gate as closed: one that an override opens has no colon."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the plugin has read of nodes that the operator upgrades itself, or is about to.

    ``pods`` are by the UIDs of the nodes. ``problems`` say what could not be read, and why.
    """

    pods: Mapping[str, NodePods] = field(default_factory=dict)
    facts: KnownRollout = NOTHING_READ
    problems: tuple[str, ...] = ()


NO_EVIDENCE: Final = Evidence()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What one reading has found.

    ``nodes`` are all Windows nodes and ``unread`` sentences about those that could not be read. ``stranger``
    is the node that was asked for by its name and is no Windows node. ``version`` is that of the API server.
    ``leader_problem`` says why no operator is known to lead; empty where one does. ``surveys`` say what runs
    on the nodes of pools, by the UID of the pool, and ``pods_problem`` why that is not known; ``forbidden``
    says that a right is missing. ``evidence`` is about single nodes.
    """

    pools: tuple[Pool, ...]
    nodes: tuple[Node, ...]
    version: str
    now: datetime
    unread: tuple[str, ...] = ()
    stranger: Node | None = None
    leader_problem: str = ""
    surveys: Mapping[str, Survey] = field(default_factory=dict)
    pods_problem: str = ""
    forbidden: bool = False
    evidence: Evidence = NO_EVIDENCE

    def pool(self, name: str) -> Pool | None:
        """Return the pool of that name; None where there is none."""
        return next((each for each in self.pools if each.name == name), None)

    def node(self, name: str) -> Node | None:
        """Return the Windows node of that name; None where there is none."""
        return next((each for each in self.nodes if each.name == name), None)

    @property
    def control_plane(self) -> tuple[ControlPlaneSeen, ...]:
        """What pools say of the version of the API server, by the operator that wrote their status."""
        found = (each.status.control_plane for each in self.pools)
        return tuple(each for each in found if each is not None)

    @property
    def control_plane_since(self) -> datetime | None:
        """Since when the version of the API server is unchanged; None where the operator saw another one.

        Where no pool says so, it counts as unchanged for a day.
        """
        if not self.control_plane:
            return self.now - UNCHANGED
        same = [each.since for each in self.control_plane if each.version == self.version[:VERSION_LENGTH]]
        return max(same, default=None)

    def planned(self, pool: Pool) -> Cluster:
        """Return the cluster with ``pool`` in the place of the one of that name."""
        others = [each for each in self.pools if each.name != pool.name]
        return dataclasses.replace(self, pools=tuple(sorted((*others, pool), key=lambda each: each.name)))


def read_cluster(kubectl: Kubectl, plans: Callable[[Cluster], Sequence[Pool]], *, node: str = "") -> Cluster:
    """Return what the cluster has.

    ``plans`` gets what was read of pools and nodes, and returns the pools that are planned: of those with
    ``spec.upgrade`` the pods are read too. What it raises ends the reading. ``node`` is the name of a node
    that is read also where it is no Windows node.
    Raises NotAskedError where kubectl cannot ask, or there is no right to list pools or nodes. That pods
    cannot be listed is noted in the result.
    """
    pools = read_pools(kubectl)
    listing = kubectl.begin(lambda: list_nodes(kubectl, WINDOWS_SELECTOR))
    version = kubectl.begin(lambda: read_version(kubectl))
    leading = kubectl.begin(lambda: _leader_problem(kubectl))
    nodes = listing.result()
    cluster = Cluster(
        pools=pools,
        nodes=nodes.nodes,
        unread=nodes.unread,
        version=version.result(),
        leader_problem=leading.result(),
        now=datetime.now(UTC),
    )
    if node and cluster.node(node) is None:
        # A list needs no other right than the one above.
        cluster = dataclasses.replace(
            cluster, stranger=next(iter(list_nodes(kubectl, name=node).nodes), None)
        )
    wanted = [each for each in plans(cluster) if each.spec is not None and each.spec.upgrade is not None]
    questions = [each for pool in wanted if (each := question_of(pool, cluster.nodes, now=cluster.now))]
    return _with_pods(kubectl, cluster, questions) if questions else cluster


def _leader_problem(kubectl: Kubectl) -> str:
    """Return why no operator is known to lead; empty where one does."""
    said, problem = known(lambda: leader_problem(kubectl))
    return f"Whether the operator runs is not known: {problem}." if said is None else said


def _with_pods(kubectl: Kubectl, cluster: Cluster, questions: Sequence[PoolQuestion]) -> Cluster:
    """Return ``cluster`` with what runs on its nodes, or with why that is not known."""
    budgets, problem = read_budgets(kubectl)
    try:
        surveys, unlisted = complete(lambda: _surveys(kubectl, questions, budgets))
    except NotAskedError as error:
        is_forbidden = isinstance(error, KubectlError) and error.reason == "Forbidden"
        return dataclasses.replace(cluster, pods_problem=str(error), forbidden=is_forbidden)
    workloads = [each for survey in surveys.values() for each in (survey.workloads or {}).values()]
    if not all(each.runtime_classes_known for each in workloads):
        problem = problem or unlisted
    return dataclasses.replace(cluster, surveys=surveys, now=datetime.now(UTC), pods_problem=problem)


def _surveys(
    kubectl: Kubectl, questions: Sequence[PoolQuestion], budgets: BudgetIndex | None
) -> tuple[Mapping[str, Survey], str]:
    """Return what runs on the nodes of each pool, by its UID, and why RuntimeClasses are not known, if so.

    No pod is kept. Raises NotAskedError.
    """
    surveyor = Surveyor(questions, budgets=budgets)
    started = datetime.now(UTC)
    work, unreadable = work_nodes(questions), set[str]()
    pages = kubectl.pages(PODS_PATH, lambda body: decode_pod_page(body, with_work=work), fieldSelector=BOUND)
    for page in pages:
        for pod in page.pods:
            surveyor.see(pod)
        for lost in page.unreadable:
            if not lost.node:
                raise NotAskedError(f"a pod cannot be read, and may be on any node: {lost}")
            unreadable.add(lost.node)
    # After the pods, as in the operator.
    classes, unlisted = known(
        lambda: dict(kubectl.objects(RUNTIME_CLASSES.collection, RUNTIME_CLASSES.decode))
    )
    finished = datetime.now(UTC)
    surveys = surveyor.finish(
        started=started, finished=finished, runtime_classes=classes, unreadable=unreadable
    )
    return surveys, unlisted


def with_pods_of(kubectl: Kubectl, cluster: Cluster, node: Node, *, pool: Pool) -> Cluster:
    """Return ``cluster`` with what ``pool`` asks of the pods of ``node``, or with why that is not known."""
    started = datetime.now(UTC)
    question = question_of(pool, [node], now=started)
    if question is None:
        return cluster
    surveyor = Surveyor([dataclasses.replace(question, workloads=False)])
    page, problem = known(lambda: decoded(decode_pod_page, kubectl.get(node_request(node.name).path)))
    if page is None:
        return dataclasses.replace(cluster, pods_problem=problem)
    for pod in page.pods:
        surveyor.see(pod)
    finished = datetime.now(UTC)
    unreadable = (node.name,) if page.unreadable else ()
    surveys = surveyor.finish(started=started, finished=finished, unreadable=unreadable)
    return dataclasses.replace(cluster, surveys={**cluster.surveys, **surveys}, now=finished)


def read_budgets(kubectl: Kubectl) -> tuple[BudgetIndex | None, str]:
    """Return all PodDisruptionBudgets, or None and why they are not known."""
    return known(lambda: BudgetIndex(kubectl.objects(BUDGETS.collection, BUDGETS.decode)))


def snapshot_of(cluster: Cluster, pool: Pool, *, rows: tuple[Row, ...] = ()) -> Snapshot:
    """Return what the rules decide on for ``pool``; ``rows`` are those of the operator's settings.

    Whether the guard is in force is not known: what records on nodes count for does not depend on it here.
    """
    rivals = tuple(each for each in cluster.pools if each.uid != pool.uid)
    problem = cluster.pods_problem
    forbidden = problem if cluster.forbidden else ""
    return Snapshot(
        pool=pool,
        nodes=cluster.nodes,
        now=cluster.now,
        selected_by=Selections().of_all(cluster.nodes, (*rivals, pool)),
        others=OtherPools(rivals=rivals, seen={each.uid: keys_of(each) for each in cluster.pools}),
        pods=KnownPods(survey=cluster.surveys.get(pool.uid), problem=problem, forbidden=forbidden),
        support=Basis(control_plane=cluster.version, cluster_rows=rows),
        guard=GuardState(is_unknown=True),
        upgrades=KnownUpgrades(control_plane_since=cluster.control_plane_since),
        evictions=KnownEvictions(pods=cluster.evidence.pods),
        rollout=cluster.evidence.facts,
        # Where the operator does not allow it, it reports that it does not accept the spec.
        force=ForceTerms(is_allowed=True),
        most_slots=_most_slots(pool),
    )


def _most_slots(pool: Pool) -> int:
    """Return how many slots the pool may have: as many as it has, where the operator reports a limit."""
    found = _current(pool, ConditionType.UPGRADE_ALLOWED)
    if found is None or CAPPED not in found.message:
        return MAX_SLOTS
    return sum(each.is_held for each in pool.status.slots)


def planned_pool(manifest: Mapping[str, Any], pools: Iterable[Pool]) -> Pool:
    """Return the pool that there would be after ``kubectl apply`` of ``manifest``, a valid one.

    The pool of that name gets the spec of the manifest, as its next generation where that differs. A pool
    that the cluster does not have is younger than all others.
    """
    spec = WindowsNodePoolSpec.model_validate(without_nulls(manifest["spec"]))
    metadata = manifest["metadata"]
    name = str(metadata.get("name") or metadata.get("generateName"))
    new = read_pool({"metadata": {"name": name, "uid": f"{_NOT_APPLIED}{name}"}})
    before = next((each for each in pools if each.name == name), new)
    return replace(before, spec=spec, refusal="", generation=before.generation + (before.spec != spec))


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """How the upgrades of one pool stand.

    ``refusal`` says why the operator does not act on the spec, with the fix; empty where it does.
    ``is_gated`` says whether the spec has ``upgrade``: without it nodes are due, and no gate is judged.
    ``assumes_control_plane`` says that no one knows whether the control plane has changed lately.
    ``overview`` and ``plan`` are None where the spec cannot be read, and where the pool is being deleted.
    """

    pool: Pool
    nodes: tuple[Node, ...]
    is_gated: bool
    refusal: str = ""
    assumes_control_plane: bool = False
    overview: UpgradeOverview | None = None
    plan: UpgradePlan | None = None

    @property
    def is_ours(self) -> bool:
        """Whether the operator upgrades the nodes itself."""
        spec = self.pool.spec
        return spec is not None and spec.upgrade is not None and spec.upgrade.is_ours

    @property
    def allowed(self) -> str | None:
        """The status of UpgradeAllowed; None where that is not about the newest spec, or not there."""
        found = _current(self.pool, ConditionType.UPGRADE_ALLOWED)
        return found.status if found is not None else None

    def due(self, node: Node) -> NodeUpgrade | None:
        """Return what is due on ``node``; None where nothing is, or where it is not known."""
        if self.overview is None:
            return None
        return next((each for each in self.overview.due if each.node.name == node.name), None)


def judged(cluster: Cluster, pool: Pool, *, rows: tuple[Row, ...] = ()) -> Judged:
    """Judge ``pool``. ``rows`` of the support matrix are those of the operator's settings."""
    spec = pool.spec
    is_gated = spec is not None and spec.upgrade is not None
    snapshot = snapshot_of(cluster, pool, rows=rows)
    members = divide(snapshot)
    refusal = refusal_of(snapshot, members).message or _reported_refusal(pool)
    allowed = allowed_actions(pool, is_accepted=not refusal)
    if spec is not None and not is_gated:
        # What is due is judged for every pool, by the default triggers.
        by_default = spec.model_copy(update={"upgrade": Upgrade()})
        snapshot = replace(snapshot, pool=replace(pool, spec=by_default))
    overview = upgrade(replace(snapshot, guard=_IN_FORCE), members, allowed).overview
    is_reported = is_control_plane_closed(cluster.pools)
    if overview is not None and is_reported:
        overview = replace(overview, gates=tuple(map(_as_reported, overview.gates)))
    ours = tuple(each.node for each in members.ours)
    plan = None
    if overview is not None and spec is not None and is_gated:
        plan = upgrade_plan(overview, spec=spec, nodes_of_pool=ours)
    return Judged(
        pool=pool,
        nodes=ours,
        is_gated=is_gated,
        refusal=refusal,
        assumes_control_plane=is_gated and not cluster.control_plane and not is_reported,
        overview=overview,
        plan=plan,
    )


_IN_FORCE: Final = GuardState(identity="assumed")
"""Where the guard is missing, the operator reports that it does not accept the spec."""


def is_control_plane_closed(pools: Iterable[Pool]) -> bool:
    """Whether the operator reports of one of ``pools`` that the gate ControlPlane is closed, and not why.

    It is the same for all pools. A condition about an earlier spec says nothing. Where the status has the
    version and since when, these are judged, and not what the condition said of them.
    """
    for pool in pools:
        found = _current(pool, ConditionType.UPGRADE_ALLOWED)
        if found is None or found.status != "False" or pool.status.control_plane is not None:
            continue
        if found.reason == Gate.CONTROL_PLANE or _NAMED.search(found.message):
            return True
    return False


def _current(pool: Pool, kind: ConditionType) -> Condition | None:
    """Return the condition where it is about the spec as it is."""
    found = pool.status.condition(kind)
    return found if found is not None and found.observed_generation == pool.generation else None


def _as_reported(found: GateFinding) -> GateFinding:
    is_watched = found.gate is Gate.CONTROL_PLANE
    return msgspec.structs.replace(_REPORTED, override=found.override) if is_watched else found


def _reported_refusal(pool: Pool) -> str:
    """Return why the operator refuses this very spec, for reasons that only it knows, such as its rights."""
    found = _current(pool, ConditionType.ACCEPTED)
    return found.message if found is not None and found.status == "False" else ""


def rows_of_settings(given: argparse.Namespace) -> tuple[Row, ...]:
    """Return the rows of ``--support-matrix-file``. Raises UsageError."""
    name = given.support_matrix_file
    if name is None:
        return ()
    try:
        return read_rows(Path(name).read_text(encoding="utf-8"), matrix=built_in())
    except (DataError, UnicodeDecodeError, OSError) as error:
        said = "not UTF-8" if isinstance(error, UnicodeDecodeError) else getattr(error, "strerror", error)
        raise UsageError(f"--support-matrix-file {name}: {said}") from None
