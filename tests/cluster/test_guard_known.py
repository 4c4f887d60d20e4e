"""Whether the guard is in force, as the operator tells it: taken away, weakened, put back, not to be seen."""

from __future__ import annotations

import json
import re
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from cluster.guarding import Guard
from harness.identity import Caller
from harness.waiting import eventually
from harness.world import World
from testbed.cluster import Testbed
from winpool.api.admission import BINDINGS, GUARD_NAME, POLICIES
from winpool.api.keys import HOLD_ANNOTATION

Object = dict[str, Any]

ROOT: Final = Path(__file__).parents[2]
MANIFESTS: Final = ROOT / "deploy" / "overlays" / "outside-the-cluster"
METRIC: Final = "winpool_guard_in_force"
HARMS: Final = {
    "policy deleted": ("delete", POLICIES, GUARD_NAME),
    "binding deleted": ("delete", BINDINGS, GUARD_NAME),
    "binding audits": (
        *("patch", BINDINGS, GUARD_NAME, "--type=merge", "-p"),
        json.dumps({"spec": {"validationActions": ["Audit"]}}),
    ),
    "validations changed": (
        *("patch", POLICIES, GUARD_NAME, "--type=json", "-p"),
        json.dumps([{"op": "replace", "path": "/spec/validations/0/expression", "value": "true"}]),
    ),
}
"""What may happen to a guard, by kubectl."""

TRIES: Final = 4
"""Each takes about half a second of CPU."""
SETTLED: Final = 0.9
"""Of the cost before: as cheap as it gets."""
SETTLING_AT_MOST: Final = 8
"""A guard only: that of Kubernetes 1.32 needs more reports than that of 1.37."""
LABELS: Final = 20_000
TIMES_THE_COST: Final = 2.0
"""At most. A policy that iterates over the labels takes 2.5 to 6 times as long, and with more labels more."""


@pytest.fixture
def lab(guard: Guard, tmp_path: Path) -> Iterator[World]:
    """A corner of the control plane whose guard may be taken away; it stands at the start and at the end."""
    guard.install()
    mine = World(guard.testbed, directory=tmp_path)
    try:
        yield mine
    finally:
        put_back(mine)
        mine.close()


def put_back(world: World) -> None:
    world.kubectl("apply", "-k", str(MANIFESTS))


def said_in_log(world: World) -> list[str]:
    """Return what the operator has logged of the guard, in order."""
    lines = [str(line.get("message", "")) for line in world.operator.log_lines()]
    return [line for line in lines if line.startswith("guard: ")]


def identities(world: World) -> list[str]:
    found = [re.search(r"in force \((\w+)\)", line) for line in said_in_log(world)]
    return [match[1] for match in found if match]


def issues(world: World, pool: str) -> list[Object]:
    return [each for each in world.status(pool).get("issues", []) if each["reason"] == "GuardNotInForce"]


def in_force(world: World, pool: str) -> bool:
    return (
        world.operator.metric(METRIC) == 1
        and "conditions" in world.status(pool)  # the API server gives a new pool a status without any
        and not issues(world, pool)
    )


def events(world: World, pool: str) -> list[str]:
    found = world.own_events(kind="WindowsNodePool", name=pool)
    return sorted(each["reason"] for each in found if each["reason"].startswith("Guard"))


@pytest.mark.nightly
@pytest.mark.parametrize("harm", HARMS)
def test_a_guard_that_is_harmed_is_told_of_once_and_comes_back_as_another(lab: World, harm: str) -> None:
    pool = lab.apply(lab.pool())
    lab.operator.start()
    eventually(lambda: in_force(lab, pool), what="the guard in force")
    assert events(lab, pool) == []

    lab.kubectl(*HARMS[harm])
    [issue] = eventually(lambda: issues(lab, pool), what="an issue")
    assert (issue["nodeCount"], issue["nodes"]) == (0, [])
    assert GUARD_NAME in issue["message"]
    assert "kubectl apply -f guard.yaml" in issue["fix"]
    eventually(lambda: lab.operator.metric(METRIC) == 0, what="the metric, made anew each second")
    eventually(lambda: events(lab, pool) == ["GuardMissing"], what="the event")

    put_back(lab)
    eventually(lambda: in_force(lab, pool), what="the guard in force again")
    eventually(
        lambda: events(lab, pool) == ["GuardMissing", "GuardRestored"], what="the event that it is back"
    )
    first, second = identities(lab)
    assert first != second
    states = [line.removeprefix("guard: ").startswith("in force") for line in said_in_log(lab)]
    assert states == [True, False, True], "each change is logged once"


def test_a_restart_of_the_operator_leaves_its_identity(lab: World) -> None:
    pool = lab.apply(lab.pool())
    for _ in range(2):
        lab.operator.start()
        eventually(lambda: in_force(lab, pool), what="the guard in force")
        lab.operator.kill()
    first, second = identities(lab)
    assert first == second
    assert events(lab, pool) == []


