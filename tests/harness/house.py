"""A pool, its nodes and the passes over them with features of a test: what is decided, written, remembered.

It keeps what an operator keeps in memory, by the real ``WriteBackoff``, and speaks no HTTP. Of node
conditions it knows what server-side apply does: one manager's are those that it applied last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from harness.builders import GUARD, Nodes, a_snapshot, deleted, with_status
from harness.clock import Seconds
from harness.second_feature import FIRST, Asked, request, second
from harness.writes import patched
from winpool.api.keys import UPGRADE_REQUESTED_ANNOTATION
from winpool.controllers.backoff import WriteBackoff
from winpool.decide import Decision, decide
from winpool.features.feature import Feature
from winpool.model.node import ConditionsPatch, Node, NodeCondition, NodePatch
from winpool.model.node_pods import NOTHING_EVICTED, KnownEvictions
from winpool.model.pool import Pool
from winpool.model.pressure import NOTHING_KNOWN, KnownMemory
from winpool.model.snapshot import Snapshot

PASSES = 12
"""In which everything is done that is due: a release takes four."""


@dataclass
class House:
    """``patches`` and ``conditions`` are all writes so far, ``repaired`` what each was told to put back."""

    pool: Pool
    nodes: Nodes
    features: Sequence[Feature] = (*FIRST, second)
    guard: str = GUARD
    memory: KnownMemory = NOTHING_KNOWN
    evictions: KnownEvictions = NOTHING_EVICTED
    clock: Seconds = field(default_factory=Seconds)
    patches: list[NodePatch] = field(default_factory=list)
    conditions: list[ConditionsPatch] = field(default_factory=list)
    repaired: list[tuple[str, ...]] = field(default_factory=list)
    is_let_go: bool = False

    def __post_init__(self) -> None:
        # By UID: what the API server knows as ours, and what this operator remembers to have written.
        self._managed: dict[str, tuple[NodeCondition, ...]] = {}
        self._standing: dict[str, tuple[NodeCondition, ...]] = {}
        self.backoff = WriteBackoff(monotonic=self.clock)

    # What others do

    def ask(self, *names: str, **asked: Any) -> None:
        """Write a request to these nodes; without anything asked, take it off."""
        text = request(Asked(**asked)) if asked else None
        for name in names:
            self.write(name, annotations={UPGRADE_REQUESTED_ANNOTATION: text})

    def write(self, name: str, **changes: Any) -> None:
        """Patch a node as others do."""
        node = self.nodes[name]
        nothing: dict[str, Any] = {"labels": {}, "annotations": {}, "taints": None}
        self.nodes[name] = patched(node, NodePatch(node=node, **(nothing | changes)))

    def tell(self, name: str, condition: NodeCondition) -> None:
        """Set a condition of a node as others do."""
        node = self.nodes[name]
        rest = [each for each in node.conditions if each.type != condition.type]
        self._put(node, (*rest, condition))

    def edit(self, pool: Pool) -> None:
        """Change the pool: pauses are between writes for one generation."""
        self.pool, self.backoff = pool, WriteBackoff(monotonic=self.clock)

    def delete(self) -> None:
        """``kubectl delete`` the pool."""
        self.edit(deleted(self.pool))

    # What the operator does

    def snapshot(self, **seen: Any) -> Snapshot:
        """Return what a pass sees."""
        taken = a_snapshot(self.pool, self.nodes, **({"guard": self.guard} | seen))
        return replace(
            taken,
            attempts=self.backoff.attempts(self.nodes),
            written_conditions=dict(self._standing),
            memory=self.memory,
            evictions=self.evictions,
        )

    def decide(self, **seen: Any) -> Decision:
        """Decide a pass, and do nothing."""
        return decide(self.snapshot(**seen), self.features)

    def run(self, **seen: Any) -> Decision:
        """Decide a pass, perform it, and report."""
        decision = self.decide(**seen)
        self._keep_promise(decision)
        if not decision.writes.status_first:
            self._act(decision)
        self.pool = with_status(self.pool, self.decide(**seen).status)
        return decision

    def settle(self, **seen: Any) -> list[Decision]:
        """Run passes until one has nothing to do; return those that had. Asserts that it ends."""
        passes: list[Decision] = []
        for _ in range(PASSES):
            decision = self.run(**seen)
            if not (
                decision.writes.patches
                or decision.writes.conditions
                or decision.writes.finalizers is not None
            ):
                return passes
            passes.append(decision)
        raise AssertionError("never quiet")

    def restart(self) -> None:
        """Lose what is only in memory."""
        self.backoff = WriteBackoff(monotonic=self.clock)
        self._standing.clear()

    def _keep_promise(self, decision: Decision) -> None:
        if decision.writes.finalizers is not None:
            self.pool = replace(self.pool, finalizers=decision.writes.finalizers)
            self.is_let_go = self.is_let_go or decision.writes.releases_pool

    def _act(self, decision: Decision) -> None:
        written = set[str]()
        for patch in decision.writes.patches:
            name = patch.node.name
            assert name not in written, f"two patches for {name}"
            written.add(name)
            self.nodes[name] = patched(self.nodes[name], patch)
            repaired = decision.repaired.get(name, ())
            self.backoff.note_written(patch, repaired=repaired)
            self.patches.append(patch)
            self.repaired.append(repaired)
        for each in decision.writes.conditions:
            if each.node.name not in written:  # else they are decided anew on what was just written
                self._apply(each)

    def _apply(self, patch: ConditionsPatch) -> None:
        node = self.nodes[patch.node.name]
        assert patch.node.resource_version == node.resource_version, "409"
        before = {each.type for each in self._managed.get(node.uid, ())}
        wanted = {each.type for each in patch.conditions}
        rest = [each for each in node.conditions if each.type not in before | wanted]
        self._managed[node.uid] = self._standing[node.uid] = patch.conditions
        self._put(node, (*rest, *patch.conditions))
        self.conditions.append(patch)

    def _put(self, node: Node, conditions: Sequence[NodeCondition]) -> None:
        self.nodes[node.name] = replace(
            node,
            conditions=tuple(sorted(conditions, key=lambda each: each.type)),
            resource_version=str(int(node.resource_version) + 1),
        )
