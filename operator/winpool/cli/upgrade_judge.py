"""How the upgrades of one pool stand: the rules of the operator, run on one reading of the cluster.

Only the operator watches since when the version of the API server is unchanged. What it writes is believed:
``status.controlPlane``, and without it a condition UpgradeAllowed that is up to date and has the gate
ControlPlane as closed. Where no pool says anything, the version counts as unchanged.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from winpool.allowed import mandate_of, refusal_of
from winpool.api.conditions import ConditionType
from winpool.api.upgrade import Gate, Upgrade
from winpool.cli.upgrade_world import snapshot_of
from winpool.features.upgrade.feature import upgrade
from winpool.features.upgrade.plan import upgrade_plan
from winpool.features.upgrade.records import GateFinding, Stand
from winpool.ownership.members import divide

if TYPE_CHECKING:
    from collections.abc import Iterable

    from winpool.api.v1alpha1 import Condition
    from winpool.cli.upgrade_world import Cluster
    from winpool.features.upgrade.plan import UpgradePlan
    from winpool.features.upgrade.records import NodeUpgrade, UpgradeOverview
    from winpool.model.node import Node
    from winpool.model.pool import Pool
    from winpool.ownership.members import Members
    from winpool.support.rows import Row

_REPORTED: Final = GateFinding(
    gate=Gate.CONTROL_PLANE,
    stand=Stand.CLOSED,
    message="The operator reports that the version of the API server is not known, or has changed lately.",
    opens="Wait until the operator has seen one version of the API server for 15 minutes.",
)

_NAMED: Final = re.compile(rf"\b{Gate.CONTROL_PLANE}: ")
"""Where a message of UpgradeAllowed has the gate as closed: one that an override opens has no colon."""


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
    def members(self) -> frozenset[str]:
        """The names of the nodes of the pool."""
        return frozenset(each.name for each in self.nodes)

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
    mandate = mandate_of(pool, is_accepted=not refusal)
    if spec is not None and not is_gated:
        # What is due is judged for every pool, by the default triggers.
        by_default = spec.model_copy(update={"upgrade": Upgrade()})
        snapshot = replace(snapshot, pool=replace(pool, spec=by_default))
    overview = upgrade(snapshot, members, mandate).overview
    is_reported = is_control_plane_closed(cluster.pools)
    if overview is not None and is_reported:
        overview = replace(overview, gates=tuple(map(_as_reported, overview.gates)))
    return Judged(
        pool=pool,
        nodes=tuple(each.node for each in members.ours),
        is_gated=is_gated,
        refusal=refusal,
        assumes_control_plane=is_gated and not cluster.control_plane and not is_reported,
        overview=overview,
        plan=_planned(pool, members, overview) if is_gated else None,
    )


def is_control_plane_closed(pools: Iterable[Pool]) -> bool:
    """Whether the operator reports of one of ``pools`` that the gate ControlPlane is closed, and not why.

    It is the same for all pools. A condition about an earlier spec says nothing. Where the status has the
    version and since when, these are judged, and not what the condition said of them.
    """
    for pool in pools:
        found = _false_now(pool, ConditionType.UPGRADE_ALLOWED)
        if found is None or pool.status.control_plane is not None:
            continue
        if found.reason == Gate.CONTROL_PLANE or _NAMED.search(found.message):
            return True
    return False


def _false_now(pool: Pool, kind: ConditionType) -> Condition | None:
    """Return the condition where it is False, and about the spec as it is."""
    found = pool.status.condition(kind)
    is_now = found is not None and found.observed_generation == pool.generation
    return found if found is not None and is_now and found.status == "False" else None


def _as_reported(found: GateFinding) -> GateFinding:
    return replace(_REPORTED, override=found.override) if found.gate is Gate.CONTROL_PLANE else found


def _reported_refusal(pool: Pool) -> str:
    """Return why the operator refuses this very spec, for reasons that only it knows, such as its rights."""
    found = _false_now(pool, ConditionType.ACCEPTED)
    return found.message if found is not None else ""


def _planned(pool: Pool, members: Members, overview: UpgradeOverview | None) -> UpgradePlan | None:
    if overview is None or pool.spec is None:
        return None
    return upgrade_plan(overview, spec=pool.spec, nodes_of_pool=[each.node for each in members.ours])
