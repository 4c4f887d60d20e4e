"""What the tests of a pool's STATE share: the order of the states, refusing policies, odd machines, readers.

The order, the reasons and the shape of an issue are those of the design; they are written out here so that no
table of the operator's own can make a test agree with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

from cluster.door import a_node_manifest
from cluster.kstatus import Status, compute
from cluster.told import facts
from harness.nodes import is_settled
from harness.operator import USER
from harness.waiting import eventually
from harness.world import World
from testbed.pins import chosen_pins
from winpool.api.keys import APPLIED_ANNOTATION

Object = dict[str, Any]

CONTROL_PLANE: Final = chosen_pins().kubernetes
"""Its version, and that of kubelets that are as new."""
TEAM: Final = "example.com/team"
LABELS: Final[Object] = {TEAM: "payments"}
OS_UNSUPPORTED: Final = (
    "BuildUnsupported",
    "SupportEnded",
    "RevisionBelowFloor",
    "VersionSkew",
    "RuntimeTooOld",
)
"""The reasons for which OSSupported is False; among themselves they have no order that is promised."""
STATES: Final = (
    "Deleting",
    "SpecRejected",
    "MissingPermission",
    "PoolOverlap",
    "OwnerUnknown",
    "TooFewAvailable",
    "WriteRefused",
    "Paused",
    "DryRun",
    "SystemicPressure",
    "TaintsHeld",
    "ValidationTimedOut",
    "UpgradeFailed",
    "DrainBlocked",
    "NodesUnhealthy",
    "SettleTimedOut",
    "PodListFailing",
    "UpgradeInProgress",
    "RolloutInProgress",
    "ValidatingNodes",
    "NodesUnderPressure",
    "NodesHeld",
    *OS_UNSUPPORTED,
    "PodsUnreadable",
    "MemoryMismatch",
    "UpgradeDue",
    "BuildUnknown",
    "NoNodesSelected",
    "UpToDate",
)
"""What STATE may say, the worst first."""
OF_MEMORY: Final = ("SystemicPressure", "NodesUnderPressure")
"""Those that need kubelets with memory: ``test_memory_standing_aside`` has their scenes."""
OF_ROLLOUTS: Final = (
    "UpgradeFailed",
    "DrainBlocked",
    "NodesUnhealthy",
    "SettleTimedOut",
    "UpgradeInProgress",
)
"""Those that need a rollout: ``test_rollout`` and ``test_rollout_report`` have their scenes."""
NOT_READY: Final = frozenset(STATES[: STATES.index("Paused")])
"""The states in which Ready is False."""
WIDTH: Final = 80
SHOWN: Final = 3
"""As many names of nodes as an issue has."""
MAX_ISSUES: Final = 10
PROBE: Final = "example.com/probe"
COUNTED: Final = re.compile(r"\b\d+ (?:of \d+ )?(?:more |other )?(?:nodes?|pods?)\b")
"""A number of nodes or pods, as a sentence says it."""


# What a pool says


def state(world: World, pool: str) -> str:
    """Return the STATE of a pool that tells of its current generation; empty before."""
    found = world.get("wnp", pool)
    status = found.get("status", {})
    if status.get("observedGeneration") != found["metadata"]["generation"]:
        return ""
    return facts(status).get("Ready", ("", ""))[1]


def expect_state(world: World, pool: str, wanted: str) -> Object:
    """Return the pool, as it was read, once its STATE is this one for its current generation."""

    def told() -> Object:
        found = world.get("wnp", pool)
        status = found.get("status", {})
        assert status.get("observedGeneration") == found["metadata"]["generation"]
        ready = facts(status).get("Ready")
        assert ready == (ready_status(wanted), wanted), json.dumps(status, indent=1)
        return found

    return eventually(told, what=f"{pool} in the state {wanted}")


def ready_status(wanted: str) -> str:
    """Return the status that Ready has in this state."""
    return "False" if wanted in NOT_READY else "True"


def read(world: World, pool: str) -> Status:
    """Return what a gate makes of the pool now."""
    return compute(world.get("wnp", pool))


def issue(status: Object, reason: str) -> Object:
    """Return the one issue with that reason; fails where there is another number of them."""
    found = [each for each in status.get("issues", []) if each["reason"] == reason]
    assert len(found) == 1, f"{len(found)} issues {reason} in {status.get('issues')}"
    return dict(found[0])


def await_issue(world: World, pool: str, reason: str, *, nodes: int) -> Object:
    """Return the one issue with that reason once it is about so many nodes."""

    def told() -> Object:
        found = issue(world.status(pool), reason)
        assert found["nodeCount"] == nodes, found
        return found

    return eventually(told, what=f"one issue {reason} about {nodes} nodes in {pool}")


def assert_issues(status: Object, *, names: Iterable[str]) -> None:
    """Assert that the issues are of the promised form; ``names`` are all nodes that there are."""
    known = set(names)
    found = status.get("issues", [])
    assert len(found) <= MAX_ISSUES
    assert status["issueCount"] >= len(found)
    causes = [(each["reason"], each["message"]) for each in found]
    assert len(set(causes)) == len(causes), f"one trouble told twice: {causes}"
    for each in found:
        assert set(each) <= {"reason", "nodeCount", "nodes", "since", "message", "fix"}, each
        assert each["message"], each
        assert each["fix"], each
        shown = each["nodes"]
        assert shown == sorted(set(shown)), each
        assert len(shown) == min(each["nodeCount"], SHOWN), each
        assert set(shown) <= known, each
        assert [name for name in known if name in each["message"]] == [], each
        assert COUNTED.findall(each["message"]) == [], each


def events_about(world: World, *, pool: str, reason: str) -> list[Object]:
    """Return the events of that reason about a pool that the operator emitted."""
    found = world.own_events(kind="WindowsNodePool", name=pool)
    return [each for each in found if each["reason"] == reason]


def await_event(world: World, *, pool: str, reason: str) -> Object:
    """Return the one event of that reason about a pool."""
    eventually(lambda: events_about(world, pool=pool, reason=reason), what=f"the event {reason} of {pool}")
    found = events_about(world, pool=pool, reason=reason)
    assert len(found) == 1, found
    return found[0]


def told_of_nodes(world: World, names: Iterable[str], reason: str) -> set[str]:
    """Return the names of those nodes that have an event of that reason from the operator."""
    return {name for name in names if reason in world.reasons(kind="Node", name=name)}


# What kubectl shows


def described(world: World, pool: str) -> list[str]:
    """Return the lines of ``kubectl describe`` that are the status, without those of the events."""
    lines = world.kubectl("describe", "wnp", pool).splitlines()
    begin = lines.index("Status:")
    end = next(index for index, line in enumerate(lines) if line.startswith("Events:"))
    return lines[begin + 1 : end]


def described_issues(lines: Iterable[str]) -> list[list[str]]:
    """Return the lines that each issue takes in those of ``described``."""
    found: list[list[str]] = []
    inside = False
    for line in lines:
        depth = len(line) - len(line.lstrip())
        if line.strip() == "Issues:":
            inside = True
        elif inside and depth <= 2:
            break
        elif inside:
            # The fields of a map are sorted: the first of each issue is its fix.
            if line.strip().startswith("Fix:"):
                found.append([])
            found[-1].append(line)
    return found


def sentences(lines: Iterable[str]) -> list[str]:
    """Return all sentences that messages and fixes among these lines are made of."""
    texts = [
        value.strip()
        for name, colon, value in (line.strip().partition(":") for line in lines)
        if colon and name in ("Message", "Fix")
    ]
    return [
        sentence.strip().rstrip(".")
        for text in texts
        for sentence in re.split(r"(?<=[.!?])\s+", text)
        if sentence.strip()
    ]


def columns(world: World, pool: str, *arguments: str) -> dict[str, str]:
    """Return the one row that ``kubectl get`` prints of a pool, by the names of its columns."""
    header, row = world.kubectl("get", "wnp", pool, *arguments).splitlines()
    return dict(zip(header.split(), row.split(), strict=True))


# What is put in the way


@contextmanager
def denying(world: World, nodes: Iterable[str], *, why: str) -> Iterator[None]:
    """Have a policy deny all that the operator writes to these nodes; it names the node in what it says.

    ``why`` ends each of its sentences.
    """
    name = f"deny-{world.suffix}"
    listed = ", ".join(f"'{each}'" for each in nodes)
    kind: Object = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes"]}
    ours = f"object.metadata.name in [{listed}] && request.userInfo.username == '{USER}'"
    probed = f"'{PROBE}' in object.metadata.labels"
    policy: Object = {
        **kind,
        "kind": "ValidatingAdmissionPolicy",
        "spec": {
            # Else it would be asked about the nodes of other tests too.
            "matchConstraints": {
                "resourceRules": [rule],
                "objectSelector": {"matchLabels": world.selector},
            },
            "validations": [
                {
                    "expression": f"!({probed}) && !({ours})",
                    "messageExpression": f"'no changes to ' + object.metadata.name + ' {why}'",
                }
            ],
        },
    }
    binding: Object = {
        **kind,
        "kind": "ValidatingAdmissionPolicyBinding",
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    probe = min(world.nodes())
    for each in (policy, binding):
        world.kubectl("apply", "-f", "-", stdin=json.dumps(each))
    try:
        eventually(
            lambda: (
                why in world.kubectl("label", "node", probe, f"{PROBE}=yes", "--dry-run=server", check=False)
            ),
            what="the policy is in force",
            every=0.2,
        )
        yield
    finally:
        for each in (binding, policy):
            world.kubectl("delete", each["kind"], name)


def a_machine(
    world: World,
    name: str,
    *,
    kernel: str = "10.0.20348.4052",
    kubelet: str = CONTROL_PLANE,
    runtime: str = "containerd://2.4.2",
) -> str:
    """Create a Ready node without a kubelet, so that it goes on to say of itself what it is told to here."""
    world.kubectl("create", "-f", "-", stdin=a_node_manifest(name, labels=world.selector))
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    info = {
        **dict.fromkeys(("architecture", "bootID", "kubeProxyVersion", "machineID", "systemUUID"), "x"),
        "operatingSystem": "windows",
        "osImage": "Windows Server",
        "kernelVersion": kernel,
        "kubeletVersion": kubelet,
        "containerRuntimeVersion": runtime,
    }
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "said by a test",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    patch = json.dumps({"status": {"nodeInfo": info, "conditions": [ready]}})
    world.kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", patch)
    eventually(lambda: is_settled(world.node(name)), what=f"{name} Ready")
    return name


def annotate(world: World, node: str, record: str) -> None:
    """Have a cluster admin write this as the ownership record of a node."""
    patch = json.dumps({"metadata": {"annotations": {APPLIED_ANNOTATION: record}}})
    world.kubectl("patch", "node", node, "--type=merge", "-p", patch)


def let_go_by_force(world: World, pool: str) -> None:
    """Delete a pool and take its finalizer off by hand, as people in a hurry do; return when it is gone."""
    world.delete(pool, wait=False)
    world.kubectl("patch", "wnp", pool, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    eventually(lambda: pool not in world.pools(), what="the pool is gone")
