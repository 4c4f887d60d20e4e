"""Gates of OS upgrades: each obstacle closes its gate and no other, and its removal opens just that."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cluster.told import issues
from cluster.upgrade_ground import (
    DECLARED_BUILD,
    HOLD,
    REQUESTED,
    STATE_LABEL,
    Ground,
    at,
    ground_in,
    stable_control_plane,
    upgrade,
)
from cluster.upgrade_told import (
    NAMES,
    Stand,
    expect_allowed,
    expect_plan,
    expect_states,
    foreign_changes,
    kinds_written,
    plan,
    stand_of,
    told_states,
    why,
)
from harness.nodes import labels_of, taints_of
from harness.waiting import eventually
from harness.world import World

Object = dict[str, Any]

MAY_WRITE = {
    ("patch", "nodes", ""),
    ("patch", "windowsnodepools", ""),
    ("patch", "windowsnodepools", "status"),
    ("create", "events", ""),
    ("patch", "events", ""),
    ("update", "events", ""),
}
"""All that the operator ever writes for a pool that only asks for upgrades; a Lease is not counted."""


class Fleet:
    """Two releases, two revisions of each, and something in the way of every node."""

    def __init__(self, ground: Ground) -> None:
        self.ground, world = ground, ground.world
        self.budgeted = ground.first  # 2022, revision 4052
        self.declared = ground.join("2022", 1607)
        self.held, self.full = (ground.join("2025", 3000) for _ in range(2))
        self.done = ground.join("2025", 4652)
        ground.wait_settled()
        self.image = ground.pods.bind(
            "old", self.declared, annotations={DECLARED_BUILD: "10.0.17763"}, labels={"app": "old"}
        )
        mine = {"example.com/guarded": world.suffix}
        ground.pods.bind("guarded", self.budgeted, labels=mine)
        ground.pods.wait_running(count=2)
        self.budget = ground.budget("zero", mine)
        # Each node of build 26100 has 4 CPUs: no other has room for what one of them has.
        self.filling = ground.fill("big", build="10.0.26100", pods=3, cpu="3")
        ground.annotate(self.held, HOLD, "")
        world.cordon(self.done)

    @property
    def due(self) -> tuple[str, ...]:
        """The nodes that are due for 2025 at 4652."""
        return (self.budgeted, self.declared, self.held, self.full)


@pytest.mark.nightly
@pytest.mark.timeout(900)  # a guard: it waits for labels, which gates change once in a while only
def test_each_obstacle_closes_its_own_gate_and_the_last_that_is_removed_allows_the_upgrade(
    world: World,
) -> None:
    with ground_in(world) as ground:
        fleet = Fleet(ground)
        before = world.carried()
        start = world.now()
        row: Object = {"osVersion": "2025", "kubernetesVersions": {"min": "1.26", "max": "1.31"}}
        row["endOfSupport"] = "2026-01-31"
        closed = {"start": at(world, hours=-1), "end": at(world, days=3), "reason": "audit"}
        asked: Object = {
            "os": {"version": "2025", "targetRevision": 4652},
            "supportMatrix": [row],
            "upgrade": {"method": "InPlace", "maintenanceExclusions": [closed]},
        }
        gates = {"SupportMatrix", "EndOfSupport", "ControlPlane", "MaintenanceWindow", "Budget"}
        own: dict[str, set[str]] = {
            fleet.budgeted: {"ReleaseChange", "PodDisruptionBudgets"},
            fleet.declared: {"ReleaseChange"},
            fleet.held: {"Capacity", "Held"},
            fleet.full: {"Capacity"},
        }

        # Before it is applied, the plan of the manifest says the same; only an operator watches ControlPlane.
        manifest = json.dumps(world.pool(**asked))
        planned = stand_of(plan(world, "-f", "-", stdin=manifest))
        assert (planned.pool | {"ControlPlane"}, planned.nodes) == (gates, own)

        pool = world.apply(world.pool(mode="DryRun", **asked))
        world.operator.start()
        expect_allowed(world, pool, "False", "DryRun", named=gates | {"DryRun"})
        expect_dry_run(world, pool, gates=gates, own=own)
        assert world.node_patches(since=start) == []
        assert world.carried() == before

        with world.watch_nodes() as witness:
            world.apply(world.pool(**asked))
            walk = Walk(world, pool, gates=gates, own=own)
            walk.expect()
            expect_states(
                world,
                {
                    **dict.fromkeys((fleet.budgeted, fleet.declared, fleet.full), "Gated"),
                    fleet.held: None,
                    fleet.done: "UpToDate",
                },
            )
            for node in (fleet.budgeted, fleet.held):
                code, named, text = why(world, node)
                assert (code, named) == (3, gates | own[node]), text
                assert f"Closed: {len(named)}\n" in text
            assert why(world, fleet.done)[0] == 0

            asked["upgrade"]["method"] = "Replace"
            world.apply(world.pool(**asked))
            # On another machine, another release is allowed; what pods are built for matters from here on.
            own[fleet.declared] = {"Images"}
            own[fleet.budgeted].remove("ReleaseChange")
            walk.expect()

            del row["kubernetesVersions"]
            world.apply(world.pool(**asked))
            walk.opens("SupportMatrix")
            asked["supportMatrix"] = []
            world.apply(world.pool(**asked))
            walk.opens("EndOfSupport")
            asked["upgrade"]["maintenanceExclusions"] = []
            world.apply(world.pool(**asked))
            walk.opens("MaintenanceWindow")
            asked["upgrade"]["overrides"] = [stable_control_plane(world)]
            world.apply(world.pool(**asked))
            walk.opens("ControlPlane")
            [told] = issues(world.status(pool), "OverrideInForce")
            assert "ControlPlane" in told["message"] + told.get("fix", "")

            ground.pods.delete(fleet.image)
            walk.opens("Images", of=(fleet.declared,))
            ground.remove("pdb", fleet.budget)
            walk.opens("PodDisruptionBudgets", of=(fleet.budgeted,))
            ground.remove("replicaset", fleet.filling)
            walk.opens("Capacity", of=(fleet.held, fleet.full))
            ground.annotate(fleet.held, HOLD, None)
            walk.opens("Held", of=(fleet.held,))
            assert "Required" not in {labels_of(node).get(STATE_LABEL) for node in world.nodes().values()}

            # As many as are due, beside the one that is cordoned.
            asked["upgrade"]["maxUnavailable"] = len(fleet.due) + 1
            world.apply(world.pool(**asked))
            expect_allowed(world, pool, "True", "UpgradeAllowed")
            world.kubectl("uncordon", fleet.done)
            expect_plan(world, pool, Stand(nodes=dict.fromkeys(fleet.due, frozenset[str]())))
            assert why(world, fleet.held)[0] == 1, "without --leader-elect no yes is certain"
            expect_states(world, {**dict.fromkeys(fleet.due, "Required"), fleet.done: "UpToDate"})
            witness.catch_up(world.nodes().values())

        said = told_states(witness)
        assert said.pop(fleet.done) == [None, "UpToDate"]
        assert set(map(tuple, said.values())) <= {(None, "Gated", "Required"), (None, "Required")}, said
        changed = foreign_changes(before, world.carried())
        assert set(changed) <= {fleet.held, fleet.done}, changed  # what people have changed
        assert kinds_written(world, since=start) <= MAY_WRITE
        world.delete(pool)


class Walk:
    """Follows a pool from obstacle to obstacle: what is closed is what is still in the way, in all places."""

    def __init__(self, world: World, pool: str, *, gates: set[str], own: dict[str, set[str]]) -> None:
        self._world = world
        self._pool = pool
        self._gates = gates
        self._own = own

    def expect(self) -> None:
        """Return when condition and plan say just what is so."""
        expect_allowed(self._world, self._pool, "False", *self._gates, named=self._gates)
        expect_plan(self._world, self._pool, Stand(pool=self._gates, nodes=self._own))
        for gate in sorted(NAMES & {"Budget", *self._gates}):
            shown = self._world.operator.metric("winpool_upgrade_gate_closed", pool=self._pool, gate=gate)
            assert shown == (gate in self._gates), gate

    def opens(self, name: str, *, of: tuple[str, ...] = ()) -> None:
        """Expect that this has opened, of the pool or of these nodes, and nothing else has changed."""
        for closed in [self._own[node] for node in of] or [self._gates]:
            closed.remove(name)
        self.expect()


def expect_dry_run(world: World, pool: str, *, gates: set[str], own: dict[str, set[str]]) -> None:
    """Return when ``status.plan`` has every due node, with the gates that are closed for it."""

    def told() -> bool:
        steps = {
            step["node"]: set(step.get("closedGates", []))
            for step in world.status(pool)["plan"]["steps"]
            if step["action"] == "Upgrade"
        }
        assert steps.keys() == own.keys()
        for node, closed in steps.items():
            gated = own[node] - {"Held"}
            assert gated <= closed - {"Held"} <= gated | gates, (node, closed)
        return True

    eventually(told, what=f"the plan in the status of {pool}")


def test_a_pool_of_which_each_due_node_is_blocked_by_its_own_says_so_until_one_is_not(world: World) -> None:
    with ground_in(world) as ground:
        other = ground.join("2022", 4052)
        ground.wait_settled()
        mine = {"example.com/guarded": world.suffix}
        pod = ground.pods.bind("guarded", ground.first, labels=mine)
        ground.pods.wait_running(count=1)
        budgets = [ground.budget(name, mine) for name in ("one", "two")]
        wish = "a driver waits for a reboot\x1b[31m"
        ground.annotate(ground.first, REQUESTED, wish)
        pool = world.apply(world.pool(os={"version": "2022", "targetRevision": 4052}, upgrade=upgrade(world)))
        world.operator.start()
        message = expect_allowed(world, pool, "False", "NodesGated")
        assert "PodDisruptionBudgets, on 1 node" in message
        expect_states(world, {ground.first: "Gated", other: "UpToDate"})
        planned = expect_plan(world, pool, Stand(nodes={ground.first: {"PodDisruptionBudgets"}}))
        [step] = planned["steps"]
        assert [each["trigger"] for each in step["due"]] == ["Request"]
        [blocker] = step["pods"]["blockers"]
        assert blocker["pod"].endswith(pod)
        assert set(blocker["budgets"]) >= set(budgets)
        code, _, text = why(world, ground.first)
        said = " ".join(text.split())  # it is wrapped
        assert (code, "a driver waits for a reboot" in said, "\x1b" in text) == (3, True, False)
        [asked] = issues(world.status(pool), "UpgradeRequested")
        assert asked["nodes"] == [ground.first]
        assert "a driver waits for a reboot" in asked["message"]

        # One budget left still allows no eviction; without any, the pod may go.
        ground.remove("pdb", budgets[0])
        expect_allowed(world, pool, "False", "NodesGated")
        ground.remove("pdb", budgets[1])
        expect_allowed(world, pool, "True", "UpgradeAllowed")
        ground.annotate(ground.first, REQUESTED, None)
        expect_allowed(world, pool, "True", "NothingDue")
        expect_states(world, {ground.first: "UpToDate"})
        assert issues(world.status(pool), "UpgradeRequested") == []
        assert not any("winpool" in taint for node in world.nodes().values() for taint in taints_of(node))
        world.delete(pool)


@pytest.mark.nightly
@pytest.mark.timeout(600)  # a guard: it waits for labels, which gates change once in a while only
def test_a_pod_is_judged_by_its_runtime_class_as_that_is_now(world: World) -> None:
    with ground_in(world) as ground:
        other = ground.join("2022", 4052)
        ground.wait_settled()
        name = f"windows-{world.suffix}"
        world.kubectl("create", "-f", "-", stdin=json.dumps(runtime_class(name, build="10.0.20348")))
        try:
            pod = ground.pods.bind("web", ground.first, runtimeClassName=name)
            ground.pods.wait_running(count=1)
            assert ground.pods.all()[pod]["spec"]["nodeSelector"]["node.kubernetes.io/windows-build"]
            asked = upgrade(world, method="Replace", maxUnavailable=2)
            pool = world.apply(world.pool(os={"version": "2025"}, upgrade=asked))
            world.operator.start()
            expect_plan(world, pool, Stand(nodes={ground.first: {"Images"}, other: set()}))
            expect_states(world, {ground.first: "Gated", other: "Required"})

            # The pod stays as it is. The one that a drain makes of it would get the build of the target.
            patch = {"scheduling": {"nodeSelector": {"node.kubernetes.io/windows-build": "10.0.26100"}}}
            world.kubectl("patch", "runtimeclass", name, "--type=merge", "-p", json.dumps(patch))
            expect_plan(world, pool, Stand(nodes={ground.first: set(), other: set()}))
            expect_states(world, {ground.first: "Required", other: "Required"})

            world.kubectl("delete", "runtimeclass", name)
            planned = expect_plan(
                world, pool, Stand(nodes={ground.first: {"Capacity", "Images"}, other: set()})
            )
            [step] = [each for each in planned["steps"] if each["node"] == ground.first]
            [said] = [each["message"] for each in step["closedGates"] if each["gate"] == "Capacity"]
            assert f"a RuntimeClass that does not exist ({name})" in said
            expect_states(world, {ground.first: "Gated", other: "Required"})
        finally:
            world.kubectl("delete", "runtimeclass", name, "--ignore-not-found")
        world.delete(pool)


def runtime_class(name: str, *, build: str) -> Object:
    """Return the RuntimeClass of one Windows build, as the documentation of Kubernetes has it."""
    selector = {"kubernetes.io/os": "windows", "node.kubernetes.io/windows-build": build}
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": name},
        "handler": "runhcs-wcow-process",
        "scheduling": {"nodeSelector": selector},
    }
