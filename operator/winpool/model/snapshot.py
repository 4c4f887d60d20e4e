"""Holds all that a pass decides on: a pool, all nodes, and what else is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from winpool.api.crd import FieldPath
from winpool.api.status import MAX_SLOTS
from winpool.model.node import Node, NodeCondition
from winpool.model.node_pods import NOTHING_EVICTED, KnownEvictions
from winpool.model.pool import Attempts, GuardState, KnownIssue, KnownUpgrades, OtherPools, Pool
from winpool.model.pressure import NOTHING_KNOWN, KnownMemory
from winpool.model.rollout import NO_FORCE, NOTHING_READ, ForceTerms, KnownRollout
from winpool.model.survey import KnownPods
from winpool.support.judge import Basis


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that a pass of one pool decides on.

    ``nodes`` are all Windows nodes, and ``selected_by`` has the UIDs of the pools that select each, by its
    name; a pool that is being deleted selects none. ``strays`` are those that were in the pool and are none
    (any more), as of the last list of them; None before the first. ``attempts`` is the outcome of earlier
    writes to nodes,
    ``written_conditions`` are the conditions that this process last wrote to a node, by its UID.
    ``missing_permission`` says which right the operator lacks according to the API server; empty for none.
    ``other_operator`` is who else writes to nodes and pools; empty for no one. None where that is not known:
    then what the status says of it stays.
    ``lacking_fields`` are those of spec and status that the CRD in the cluster lacks: no status can have
    them.
    ``known_issues`` are all that this process has found when it last wrote the status, the worst first.
    ``most_slots`` is how many slots the pool may have beside those of all others, by the operator's settings.
    ``operator_node`` is the name of the node that the operator runs on, empty where it is not known.
    """

    pool: Pool
    nodes: tuple[Node, ...]
    now: datetime
    selected_by: Mapping[str, frozenset[str]]
    others: OtherPools = field(default_factory=OtherPools)
    pods: KnownPods = field(default_factory=KnownPods)
    support: Basis = field(default_factory=Basis)
    guard: GuardState = field(default_factory=GuardState)
    memory: KnownMemory = NOTHING_KNOWN
    evictions: KnownEvictions = NOTHING_EVICTED
    rollout: KnownRollout = NOTHING_READ
    force: ForceTerms = NO_FORCE
    upgrades: KnownUpgrades = field(default_factory=KnownUpgrades)
    attempts: Attempts = field(default_factory=Attempts)
    strays: tuple[Node, ...] | None = ()
    written_conditions: Mapping[str, tuple[NodeCondition, ...]] = field(default_factory=dict)
    missing_permission: str = ""
    other_operator: str | None = ""
    lacking_fields: tuple[FieldPath, ...] = ()
    known_issues: tuple[KnownIssue, ...] = ()
    operator_node: str = ""
    most_slots: int = MAX_SLOTS
