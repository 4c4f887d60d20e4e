"""The brake: which taints may be put on a node now, and which have to wait or are held back.

- Before a taint is added or its value changed, all pods are looked at once for this generation of the
  spec, so that people are told beforehand what it will meet (``report.preflight``).
- NoExecute has pods deleted that do not tolerate it, past every PodDisruptionBudget. With ``Hold`` it goes
  only on a node of which a look at all pods, finished within ``FRESH_SECONDS``, shows no such pod. That is
  so for repairs as well: pods may have come while the taint was off. What is not known is no permission (P4).
- With ``Delete`` the admin has chosen that those pods are deleted.

Between the look and the write a pod can still be bound: the API server offers no precondition on it. A
NoSchedule taint with the same key, put before, keeps such pods away.
https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from winpool.api.syntax import NO_EXECUTE
from winpool.contract.edits import MISMATCH_TAINT
from winpool.snapshot import Taint

if TYPE_CHECKING:
    from datetime import datetime

    from winpool.api.v1alpha1 import WindowsNodePoolSpec
    from winpool.contract.record import Record, TaintIdentity
    from winpool.snapshot import Node, Snapshot
    from winpool.survey import Survey

FRESH_SECONDS: Final = 60.0
"""How long a look at all pods permits to act on it: to put NoExecute taints, or to take startup taints off.
Writing to 5,000 nodes takes half of it."""


@dataclass(frozen=True, slots=True)
class Held:
    """The taints that are not to be put on a node now.

    ``waiting`` need a look at all pods first; ``intolerant`` would have pods of the node deleted. With
    ``holds_all`` the rest waits with them, so that a node is written once: the look is a moment away. With
    ``is_stale`` nothing is held, but the look is too old to write by: the age decides when to write, not what
    is reported.
    """

    waiting: frozenset[TaintIdentity] = frozenset()
    intolerant: frozenset[TaintIdentity] = frozenset()
    holds_all: bool = False
    is_stale: bool = False
    asks: bool = False
    """Whether a look soon may change that."""

    @property
    def all(self) -> frozenset[TaintIdentity]:
        """All of them."""
        return self.waiting | self.intolerant


NOTHING_HELD: Final = Held()


class Brake:
    """Answers for the nodes of one pool, for one pass."""

    def __init__(self, snapshot: Snapshot, spec: WindowsNodePoolSpec) -> None:
        self._taints = tuple(Taint(each.key, each.effect, each.value) for each in spec.taints)
        self._holding = frozenset(
            each.identity for each in spec.taints if each.effect == NO_EXECUTE and not each.deletes_pods
        )
        self._survey = current_survey(snapshot)
        self._is_coming = self._survey is None and not snapshot.pods_problem
        self._is_fresh = self._survey is not None and is_fresh(self._survey, now=snapshot.now)

    def hold(self, node: Node, record: Record | None) -> Held:
        """Return which of the spec's taints are not to be put on ``node``, whose ``record`` is ours."""
        standing = {taint.identity: taint.value for taint in node.taints}
        missing = [each for each in self._taints if standing.get(each.identity) != each.value]
        if not missing:
            return NOTHING_HELD
        survey = self._survey
        waiting: set[TaintIdentity] = set()
        intolerant: set[TaintIdentity] = set()
        holds_all = is_stale = False
        for taint in missing:
            own = record.taints.get(taint.identity) if record else None
            is_repair = own is not None and own.set == taint.value
            is_known = survey is not None and (taint.effect != NO_EXECUTE or survey.covers(node))
            if is_repair and taint.effect != NO_EXECUTE:
                continue
            if not is_known:
                waiting.add(taint.identity)
                holds_all = holds_all or (self._is_coming and not is_repair)
            elif taint.identity in self._holding and survey is not None:
                if self._meets(taint, node, survey):
                    intolerant.add(taint.identity)  # until a look shows otherwise, however old this one gets
                else:
                    is_stale = is_stale or not self._is_fresh
        # A node with a pod that cannot be read stays unknown, however often one looks.
        asks = is_stale or (bool(waiting) and not (survey and node.name in survey.unreadable))
        return Held(
            frozenset(waiting), frozenset(intolerant), holds_all=holds_all, is_stale=is_stale, asks=asks
        )

    def hold_mismatch(self, held: Held) -> Held:
        """Return ``held`` with the mismatch taint, which waits for the first look like any other."""
        if self._survey is not None:
            return held
        return replace(
            held,
            waiting=held.waiting | {MISMATCH_TAINT},
            holds_all=held.holds_all or self._is_coming,
            asks=True,
        )

    @staticmethod
    def _meets(taint: Taint, node: Node, survey: Survey) -> bool:
        found = survey.intolerant_of(taint)
        return found is not None and survey.covers(node) and node.name in found.nodes


def current_survey(snapshot: Snapshot) -> Survey | None:
    """Return what the last look at all pods found, if it was made for the spec as it is now."""
    survey, pool = snapshot.survey, snapshot.pool
    if survey is None or survey.pool_uid != pool.uid or survey.generation != pool.generation:
        return None
    return survey


def is_fresh(survey: Survey, *, now: datetime) -> bool:
    """Whether ``survey`` is young enough to act on. Not younger than now: a clock may have been set back."""
    return timedelta(0) <= now - survey.finished <= timedelta(seconds=FRESH_SECONDS)