@pytest.mark.nightly
def test_without_the_right_to_look_it_says_which_is_missing_and_goes_on(lab: World) -> None:
    names = lab.fleet(windows=1)
    role = json.loads(lab.kubectl("get", "clusterrole", "winpool", "-o", "json"))
    role["rules"] = [rule for rule in role["rules"] if POLICIES not in rule["resources"]]
    lab.kubectl("replace", "-f", "-", stdin=json.dumps(role))
    pool = lab.apply(lab.pool(labels={"example.com/team": "payments"}))
    lab.operator.start()
    lab.wait_up_to_date(pool, nodes=len(names))

    def told() -> bool:
        [issue] = issues(lab, pool)
        assert "admissionregistration.k8s.io" in issue["message"]
        assert f'resources: ["{POLICIES}"]' in issue["message"], issue["message"]
        return True

    eventually(lambda: issues(lab, pool), what="an issue")
    eventually(told, what="the first of the two rights that are missing")
    assert lab.operator.metric(METRIC) == 0
    put_back(lab)
    eventually(lambda: in_force(lab, pool), what="the guard in force", seconds=120)


def test_a_pool_of_trusted_labels_that_nodes_could_get_by_themselves_is_told_so(lab: World) -> None:
    pool = lab.apply(lab.pool(labels={"node-restriction.kubernetes.io/payments": "yes"}))
    lab.operator.start()

    def reasons() -> list[str]:
        found = [each["reason"] for each in lab.status(pool).get("issues", []) if not each["nodeCount"]]
        return [each for each in found if each != "NoNodesSelected"]

    eventually(lambda: reasons() == ["SelectorOpenToKubelets"], what="the issue")
    restricted = {**lab.selector, "node-restriction.kubernetes.io/zone": "trusted"}
    lab.kubectl(
        *("patch", "wnp", pool, "--type=merge", "-p"),
        json.dumps({"spec": {"nodeSelector": {"matchLabels": restricted}}}),
    )
    eventually(lambda: not reasons(), what="no issue any more")


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_a_node_with_20000_labels_costs_a_status_report_no_more_than_without(guard: Guard) -> None:
    guard.install()
    testbed = guard.testbed
    name = "stuffed"
    labels = {f"l.example.com/k{number:05d}": "v" for number in range(LABELS)}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
    testbed.kubectl("create", "-f", "-", stdin=json.dumps(node))
    try:
        with Caller.kubelet(testbed, name) as kubelet:
            server = api_server(testbed)
            wait_settled(kubelet, name, server=server)
            guarded = [*reports(kubelet, name, server=server)]
            assert refuses(kubelet, name)
            testbed.kubectl(*HARMS["policy deleted"])
            eventually(lambda: not refuses(kubelet, name), what="no policy", every=1)
            bare = [*reports(kubelet, name, server=server)]
            testbed.kubectl("apply", "-k", str(MANIFESTS))
            eventually(lambda: refuses(kubelet, name), what="the policy again", every=1)
            guarded += reports(kubelet, name, server=server)
    finally:
        testbed.kubectl("apply", "-k", str(MANIFESTS))
        testbed.kubectl("delete", "node", name)
    assert statistics.median(guarded) <= TIMES_THE_COST * statistics.median(bare), (guarded, bare)


def refuses(kubelet: Caller, node: str) -> bool:
    """Whether the guard is enforced now."""
    held = {"metadata": {"annotations": {HOLD_ANNOTATION: f"{time.monotonic()}"}}}
    return kubelet.patch(f"/api/v1/nodes/{node}", held)[0] == 403


def api_server(testbed: Testbed) -> psutil.Process:
    """Return the process of the API server, which no other test uses meanwhile."""
    [pid] = [each.pid for each in testbed.components() if each.name == "apiserver"]
    return psutil.Process(pid)


def wait_settled(kubelet: Caller, node: str, *, server: psutil.Process) -> None:
    """Report until that gets no cheaper: the first ones cost an API server more, with a guard or without."""
    cost = statistics.median(reports(kubelet, node, server=server))
    for _ in range(SETTLING_AT_MOST):
        before, cost = cost, statistics.median(reports(kubelet, node, server=server))
        if cost > SETTLED * before:
            return


def reports(kubelet: Caller, node: str, *, server: psutil.Process) -> Iterator[float]:
    """Yield how much CPU each of some ordinary status reports takes of the API server, in seconds.

    CPU and not time: how long an answer takes tells more of the other tests that run.
    """
    for number in range(TRIES):
        condition = {"type": "DiskPressure", "status": "False", "reason": f"Try{number}"}
        before = used_by(server)
        answer = kubelet.patch(f"/api/v1/nodes/{node}/status", {"status": {"conditions": [condition]}})
        yield used_by(server) - before
        assert answer[0] == 200, answer


def used_by(process: psutil.Process) -> float:
    used = process.cpu_times()
    return used.user + used.system
