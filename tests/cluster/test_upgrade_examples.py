"""The worked examples of docs/upgrades, run: each asks the gate, and acts only where it permits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final

import pytest

from cluster.test_guard import is_refused_by_the_guard
from cluster.test_rollout import rollout_rights
from cluster.told import issues
from cluster.upgrade_examples import (
    ACCOUNT,
    EXAMPLES,
    MARK,
    SPACE,
    Command,
    Person,
    Plan,
    admin,
    pod_on,
    token_of,
    tool_on,
)
from cluster.upgrade_ground import HOLD, PAUSE_SECONDS, REQUESTED, STATE_LABEL, at, ground_in, upgrade
from cluster.upgrade_told import expect_allowed, expect_states, foreign_changes, states, told_states
from harness.identity import Caller
from harness.nodes import annotations_of, labels_of
from harness.waiting import eventually, holds
from harness.world import World
from testbed.cluster import Testbed

Object = dict[str, Any]

TARGET: Final = 4171
NODES: Final = "/api/v1/nodes"
POLICY: Final = "ValidatingAdmissionPolicy 'patch-tool-own-node'"


def pool_in(world: World, *, target: int = TARGET, is_open: bool = True, **fields: Any) -> Object:
    """Return a pool of all nodes of the test, whose gate MaintenanceWindow is open or closed."""
    closed = {"start": at(world, hours=-1), "end": at(world, days=1), "reason": "audit week"}
    asked = upgrade(world, maintenanceExclusions=[] if is_open else [closed], **fields)
    return world.pool(os={"version": "2022", "targetRevision": target}, upgrade=asked)


# A script around a cloud's node image upgrade


@pytest.mark.nightly
@pytest.mark.timeout(900)  # a guard: it waits for labels, which gates change once in a while only
def test_a_clouds_command_runs_only_behind_an_open_gate_and_the_script_says_what_came_of_it(
    world: World,
) -> None:
    with ground_in(world) as ground:
        nodes = (ground.first, ground.join("2022", 1607))
        ground.wait_settled()
        shell, command = admin(world), Command(world)
        cloud = command.of(ground, "replace", *nodes, revision=TARGET)
        pool = world.apply(pool_in(world, is_open=False, method="Replace"))
        world.operator.start()
        expect_allowed(world, pool, "False", "MaintenanceWindow", named={"MaintenanceWindow"})

        closed = shell.run("node-image.sh", pool, "1", *cloud)
        assert (closed.returncode, closed.stdout) == (3, ""), closed.stdout
        assert "MaintenanceWindow: " in closed.stderr
        assert "audit week" in closed.stderr
        assert shell.run("node-image.sh", f"no-{pool}", "60", *cloud).returncode == 3
        assert command.runs == 0

        before = {name: node["metadata"]["uid"] for name, node in world.nodes().items()}
        with shell.start("node-image.sh", pool, "90", *cloud) as waiting:
            holds(lambda: (waiting.poll(), command.runs) == (None, 0), seconds=3)
            world.apply(pool_in(world, method="Replace"))
            output, errors = waiting.communicate(timeout=180)
        assert (waiting.returncode, command.runs) == (0, 1), output + errors
        assert f"Every node of the pool {pool} is up to date." in output
        after = world.nodes()
        assert {node["status"]["nodeInfo"]["kernelVersion"] for node in after.values()} == {
            f"10.0.20348.{TARGET}"
        }
        assert not before.items() & {name: node["metadata"]["uid"] for name, node in after.items()}.items()
        # A cloud cordons first, so all of it was announced.
        assert (
            issues(world.status(pool), "SurpriseOSChange")
            == issues(world.status(pool), "SurpriseReboot")
            == []
        )

        done = shell.run("node-image.sh", pool, "5", *cloud)
        assert (done.returncode, command.runs) == (0, 1)
        assert "is due" in done.stdout

        world.apply(pool_in(world, target=TARGET + 1, method="Replace"))
        expect_allowed(world, pool, "True", "UpgradeAllowed")
        failed = shell.run("node-image.sh", pool, "5", *command.ending(7))
        assert (failed.returncode, command.runs) == (1, 2)
        assert "failed with 7" in failed.stderr
        left = shell.run("node-image.sh", pool, "2", *command.ending(0))
        assert (left.returncode, command.runs) == (4, 3)
        assert all(name in left.stderr for name in nodes), left.stderr
        world.delete(pool)


# An actor, to which winpool hands drained nodes over


@pytest.mark.nightly
@pytest.mark.timeout(600)  # a guard: two machines restart, one after the other
def test_the_minimal_actor_upgrades_each_node_that_is_handed_over_once(world: World) -> None:
    with ground_in(world) as ground, rollout_rights(world):
        nodes = (ground.first, ground.join("2022", 1607))
        ground.wait_settled()
        shell, command = admin(world), Command(world)
        patches = command.of_actor(ground)
        assert shell.run("actor.sh", *patches).returncode == 0, "nothing is handed over"
        asked = upgrade(world, strategy="RollingUpdate", soakSeconds=1)
        fast = {"readySeconds": 0, "timeoutSeconds": 120}
        os = {"version": "2022", "targetRevision": TARGET}
        pool = world.apply(world.pool(os=os, validation=fast, upgrade=asked))
        world.operator.start()
        said = []

        def done() -> bool:
            ended = shell.run("actor.sh", *patches)
            assert ended.returncode == 0, ended.stderr
            said.append(ended.stdout)
            return set(states(world).values()) == {"UpToDate"}

        eventually(done, what="both nodes upgraded", seconds=240, every=2)
        assert command.runs == len(nodes), "never twice for one claim"
        assert "".join(said).count("The command was run for node/") == len(nodes)
        for node in world.nodes().values():
            assert node["status"]["nodeInfo"]["kernelVersion"] == f"10.0.20348.{TARGET}"
            assert not node["spec"].get("unschedulable")
            assert "winpool.dev/upgrade-done" not in annotations_of(node), "it is served"
        world.delete(pool)


@pytest.mark.nightly
@pytest.mark.timeout(600)  # a guard
def test_the_minimal_actor_reports_nothing_of_a_node_that_is_gone(world: World) -> None:
    with ground_in(world) as ground, rollout_rights(world):
        ground.wait_settled()
        shell, command = admin(world), Command(world)
        replaces = command.of_actor(ground, "surge")
        asked = upgrade(world, strategy="RollingUpdate", method="Replace", soakSeconds=1)
        fast = {"readySeconds": 0, "timeoutSeconds": 120}
        os = {"version": "2022", "targetRevision": TARGET}
        pool = world.apply(world.pool(os=os, validation=fast, upgrade=asked))
        world.operator.start()
        said = []

        def done() -> bool:
            ended = shell.run("actor.sh", *replaces)
            assert ended.returncode == 0, ended.stderr
            said.append(ended.stdout)
            found = states(world)
            return ground.first not in found and set(found.values()) == {"UpToDate"}

        eventually(done, what="the new machine up to date", seconds=240, every=2)
        assert command.runs == 1
        assert f"node/{ground.first}, which is gone" in "".join(said)
        world.delete(pool)


# A patch tool on the node


@pytest.fixture(scope="module")
def patching(testbed: Testbed) -> Iterator[None]:
    """The account of the patch tool with its rights and its policy, as the page installs them."""
    file = str(EXAMPLES / "patch-tool.yaml")
    testbed.kubectl("apply", "-f", file)
    try:
        yield
    finally:
        testbed.kubectl("delete", "-f", file, "--timeout=100s")


REFUSED: Final[dict[str, Object]] = {
    "a label": {"metadata": {"labels": {"example.com/mine": "1"}}},
    "a label that is removed": {"metadata": {"labels": {"kubernetes.io/os": None}}},
    "a permission of its own": {"metadata": {"labels": {STATE_LABEL: "Required"}}},
    "a taint": {"spec": {"taints": [{"key": "example.com/mine", "effect": "NoSchedule"}]}},
    "addresses of pods": {"spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]}},
    "an owner": {
        "metadata": {
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "other", "uid": "0"}],
        }
    },
    "a finalizer": {"metadata": {"finalizers": ["example.com/mine"]}},
    "an annotation of others": {"metadata": {"annotations": {"node.alpha.kubernetes.io/ttl": "5"}}},
    "an annotation of others that is removed": {
        "metadata": {"annotations": {"node.alpha.kubernetes.io/ttl": None}}
    },
    "a record of ours": {"metadata": {"annotations": {"winpool.dev/applied": "{}"}}},
}
"""What the account may not change on its own node either."""


def test_the_account_of_the_patch_tool_may_cordon_and_annotate_its_own_node_and_nothing_else(
    world: World, patching: None
) -> None:
    with ground_in(world) as ground, ExitStack() as stack:
        own, other = ground.first, ground.join("2022", 4052)
        ground.wait_settled()
        pod = stack.enter_context(pod_on(world, own))
        tool, unbound, kubelet = (
            stack.enter_context(each)
            for each in (
                Caller.bearer(world.testbed, token_of(world.testbed, pod=pod)),
                Caller.bearer(world.testbed, token_of(world.testbed)),
                Caller.kubelet(world.testbed, own),
            )
        )
        cordon: Object = {"spec": {"unschedulable": True}}
        uncordon: Object = {"spec": {"unschedulable": False}}
        eventually(lambda: tool.patch(f"{NODES}/{own}", cordon)[0] == 200, what="the rights of the tool")
        eventually(lambda: POLICY in refusal(tool.patch(f"{NODES}/{other}", cordon)), what="the policy")
        before = world.carried()

        permitted: list[Object] = [
            {"metadata": {"annotations": {key: value}}}
            for value in ("x", None)
            for key in (MARK, REQUESTED, HOLD)
        ]
        for patch in (uncordon, cordon, *permitted, uncordon):
            assert tool.patch(f"{NODES}/{own}", patch)[0] == 200, patch
        for caller, node in ((tool, other), (unbound, own), (unbound, other)):
            for patch in (cordon, *permitted[:3]):
                said = refusal(caller.patch(f"{NODES}/{node}", patch))
                assert "only the Node that it runs on" in said or "winpool-node-requester" in said, said
                assert POLICY in said or "winpool-guard" in said
        for what, patch in REFUSED.items():
            assert "denied request" in refusal(tool.patch(f"{NODES}/{own}", patch)), what
        for words in (("delete", "nodes"), ("create", "nodes"), ("update", "nodes"), ("list", "nodes"),
                      ("patch", "nodes", "--subresource=status"), ("patch", "windowsnodepools")):  # fmt: skip
            account = f"--as=system:serviceaccount:{SPACE}:{ACCOUNT}"
            assert world.kubectl("auth", "can-i", *words, account, check=False).splitlines()[0] == "no", words
        for patch in (*permitted[1:3], REFUSED["a permission of its own"]):
            assert is_refused_by_the_guard(kubelet.patch(f"{NODES}/{own}", patch)), patch
        left = world.carried()
        assert left[other] == before[other]
        assert cordon_of(world, own) == ()


def refusal(answer: tuple[int, Object]) -> str:
    """Return what the API server says of a request that it forbids."""
    status, said = answer
    return str(said["message"]) if status == 403 else ""


@pytest.mark.nightly
@pytest.mark.timeout(900)  # a guard: it waits for labels, which gates change once in a while only
def test_the_patch_tool_acts_on_a_permitted_node_only_and_takes_back_only_its_own_cordon(
    world: World, patching: None
) -> None:
    # Long enough to run the tool while the condition says more than the label.
    with ground_in(world, pause_seconds=2 * PAUSE_SECONDS) as ground, ExitStack() as stack:
        own, other = ground.first, ground.join("2022", 1607)
        ground.wait_settled()
        tool = tool_on(world, own, pod=stack.enter_context(pod_on(world, own)))
        command = Command(world)
        patches = command.of(ground, "patch", own, revision=TARGET)
        pool = world.apply(pool_in(world, maxUnavailable=2))
        world.operator.start()
        expect_allowed(world, pool, "True", "UpgradeAllowed")
        expect_states(world, {own: "Required", other: "Required"})
        untouched = world.carried()[other]

        # The gate closes: label and condition say so at once.
        world.apply(pool_in(world, is_open=False, maxUnavailable=2))
        expect_allowed(world, pool, "False", "MaintenanceWindow", named={"MaintenanceWindow"})
        closed = tool.run("patch-node.sh", *patches)
        assert (closed.returncode, state_of(world, own)) == (3, "Gated"), closed.stderr
        assert "UpgradeAllowed" in closed.stderr
        world.apply(pool_in(world, maxUnavailable=2))
        expect_allowed(world, pool, "True", "UpgradeAllowed")
        ground.annotate(own, HOLD, "")
        expect_states(world, {own: "Gated"})
        held = tool.run("patch-node.sh", *patches)
        assert (held.returncode, command.runs) == (3, 0), held.stderr
        assert not cordon_of(world, own)

        ground.annotate(own, HOLD, None)
        expect_states(world, {own: "Required"})
        ran = tool.run("patch-node.sh", *patches)
        assert (ran.returncode, command.runs) == (4, 1), ran.stderr
        assert cordon_of(world, own) == (True, "true")

        def finished() -> bool:
            again = tool.run("patch-node.sh", *patches)
            assert again.returncode in (0, 4), again.stderr
            return "schedulable again" in again.stdout

        eventually(finished, what="the node up to date", seconds=60, every=1)
        assert (command.runs, cordon_of(world, own)) == (1, ())
        assert issues(world.status(pool), "SurpriseReboot") == []
        assert tool.run("patch-node.sh", *patches).returncode == 0

        # What a person has cordoned stays so, up to date or due.
        world.kubectl("cordon", own)
        assert tool.run("patch-node.sh", *patches).returncode == 0
        world.apply(pool_in(world, target=TARGET + 1, maxUnavailable=2))
        expect_states(world, {own: "Required"})
        expect_allowed(world, pool, "True", "UpgradeAllowed")  # the condition may follow the label
        refused = tool.run("patch-node.sh", *patches)
        assert (refused.returncode, command.runs, cordon_of(world, own)) == (3, 1, (True, "")), refused.stderr
        world.kubectl("uncordon", own)

        # What fails is not tried again until a person wants it.
        failing = command.ending(7)
        assert ending(tool, failing, command) == (1, 2)
        assert ending(tool, failing, command) == (4, 2)
        assert cordon_of(world, own) == (True, "true")
        world.kubectl("uncordon", own)
        assert ending(tool, command.ending(0), command) == (4, 3)
        assert foreign_changes({other: untouched}, world.carried()) == {}
        world.delete(pool)


def state_of(world: World, node: str) -> str | None:
    return labels_of(world.node(node)).get(STATE_LABEL)


def cordon_of(world: World, node: str) -> tuple[Any, ...]:
    """Return whether a node is cordoned, with the mark of the tool; empty where it is not, without a mark."""
    found = world.node(node)
    cordon, mark = found["spec"].get("unschedulable", False), annotations_of(found).get(MARK, "")
    return (cordon, mark) if cordon or mark else ()


def ending(tool: Person, words: tuple[str, ...], command: Command) -> tuple[int, int]:
    """Return with what the tool ended, and how often any command was run by now."""
    return tool.run("patch-node.sh", *words).returncode, command.runs


# Rancher's system-upgrade-controller


@pytest.mark.nightly
@pytest.mark.timeout(900)  # a guard: it waits for labels, which gates change once in a while only
def test_a_node_stays_selected_by_the_plan_from_its_permission_until_it_is_schedulable_again(
    world: World,
) -> None:
    with ground_in(world) as ground, ExitStack() as stack:
        due, held, done = ground.first, ground.join("2022", 1607), ground.join("2022", TARGET)
        ground.wait_settled()
        ground.annotate(held, HOLD, "")
        space = f"system-upgrade-{world.suffix}"
        world.kubectl("create", "namespace", space)
        stack.callback(world.kubectl, "delete", "namespace", space, "--timeout=100s")
        pool = world.apply(pool_in(world))
        plan = Plan(pool=pool, space=space)
        account = stack.enter_context(plan.account(world))
        command = Command(world)
        script: str = plan.spec["upgrade"]["command"][1]

        def ended(node: str, *, revision: int = TARGET) -> int:
            """Run what the container of the Job runs, here where the test runs; return with what it ended."""
            words = command.of(ground, "patch", node, revision=revision)
            end = account.run(script.removeprefix("/"), *words, SYSTEM_UPGRADE_NODE_NAME=node)
            print(node, end.returncode, end.stdout, end.stderr)  # shown where the test fails
            return end.returncode

        assert plan.selected(world) == set()
        world.operator.start()
        expect_allowed(world, pool, "True", "UpgradeAllowed")
        expect_states(world, {due: "Required", done: "UpToDate"})
        assert plan.selected(world) == {due, done}
        before = world.carried()
        assert [ended(node) for node in (done, held, "no-such-node")] == [0, 3, 3]
        assert (command.runs, foreign_changes(before, world.carried())) == (0, {})

        with world.watch_nodes() as witness:
            # As long as a machine takes to restart, and more: the first pod ends with it.
            plan.start(world, due, annotations={"winsim/run-seconds": "20"})
            eventually(lambda: pods_of(world, space) == {"Running": 1}, what="the pod of the Job", seconds=60)
            assert (ended(due), command.runs) == (4, 1), "with 0 the Job would be complete before the restart"
            assert cordon_of(world, due) == (True, "true")

            def schedulable() -> bool:
                assert due in plan.selected(world), "the controller would delete the Job"
                return ended(due) == 0 and cordon_of(world, due) == ()

            eventually(schedulable, what="the node schedulable again", seconds=60, every=1)
            eventually(
                lambda: pods_of(world, space) == {"Failed": 1, "Succeeded": 1},
                what="the Job done",
                seconds=120,
            )
            witness.catch_up(world.nodes().values())
        assert told_states(witness)[due] == ["Required", "UpToDate"]
        assert (command.runs, state_of(world, held)) == (1, None)
        assert issues(world.status(pool), "SurpriseReboot") == []

        # The next target. No operator: what it has said of an earlier spec is no answer.
        world.apply(pool_in(world, target=TARGET + 1, maxUnavailable=2))
        expect_states(world, {due: "Required", done: "Required"})
        assert plan.selected(world) == {due, done}
        world.operator.stop()
        world.apply(pool_in(world, target=TARGET + 1, is_open=False))
        late = account.run("ask.sh", pool, due)
        assert (late.returncode, state_of(world, due)) == (3, "Required"), late.stderr
        assert "an earlier spec" in late.stderr
        assert ended(due, revision=TARGET + 1) == 3
        world.operator.start()
        expect_allowed(world, pool, "False", "MaintenanceWindow", named={"MaintenanceWindow"})
        assert account.run("ask.sh", pool, due).returncode == 3
        expect_states(world, {due: "Gated", done: "Gated"})
        assert (plan.selected(world), command.runs) == (set(), 1)
        world.delete(pool)


def pods_of(world: World, space: str) -> dict[str, int]:
    """Return how many pods of Jobs there are in each phase."""
    found = world.get("pods", "-n", space)["items"]
    return dict(Counter(each["status"]["phase"] for each in found))
