"""What is told of upgrades, in all places where it is told: condition, labels, plan, ``kubectl winpool``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final

from cluster.test_cli_status import winpool
from cluster.told import facts
from cluster.upgrade_ground import LABEL_SECONDS, OURS_ON_A_NODE, STATE_LABEL
from harness.nodes import labels_of
from harness.waiting import eventually
from harness.watcher import Watcher
from harness.world import World

Object = dict[str, Any]

OF_THE_POOL: Final = frozenset(
    {
        "SupportMatrix",
        "EndOfSupport",
        "RevisionFloor",
        "ControlPlane",
        "MaintenanceWindow",
        "PoolHealth",
        "Budget",
    }
)
OF_A_NODE: Final = frozenset({"ReleaseChange", "VersionSkew", "Capacity", "Images", "PodDisruptionBudgets"})
STOPS: Final = frozenset(
    {"PausedBySpec", "DryRun", "PauseRequested", "NotAccepted", "MissingPermission", "Held"}
)
NAMES: Final = OF_THE_POOL | OF_A_NODE | STOPS


@dataclass(frozen=True)
class Stand:
    """What keeps nodes of a pool from being upgraded: ``pool`` all of them, ``nodes`` each that is due."""

    pool: AbstractSet[str] = frozenset()
    nodes: Mapping[str, AbstractSet[str]] = field(default_factory=dict)


def named_in(message: str) -> set[str]:
    """Return the gates and stops that a message lists, but for those that an override opens.

    Each is there as ``NAME: why, and what opens it``, or as ``NAME, on which nodes: why, and what opens it``.
    """
    form = r"(?<![A-Za-z]){}(?:, on [^:]*)?: \S"
    return {name for name in NAMES if re.search(form.format(name), message)}


# The condition


def allowed(world: World, pool: str) -> tuple[str, str, str]:
    """Return status, reason and message of UpgradeAllowed, of the current generation; empty before."""
    found = world.get("wnp", pool)
    status = found.get("status", {})
    if status.get("observedGeneration") != found["metadata"]["generation"]:
        return ("", "", "")
    told: Object = next((each for each in status["conditions"] if each["type"] == "UpgradeAllowed"), {})
    assert told.get("observedGeneration", status["observedGeneration"]) == status["observedGeneration"]
    return told.get("status", ""), told.get("reason", ""), told.get("message", "")


def expect_allowed(
    world: World, pool: str, status: str, *reasons: str, named: AbstractSet[str] = frozenset()
) -> str:
    """Return the message of UpgradeAllowed once it has this status, such a reason, and names just these.

    Of what holds for single nodes only it may name more or less: of that the plan is the judge.
    """

    def told() -> str:
        seen, reason, message = allowed(world, pool)
        assert (seen, reason in reasons) == (status, True), (seen, reason, message)
        assert named_in(message) & (OF_THE_POOL | STOPS - {"Held"}) == set(named), message
        return message or " "

    return eventually(told, what=f"UpgradeAllowed={status} of {pool}: {sorted(named)}", every=0.3)


# Labels


def states(world: World) -> dict[str, str | None]:
    """Return the label ``winpool.dev/upgrade-state`` of each node of the test."""
    return {name: labels_of(node).get(STATE_LABEL) for name, node in world.nodes().items()}


def expect_states(world: World, wanted: Mapping[str, str | None], *, seconds: float = LABEL_SECONDS) -> None:
    """Return when the labels of these nodes say this."""

    def told() -> bool:
        found = states(world)
        assert {name: found[name] for name in wanted} == dict(wanted)
        return True

    eventually(told, what="the labels of upgrades", seconds=seconds, every=0.5)


def told_states(witness: Watcher) -> dict[str, list[str | None]]:
    """Return what the label of each node has said, one after the other, each once."""
    found: dict[str, list[str | None]] = {}
    for name, seen in witness.states.items():
        said = found.setdefault(name, [])
        for each in seen:
            state = labels_of(each).get(STATE_LABEL)
            if not said or said[-1] != state:
                said.append(state)
    return found


# What the operator wrote


def foreign_changes(before: Mapping[str, Object], after: Mapping[str, Object]) -> dict[str, Object]:
    """Return what differs of nodes, as ``World.carried`` has them, beside our own labels and our record."""
    found = {}
    for name in before.keys() & after.keys():
        one, other = (_without_ours(each[name]) for each in (before, after))
        if one != other:
            found[name] = {key: (one[key], other[key]) for key in one if one[key] != other[key]}
    return found


def _without_ours(node: Object) -> Object:
    return {
        key: {each: text for each, text in value.items() if each not in OURS_ON_A_NODE[key]}
        if key in OURS_ON_A_NODE
        else value
        for key, value in node.items()
    }


def kinds_written(world: World, *, since: Any) -> set[tuple[str, str, str]]:
    """Return verb, resource and subresource of all that the operator wrote."""
    return {(each.verb, each.resource, each.subresource) for each in world.writes(since=since)}


# The plugin


def plan(world: World, *arguments: str, stdin: str = "") -> Object:
    """Return what ``kubectl winpool plan … -o json`` says of the one pool that it is about."""
    done = winpool(world.testbed.kubeconfig("admin"), "plan", *arguments, "-o", "json", stdin=stdin)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr or done.stdout
    [pool] = json.loads(done.stdout)["pools"]
    return dict(pool)


def stand_of(planned: Object) -> Stand:
    """Return what a plan says that keeps nodes from being upgraded."""
    gates = {each["gate"] for each in planned["gates"] if not each["permits"]}
    return Stand(
        pool=gates | {each["name"] for each in planned["stops"]},
        nodes={
            each["node"]: {gate["gate"] for gate in each["closedGates"]}
            | {stop["name"] for stop in each["stops"]}
            for each in planned["steps"]
        },
    )


def expect_plan(world: World, pool: str, wanted: Stand) -> Object:
    """Return the plan of a pool once it says just this."""
    seen: list[Object] = []

    def told() -> bool:
        seen.append(plan(world, pool))
        found = stand_of(seen[-1])
        assert found.pool == wanted.pool, explained(seen[-1])
        assert found.nodes == wanted.nodes, explained(seen[-1])
        return True

    eventually(told, what=f"the plan of {pool}", every=1.0)
    return seen[-1]


def explained(planned: Object) -> str:
    """Return what a plan says of all that is closed, for a test that fails."""
    said = [f"{each['gate']}: {each['message']}" for each in planned["gates"] if not each["permits"]]
    said += [f"{each['name']}: {each['message']}" for each in planned["stops"]]
    for step in planned["steps"]:
        said += [f"{step['node']} {each['gate']}: {each['message']}" for each in step["closedGates"]]
        said += [f"{step['node']} {each['name']}: {each['message']}" for each in step["stops"]]
    return "\n".join(said)


def why(world: World, node: str) -> tuple[int, set[str], str]:
    """Return the exit code of ``kubectl winpool why``, all that is closed, and its text."""
    kubeconfig = world.testbed.kubeconfig("admin")
    done = winpool(kubeconfig, "why", node)
    assert done.stderr == "", done.stderr
    told = json.loads(winpool(kubeconfig, "why", node, "-o", "json").stdout)
    closed = {each["gate"] for each in told["gates"] if not each["permits"]}
    return done.returncode, closed | {each["name"] for each in told["stops"]}, done.stdout


def reason_of(world: World, pool: str, kind: str) -> tuple[str, str]:
    """Return status and reason of a condition of a pool."""
    return facts(world.status(pool)).get(kind, ("", ""))
