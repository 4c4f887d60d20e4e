"""What upgrades depend on, as one reading of the cluster has it, and the snapshot that the rules decide on.

The operator knows more than one reading can show, such as since when the version of the API server is
unchanged. It writes that into the status of pools with ``spec.upgrade``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from winpool.cli.pool_object import with_pool
from winpool.model.pool import GuardState, KnownUpgrades, OtherPools
from winpool.model.snapshot import Snapshot
from winpool.model.survey import KnownPods
from winpool.ownership.trust import keys_of
from winpool.support.judge import Basis

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from winpool.api.status import ControlPlaneSeen
    from winpool.model.node import Node
    from winpool.model.pool import Pool
    from winpool.model.survey import Survey
    from winpool.support.rows import Row

UNCHANGED: Final = timedelta(days=1)
"""For how long the version of the API server counts as unchanged where that is not known: longer than any
gate waits."""

VERSION_LENGTH: Final = 128
"""Characters of a version that a status keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What one reading has found.

    ``nodes`` are all Windows nodes and ``unread`` sentences about those that could not be read. ``stranger``
    is the node that was asked for by its name and is no Windows node. ``version`` is that of the API server.
    ``surveys`` say what runs on the nodes of pools, by the UID of the pool, and ``pods_problem`` why that is
    not known; ``forbidden`` says that a right is missing.
    """

    pools: tuple[Pool, ...]
    nodes: tuple[Node, ...]
    version: str
    now: datetime
    unread: tuple[str, ...] = ()
    stranger: Node | None = None
    surveys: Mapping[str, Survey] = field(default_factory=dict)
    pods_problem: str = ""
    forbidden: bool = False

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

    def only(self, node: Node) -> Cluster:
        """Return the cluster as if it had no other node than ``node``."""
        return replace(self, nodes=(node,))

    def planned(self, pool: Pool) -> Cluster:
        """Return the cluster with ``pool`` in the place of the one of that name."""
        return replace(self, pools=with_pool(self.pools, pool))


def snapshot_of(cluster: Cluster, pool: Pool, *, rows: tuple[Row, ...] = ()) -> Snapshot:
    """Return what the rules decide on for ``pool``; ``rows`` are those of the operator's settings.

    Whether the guard is in force is not known: nothing here depends on it.
    """
    return Snapshot(
        pool=pool,
        nodes=cluster.nodes,
        now=cluster.now,
        others=OtherPools(
            rivals=tuple(each for each in cluster.pools if each.uid != pool.uid),
            seen={each.uid: keys_of(each) for each in cluster.pools},
        ),
        pods=KnownPods(
            survey=cluster.surveys.get(pool.uid),
            problem=cluster.pods_problem,
            forbidden=cluster.pods_problem if cluster.forbidden else "",
        ),
        support=Basis(control_plane=cluster.version, cluster_rows=rows),
        guard=GuardState(is_unknown=True),
        upgrades=KnownUpgrades(control_plane_since=cluster.control_plane_since),
    )
