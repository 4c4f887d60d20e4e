"""Validates the nodes that join a pool: adds the startup taints, and removes them once a node has passed.

A node is *joining* while the pool has written nothing to it (no ownership record), it is young, and no list
of pods has shown a pod on it except those that every node has. It then gets the startup taints with its first
patch, at once. They delete no pod. A node that waits for a list of its pods without them would get pods
meanwhile, and would never be validated. They are recorded as the pool's, and removed once: when the node
first passes validation. From then on the record without them shows that this has happened, so that they are
never added again, even after a restart. A node that is older than the time it would have for validation gets
none.

Its deadline counts from the time at which its startup taints were added. The operator writes this time into
the taints (``timeAdded``), so that it is on the object (P8), where no kubelet can change it. For taints
without that time it counts from the creation of the node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from winpool.api.issues import IssueReason
from winpool.api.selector import NodeValidation
from winpool.api.spec import WindowsNodePoolSpec
from winpool.api.text import later
from winpool.features.feature import Finding
from winpool.model.node import Node
from winpool.model.snapshot import Evidence, Snapshot, is_fresh
from winpool.ownership.record import Record, TaintIdentity

YOUNG_SECONDS: Final = 600.0
"""A node that is older has not just joined the cluster: it joins the pool, with all that runs on it. The same
holds for one that is older than ``validation.timeoutSeconds``, where that is less."""

A_LOOK: Final = "a list of its pods"
"""What a node waits for where nothing is known to be missing."""


class Startup(msgspec.Struct, frozen=True):
    """The state of the startup taints of a node.

    ``taints`` are those that it is to have now; ``joins`` says that it does not have them yet, so that
    nothing else may delay its first write. ``waits_for`` says what a node that is being validated has not
    shown yet, empty where it has; ``timed_out`` that its time for that is over. ``needs_pods`` asks for a
    list of its pods, ``look_again`` is when time alone may change the answer.
    """

    taints: Mapping[TaintIdentity, str] = msgspec.field(default_factory=dict)
    joins: bool = False
    waits_for: str = ""
    timed_out: bool = False
    passed: bool = False
    needs_pods: bool = False
    look_again: datetime | None = None


NO_STARTUP: Final = Startup()


class Validator:
    """Answers for the nodes of one pool, for one pass."""

    def __init__(self, snapshot: Snapshot, spec: WindowsNodePoolSpec, evidence: Evidence) -> None:
        self._wanted = {each.identity: each.value for each in spec.startup_taints}
        self._rules = spec.validation or NodeValidation()
        self._young = timedelta(seconds=min(YOUNG_SECONDS, self._rules.timeout_seconds))
        self._evidence = evidence
        self._now = snapshot.now

    def startup(self, node: Node, record: Record | None, *, is_newcomer: bool) -> Startup:
        """Return the state of the startup taints of ``node``.

        ``record`` is the pool's own ownership record on it; a newcomer has none, of this or any other pool.
        """
        if not self._wanted:
            return NO_STARTUP
        if is_newcomer:
            return self._of_newcomer(node)
        if record is None:
            return NO_STARTUP
        carried = startup_taints_on(node, record, self._wanted)
        return self._validated(node, carried) if carried else NO_STARTUP

    def _of_newcomer(self, node: Node) -> Startup:
        if node.created is None or self._now - node.created >= self._young:
            return NO_STARTUP
        look = self._evidence.latest(node)
        if look is not None and node.name in look.busy:
            return NO_STARTUP
        return Startup(taints=self._wanted, joins=True, waits_for="its startup taints")

    def _validated(self, node: Node, carried: Mapping[TaintIdentity, str]) -> Startup:
        waits_for, needs_pods, look_again = self._missing(node)
        if not waits_for:
            return Startup(passed=True)
        since = _begun(node, carried)
        deadline = since and later(since, self._rules.timeout_seconds)
        # Only what is known to be missing counts: before the first look, nothing is known (P4).
        timed_out = deadline is not None and self._now >= deadline and waits_for != A_LOOK
        if deadline and not timed_out:
            look_again = min(look_again, deadline) if look_again else deadline
        return Startup(
            taints=carried,
            waits_for=waits_for,
            timed_out=timed_out,
            # After the deadline the regular list of all pods is enough.
            needs_pods=needs_pods and not timed_out,
            look_again=look_again,
        )

    def _missing(self, node: Node) -> tuple[str, bool, datetime | None]:
        """Return what the node has not shown, whether its pods have to be listed, and when to check again."""
        ripe = ripens(node, self._rules)
        if ripe is None:
            return "the kubelet to report Ready", False, None
        if self._now < ripe:
            return f"the kubelet to report Ready for {self._rules.ready_seconds} s", False, ripe
        look = self._evidence.of_joining(node)
        readiness = look.readiness.get(node.name) if look and look.covers(node) else None
        if look is None or readiness is None or (node.ready_since and look.started < node.ready_since):
            return A_LOOK, True, None
        if readiness.unready:
            return f"node agents to be Ready: {', '.join(readiness.unready_agents)}", True, None
        if readiness.missing_required:
            return f"required pods to be Ready: {', '.join(readiness.missing_required)}", True, None
        if not is_fresh(look, now=self._now):
            return A_LOOK, True, None
        return "", False, None


def _begun(node: Node, carried: Collection[TaintIdentity]) -> datetime | None:
    """Return when the validation of the node began; None where that is not known.

    Taints that an earlier version of the operator added have no time.
    """
    times = (taint.added for taint in node.taints if taint.identity in carried)
    return min((time for time in times if time), default=node.created)


def startup_taints_on(
    node: Node, record: Record, wanted: Mapping[TaintIdentity, str]
) -> dict[TaintIdentity, str]:
    """Return those startup taints that the record has as ours and that the node has, as they are there.

    A startup taint that someone removed by hand is not restored: that person has decided that the node is
    ready. Another value in the spec is for nodes that join from now on: the old one stays until the node is
    validated.
    """
    standing = {taint.identity: taint.value for taint in node.taints}
    return {
        identity: own.set
        for identity, own in record.taints.items()
        if identity in wanted and own.set == standing.get(identity)
    }


def foreign_startup_taints(nodes: Mapping[TaintIdentity, Sequence[str]]) -> Iterator[Finding]:
    """Report startup taints that no one is going to remove; ``nodes`` names, for each, those that have it.

    Some programs that create nodes restore them: https://github.com/kubernetes-sigs/karpenter/issues/1772
    """
    for (key, effect), names in sorted(nodes.items()):
        yield Finding(
            IssueReason.STARTUP_TAINT_STAYS,
            names,
            f"The startup taint {key}:{effect} is on these nodes. The operator did not add it, or removed it "
            "once after validation. It stays, and keeps pods away that do not tolerate it.",
            "Find out what adds it (kubectl get node NODE -o yaml --show-managed-fields), and remove it: "
            f"kubectl taint nodes NODE {key}:{effect}-",
            f"{key}:{effect}",
        )


def ripens(node: Node, rules: NodeValidation) -> datetime | None:
    """Return when the node has been Ready for long enough, by its kubelet's clock; None where it is not."""
    if node.ready != "True" or node.ready_since is None:
        return None
    return later(node.ready_since, rules.ready_seconds)
