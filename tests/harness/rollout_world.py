"""A pool whose nodes the operator upgrades itself, the pods there, and an actor outside, while time passes.

As ``upgrade_world``, but the operator also lists pods and volumes, evicts, and writes conditions. A pod that
is evicted ends after its grace, and its replacement is not of this world.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec.structs import replace

from harness.builders import NOON
from harness.evicting import a_pod
from harness.upgrade_feature import TARGET, upgrade_pool
from harness.upgrade_world import UpgradeWorld
from winpool.decide import Decision
from winpool.features.upgrade.claims import Claim, claim_of
from winpool.model.budgets import BudgetHealth, BudgetRoom
from winpool.model.node import Eviction, NodeVersions
from winpool.model.node_pods import KnownEvictions, NodePods
from winpool.model.pods import Pod
from winpool.model.pool import Pool
from winpool.model.rollout import Attachments, ForceTerms, KnownRollout, Workloads
from winpool.model.snapshot import Snapshot

GRACE: Final = timedelta(seconds=10)
PATCHED: Final = NodeVersions(kernel=f"10.0.20348.{TARGET}", kubelet="v1.36.3", runtime="containerd://2.3.0")
CONDITIONS: Final = ("DrainInProgress", "Drained", "MaintenanceInProgress")


def rolling_pool(upgrade: Mapping[str, Any] | None = None, **more: Any) -> Pool:
    """Return a pool with the strategy RollingUpdate."""
    return upgrade_pool({"strategy": "RollingUpdate", **(upgrade or {})}, **more)


THEIRS: Final = "Theirs"
"""The reason of a condition that someone else has written."""
CLOSED: Final = BudgetRoom("shop/web", health=BudgetHealth(1, 1, 2, is_current=True))
"""The budget of the pods that are blocked."""


FORCES: Final = ForceTerms(is_allowed=True, acts_since=NOON - timedelta(hours=1))
"""The operator may delete pods by force, and has run for long."""


@dataclass
class RolloutWorld(UpgradeWorld):
    """``pods`` are by the name of their node, ``volumes`` are attached there. ``trail`` has all states."""

    pods: dict[str, list[Pod]] = field(default_factory=dict)
    volumes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    blocked: set[str] = field(default_factory=set)
    """UIDs of pods of which a budget permits no eviction."""
    evicted: list[tuple[datetime, Eviction]] = field(default_factory=list)
    forced: list[tuple[datetime, Eviction]] = field(default_factory=list)
    """Pods that were deleted, and when."""
    hangs: set[str] = field(default_factory=set)
    """UIDs of pods that do not end."""
    force: ForceTerms = FORCES
    trail: list[tuple[str, str]] = field(default_factory=list)
    can_list_nodes: bool = True

    def __post_init__(self) -> None:
        self._lists: dict[str, NodePods] = {}
        self._attachments: Attachments | None = None
        self._workloads: Workloads | None = None
        self._ends: dict[str, datetime] = {}
        super().__post_init__()

    # What others do

    def place(self, node: str, *names: str) -> None:
        """Bind pods to a node."""
        there = self.pods.setdefault(node, [])
        there.extend(
            replace_pod(a_pod(name), node=node, uid=f"{name}-{self.now.timestamp():.0f}") for name in names
        )

    def know_pods(self, nodes: Iterable[str]) -> None:
        """List the pods of these nodes, though no pass asks for it."""
        for name in nodes:
            self._lists[self.nodes[name].uid] = NodePods(self.now, self._clock.now, (), frozenset())
        self.pass_time(timedelta(seconds=60))

    def close_budget(self, name: str) -> None:
        """A budget permits no eviction of the pods of a node any more, which the next list of them shows."""
        self.blocked.update(each.uid for each in self.pods[name])
        self._lists.pop(self.nodes[name].uid, None)

    def claim(self, name: str) -> Claim | None:
        """Return the claim on a node."""
        found = claim_of(self.nodes[name]) if name in self.nodes else None
        return found if isinstance(found, Claim) else None

    def reboot(self, name: str, *, versions: NodeVersions | None = PATCHED) -> None:
        """Restart the machine of a node: not Ready, and with what it is patched to. None: as before."""
        node = self.nodes[name]
        self.turn(
            name,
            boot_id=f"{node.boot_id}+",
            ready="False",
            ready_since=self.now,
            versions=versions or node.versions,
        )

    def ready(self, name: str) -> None:
        """The kubelet of a node reports Ready again."""
        self.turn(name, ready="True", ready_since=self.now)

    def actor(self) -> None:
        """Upgrade what is handed over, as a patient actor does."""
        for name in [*self.nodes]:
            if self.state(name) == "Upgrading":
                assert self.nodes[name].unschedulable, "handed over and not cordoned"
                assert not [each for each in self.pods.get(name, ()) if goes(each)], "handed over with pods"
                self.reboot(name)
                self.pass_time(timedelta(seconds=90))
                self.ready(name)

    def upgrade_all(self, *, rounds: int = 40) -> None:
        """Let time pass, and the actor act, until no node has a claim and none is due."""
        for _ in range(rounds):
            self.pass_time(timedelta(seconds=60))
            self.actor()
            if all(self.state(name) == "UpToDate" for name in self.nodes):
                self.pass_time(timedelta(seconds=60))
                return

    # What the operator does

    def restart(self) -> None:
        """Lose what is only in memory."""
        self._lists, self._attachments, self._workloads = {}, None, None
        super().restart()

    def snapshot(self) -> Snapshot:
        """Return what a pass sees."""
        self._end_pods()
        return replace(
            super().snapshot(),
            evictions=KnownEvictions(pods=dict(self._lists), read_at=self._clock.now),
            rollout=KnownRollout(attachments=self._attachments, workloads=self._workloads),
            force=self.force,
        )

    def run(self) -> Decision:
        """Make a pass, write conditions, evict, and list what it asks for."""
        before = {name: self.state(name) for name in self.nodes}
        decision = super().run()
        for name in self.nodes:
            if (state := self.state(name)) != before.get(name) and state:
                self.trail.append((name, state))
        written = {patch.node.uid for patch in decision.writes.patches}
        for each in decision.writes.conditions:
            if each.node.uid not in written and each.node.name in self.nodes:
                node = self.nodes[each.node.name]
                others = tuple(
                    one for one in node.conditions if one.type not in CONDITIONS or one.reason == THEIRS
                )
                self._put(replace(node, conditions=(*others, *each.conditions)))
        for eviction in decision.writes.evictions:
            self._evict(eviction)
        self._answer(decision)
        return decision

    def settle(self) -> None:
        """Make passes until one writes nothing, and no list that was asked for says more."""
        for _ in range(40):
            before = (self.nodes.copy(), self.pool, len(self.evicted))
            lists = {name: (each.pods, each.started) for name, each in self._lists.items()}
            decision = self.run()
            after = {name: (each.pods, each.started) for name, each in self._lists.items()}
            quiet = not (
                decision.writes.patches or decision.writes.conditions or decision.writes.status_first
            )
            if quiet and before == (self.nodes, self.pool, len(self.evicted)) and lists == after:
                return
        raise AssertionError("never quiet")

    def _answer(self, decision: Decision) -> None:
        for look in decision.pod_list_requests if self.can_list_nodes else ():
            there = tuple(self.pods.get(look.node.name, ()))
            uids = {each.uid for each in there}
            self._lists[look.node.uid] = NodePods(
                self.now,
                self._clock.now,
                there,
                frozenset(self.blocked & uids),
                budgets=dict.fromkeys(self.blocked & uids, (CLOSED,)),
                budgets_began=self._clock.now,
            )
        if decision.reads_attachments and self.can_list_nodes:
            self._attachments = Attachments(self.now, self._clock.now, dict(self.volumes))
        if decision.reads_workloads and self.can_list_nodes:
            self._workloads = Workloads(self.now, self._clock.now)

    def _evict(self, eviction: Eviction) -> None:
        for place, pod in enumerate(self.pods.get(eviction.node, ())):
            if pod.uid == eviction.uid and not pod.is_terminating:
                is_forced = eviction.deletion is not None
                assert is_forced or pod.uid not in self.blocked, "asked for although a budget permits none"
                (self.forced if is_forced else self.evicted).append((self.now, eviction))
                self.pods[eviction.node][place] = replace_pod(pod, is_terminating=True)
                self._ends[pod.uid] = self.now + GRACE

    def _end_pods(self) -> None:
        for name, there in self.pods.items():
            self.pods[name] = [
                each
                for each in there
                if each.uid in self.hangs or self._ends.get(each.uid, self.now) >= self.now
            ]


def replace_pod(pod: Pod, **changes: Any) -> Pod:
    """Return ``pod`` with ``changes``."""
    import msgspec

    return msgspec.structs.replace(pod, **changes)


def goes(pod: Pod) -> bool:
    """Whether a drain removes the pod."""
    return not (pod.is_of_daemon_set or pod.is_static or pod.is_finished)
