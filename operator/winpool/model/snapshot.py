"""Holds all that a pass decides on: a pool, all nodes, and what else is known, as the lists of their pods.

Evidence has to be younger than what it permits (P4). So the age of a list of pods counts from when it
*started*, and one that started before a taint was gone says nothing of the pods that were bound since.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec

from winpool.api.crd import FieldPath
from winpool.api.status import MAX_SLOTS
from winpool.model.node import Node, NodeCondition
from winpool.model.node_pods import NOTHING_EVICTED, KnownEvictions
from winpool.model.pool import Attempts, GuardState, KnownIssue, KnownUpgrades, OtherPools, Pool
from winpool.model.pressure import NOTHING_KNOWN, KnownMemory
from winpool.model.rollout import NO_FORCE, NOTHING_READ, ForceTerms, KnownRollout
from winpool.model.survey import KnownPods, Survey
from winpool.support.judge import Basis


class Snapshot(msgspec.Struct, frozen=True):
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
    others: OtherPools = msgspec.field(default_factory=OtherPools)
    pods: KnownPods = msgspec.field(default_factory=KnownPods)
    support: Basis = msgspec.field(default_factory=Basis)
    guard: GuardState = msgspec.field(default_factory=GuardState)
    memory: KnownMemory = NOTHING_KNOWN
    evictions: KnownEvictions = NOTHING_EVICTED
    rollout: KnownRollout = NOTHING_READ
    force: ForceTerms = NO_FORCE
    upgrades: KnownUpgrades = msgspec.field(default_factory=KnownUpgrades)
    attempts: Attempts = msgspec.field(default_factory=Attempts)
    strays: tuple[Node, ...] | None = ()
    written_conditions: Mapping[str, tuple[NodeCondition, ...]] = msgspec.field(default_factory=dict)
    missing_permission: str = ""
    other_operator: str | None = ""
    lacking_fields: tuple[FieldPath, ...] = ()
    known_issues: tuple[KnownIssue, ...] = ()
    operator_node: str = ""
    most_slots: int = MAX_SLOTS


FRESH_SECONDS: Final = 60.0
"""How long after its start a list permits writes: adding NoExecute taints, or removing startup taints. A list
of 150,000 pods takes half of this time, writes to 5,000 nodes a quarter."""

NODE_LIST_FRESH_SECONDS: Final = 15.0
"""The same for a list of the pods of one node, which is made right before the write. Its answer may take ten
seconds."""

MOST_NODE_LISTS: Final = 16
"""The pods of so many nodes of a pool are listed node by node; for more nodes, all pods are listed. That is
300 requests in a cluster of 150,000 pods, and one request in small clusters."""


class Evidence:
    """Answers for the nodes of one pool, for one pass."""

    def __init__(self, snapshot: Snapshot) -> None:
        pool, survey = snapshot.pool, snapshot.pods.survey
        self._generation = pool.generation
        self._survey = survey if survey is not None and survey.pool_uid == pool.uid else None
        of_nodes = snapshot.pods.node_surveys
        self._of_nodes = {name: each for name, each in of_nodes.items() if each.pool_uid == pool.uid}
        self._taint_absent_since = snapshot.pods.taint_absent_since
        self._now = snapshot.now

    def latest(self, node: Node) -> Survey | None:
        """Return the newest survey that saw ``node``, made for any spec."""
        return _newest(node, self._survey, self._of_nodes.get(node.name))

    def of(self, node: Node) -> Survey | None:
        """Return the newest survey that saw ``node``, and was made for the spec as it is now."""
        return _newest(node, *self._of_this_spec(node))

    def of_joining(self, node: Node) -> Survey | None:
        """Return the newest of those surveys that was asked what has to be Ready on ``node``.

        One that began before the validation of the node was not asked that, and does not replace one that
        was.
        """
        asked = (each if each and each.asked_readiness(node) else None for each in self._of_this_spec(node))
        return _newest(node, *asked)

    def covered_lately(self, node: Node) -> bool:
        """Whether a recent survey, made for the spec as it is now, covers ``node``."""
        survey = self.of(node)
        return survey is not None and survey.covers(node) and is_fresh(survey, now=self._now)

    def _of_this_spec(self, node: Node) -> tuple[Survey | None, Survey | None]:
        """Return the survey of all pods and that of the node, as far as they were made for this spec."""
        survey, own = self._survey, self._of_nodes.get(node.name)
        return (
            survey if survey is not None and survey.generation == self._generation else None,
            own if own is not None and own.generation == self._generation else None,
        )

    def is_own(self, survey: Survey, node: Node) -> bool:
        """Whether ``survey`` is of ``node`` alone."""
        return survey is self._of_nodes.get(node.name)

    def permits(self, survey: Survey, node: Node) -> bool:
        """Whether ``survey`` is recent enough to add a NoExecute taint to ``node``.

        It has to have started after the taint was gone, as far as this process has seen.
        """
        taint_absent_since = self._taint_absent_since.get(node.uid)
        if taint_absent_since is None or survey.began <= taint_absent_since:
            return False
        seconds = NODE_LIST_FRESH_SECONDS if self.is_own(survey, node) else FRESH_SECONDS
        return is_fresh(survey, now=self._now, seconds=seconds)

    def all(self) -> Iterator[Survey]:
        """Yield all surveys, the one of all pods first."""
        if self._survey is not None:
            yield self._survey
        yield from self._of_nodes.values()

    def current(self) -> Iterator[Survey]:
        """Yield those that were made for the spec as it is now."""
        return (each for each in self.all() if each.generation == self._generation)


def _newest(node: Node, survey: Survey | None, own: Survey | None) -> Survey | None:
    if own is not None and own.saw(node) and not (survey and survey.began > own.began and survey.saw(node)):
        return own
    return survey if survey is not None and survey.saw(node) else None


def current_survey(snapshot: Snapshot) -> Survey | None:
    """Return the last survey of all pods, if it was made for the spec as it is now."""
    survey, pool = snapshot.pods.survey, snapshot.pool
    if survey is None or survey.pool_uid != pool.uid or survey.generation != pool.generation:
        return None
    return survey


def is_too_slow(survey: Survey | None) -> bool:
    """Whether a list of all pods took longer than it permits writes; the next one will, too."""
    return survey is not None and survey.finished - survey.started >= timedelta(seconds=FRESH_SECONDS)


def is_fresh(survey: Survey, *, now: datetime, seconds: float = FRESH_SECONDS) -> bool:
    """Whether ``survey`` is recent enough to act on. One from the future is not: a clock was set back."""
    return timedelta(0) <= now - survey.started <= timedelta(seconds=seconds)
