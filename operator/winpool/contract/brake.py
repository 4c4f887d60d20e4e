"""The brake: which taints may be put on a node now, and which have to wait or are held back.

- Before a taint is added or its value changed, the pods that it may meet are looked at once for this
  generation of the spec, so that people are told beforehand (``report.preflight``): all pods, or those of the
  node alone.
- NoExecute has pods deleted that do not tolerate it, past every PodDisruptionBudget. With ``Hold`` it goes
  only on a node of which a look that started after the taint was gone, and lately, shows no such pod
  (``evidence``). That is so for repairs as well: pods may have come while the taint was off. What is not
  known is no permission (P4).
- With ``Delete`` the admin has chosen that those pods are deleted.

Between the look and the write a pod can still be bound: the API server offers no precondition on it. So the
look is made right before the write, for few nodes by each node alone. A NoSchedule taint with the same key,
put before, keeps such pods away.
https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from winpool.api.node_keys import MISMATCH_TAINT
from winpool.api.syntax import NO_EXECUTE
from winpool.objects.node import Taint
from winpool.pods.evidence import Evidence, current_survey

if TYPE_CHECKING:
    from winpool.api.v1alpha1 import WindowsNodePoolSpec
    from winpool.objects.node import Node
    from winpool.ownership.record import Record, TaintIdentity
    from winpool.pods.survey import Survey
    from winpool.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Held:
    """The taints that are not to be put on a node now.

    ``waiting`` need a look at pods first; ``intolerant`` would have pods of the node deleted. With
    ``holds_all`` the rest waits with them, so that a node is written once: the look is a moment away. With
    ``is_stale`` nothing is held, but the look is too old to write by: the age decides when to write, not what
    is reported. ``wants_own_look`` says the same of a look at all pods that is young: it has to do where many
    nodes wait, or where the own look of the node goes on failing.
    """

    waiting: frozenset[TaintIdentity] = frozenset()
    intolerant: frozenset[TaintIdentity] = frozenset()
    holds_all: bool = False
    is_stale: bool = False
    wants_own_look: bool = False
    asks: bool = False
    """Whether a look soon may change that."""

    @property
    def all(self) -> frozenset[TaintIdentity]:
        """All of them."""
        return self.waiting | self.intolerant


NOTHING_HELD: Final = Held()


class Brake:
    """Answers for the nodes of one pool, for one pass."""

    def __init__(self, snapshot: Snapshot, spec: WindowsNodePoolSpec, evidence: Evidence) -> None:
        self._taints = tuple(Taint(each.key, each.effect, each.value) for each in spec.taints)
        self._holding = frozenset(
            each.identity for each in spec.taints if each.effect == NO_EXECUTE and not each.deletes_pods
        )
        self._evidence = evidence
        self._is_told = current_survey(snapshot) is not None
        self._is_failing = bool(snapshot.pods.problem)
        self._look_problems = snapshot.pods.look_problems

    def hold(self, node: Node, record: Record | None) -> Held:
        """Return which of the spec's taints are not to be put on ``node``, whose ``record`` is ours."""
        standing = {taint.identity: taint.value for taint in node.taints}
        missing = [each for each in self._taints if standing.get(each.identity) != each.value]
        if not missing:
            return NOTHING_HELD
        look = self._evidence.of(node)
        covering = look if look is not None and look.covers(node) else None
        waiting: set[TaintIdentity] = set()
        intolerant: set[TaintIdentity] = set()
        holds_all = is_stale = wants_own_look = False
        problem = self._look_problems.get(node.uid)
        for taint in missing:
            own = record.taints.get(taint.identity) if record else None
            is_repair = own is not None and own.set == taint.value
            if taint.effect != NO_EXECUTE and (is_repair or self._is_told):
                continue
            if covering is None:
                waiting.add(taint.identity)
                holds_all = holds_all or (self._is_coming and not is_repair)
            elif taint.identity not in self._holding:
                continue
            elif _meets(taint, node, covering):
                intolerant.add(taint.identity)  # until a look shows otherwise, however old this one gets
            elif not self._evidence.permits(covering, node):
                is_stale = True
            elif not (self._evidence.is_own(covering, node) or (problem and problem.lasts)):
                wants_own_look = True
        if (self._is_failing or problem) and (is_stale or wants_own_look):
            # The look may never come: the rest is not to wait for it.
            waiting |= {each.identity for each in missing if each.identity in self._holding} - intolerant
            is_stale = wants_own_look = False
        # A node with a pod that cannot be read stays unknown, however often one looks.
        asks = is_stale or (bool(waiting) and (look is None or covering is not None))
        return Held(
            frozenset(waiting),
            frozenset(intolerant),
            holds_all=holds_all,
            is_stale=is_stale,
            wants_own_look=wants_own_look,
            asks=asks,
        )

    def hold_mismatch(self, held: Held, node: Node) -> Held:
        """Return ``held`` with the mismatch taint, which waits for the first look like any other."""
        if self._is_told or self._evidence.of(node) is not None:
            return held
        return replace(
            held,
            waiting=held.waiting | {MISMATCH_TAINT},
            holds_all=held.holds_all or self._is_coming,
            asks=True,
        )

    @property
    def _is_coming(self) -> bool:
        """Whether the first look at all pods for this spec is a moment away."""
        return not self._is_told and not self._is_failing


def _meets(taint: Taint, node: Node, look: Survey) -> bool:
    found = look.intolerant_of(taint)
    return found is not None and node.name in found.nodes
