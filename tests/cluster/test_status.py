"""What a pool says about itself, and how people and tools read it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.conditions import is_listed
from harness.nodes import labels_of
from harness.waiting import eventually
from harness.watcher import version_of
from harness.world import World
from winpool.api.conditions import ConditionType

COLUMNS = ["NAME", "OS", "NODES", "READY", "UP-TO-DATE", "STATE", "AGE"]
WIDTH = 80
COUNTS = ("nodes", "readyNodes", "upToDateNodes", "upToDateAndReadyNodes", "availableNodes")
EDITS = 4
OF_BLOCKS = (ConditionType.MEMORY_HEALTHY, ConditionType.UPGRADE_ALLOWED)
"""Conditions that are there only where the spec has the block that they are about."""


def test_a_converged_pool_has_all_conditions_with_listed_reasons_and_all_counts(world: World) -> None:
    world.fleet(windows=3, linux=1)
    pool = world.apply(world.pool(labels={"example.com/team": "payments"}))
    assert world.status(pool) == {"observedGeneration": -1}
    world.operator.start()
    status = world.wait_up_to_date(pool, nodes=3)
    assert facts(status) == {
        "Ready": ("True", "UpToDate"),
        "Accepted": ("True", "Accepted"),
        "Available": ("True", "NodesAvailable"),
        "NodesUpToDate": ("True", "UpToDate"),
        "OSSupported": ("True", "NodesSupported"),
        "Reconciling": ("False", "Settled"),
        "Stalled": ("False", "NotStalled"),
        "Paused": ("False", "NotPaused"),
        "Deleting": ("False", "NotDeleting"),
    }
    assert_well_formed(world.get("wnp", pool))
    assert [status[count] for count in COUNTS] == [3, 3, 3, 3, 3]
    assert status.get("issues", []) == []


def test_a_pool_that_selects_no_node_is_ready_and_counts_zeros(world: World) -> None:
    pool = world.apply(world.pool(labels={"example.com/team": "payments"}))
    world.operator.start()
    status = world.wait_up_to_date(pool)
    assert [status.get(count) for count in COUNTS] == [0, 0, 0, 0, 0]
    for condition in ("Ready", "Available", "NodesUpToDate"):
        assert facts(status)[condition] == ("True", "NoNodesSelected")
    assert facts(status)["Reconciling"] == ("False", "Settled")
    assert_well_formed(world.get("wnp", pool))


@pytest.mark.nightly
def test_cordons_reduce_available_nodes_and_nothing_is_written_to_nodes_because_of_them(world: World) -> None:
    names = world.fleet(windows=4)
    pool = world.apply(world.pool(labels={"example.com/team": "payments"}))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=4)
    applied = world.carried()
    start = world.now()

    world.kubectl("cordon", names[0])
    eventually(lambda: world.status(pool)["availableNodes"] == 3, what="one node fewer available")
    assert facts(world.status(pool))["Available"] == ("True", "NodesAvailable")
    world.kubectl("cordon", names[1])
    eventually(
        lambda: facts(world.status(pool))["Available"] == ("False", "TooFewAvailable"),
        what="Available False",
    )
    status = world.status(pool)
    assert facts(status)["Ready"] == ("False", "TooFewAvailable")
    assert facts(status)["NodesUpToDate"] == ("True", "UpToDate")
    assert [status[count] for count in COUNTS] == [4, 4, 4, 4, 2]
    assert_well_formed(world.get("wnp", pool))
    world.kubectl("uncordon", names[0], names[1])
    eventually(lambda: facts(world.status(pool))["Ready"] == ("True", "UpToDate"), what="Ready again")
    # Ready is back with the first of the two.
    eventually(lambda: world.status(pool)["availableNodes"] == 4, what="both nodes available")
    assert world.node_patches(since=start) == []
    eventually(lambda: world.carried() == applied, what="the taints of cordoned nodes gone")


def test_nodes_whose_kubelets_die_are_counted_out_and_keep_what_they_carry(world: World) -> None:
    [alive] = world.fleet(windows=1)
    dying = world.fleet(windows=2)
    pool = world.apply(world.pool(labels={"example.com/team": "payments"}))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=3)
    start = world.now()
    world.kill_kubelets(dying[0])
    # What the controller manager writes after 50 s of silence, written now.
    silent = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
    patch = json.dumps({"status": {"conditions": [silent]}})
    world.kubectl("patch", "node", *dying, "--subresource=status", "--type=strategic", "-p", patch)
    eventually(lambda: world.status(pool)["readyNodes"] == 1, what="the silent nodes counted out")
    status = world.status(pool)
    assert facts(status)["Available"] == ("False", "TooFewAvailable")
    assert facts(status)["Ready"] == ("False", "TooFewAvailable")
    assert facts(status)["NodesUpToDate"] == ("True", "UpToDate")
    assert [status[count] for count in COUNTS] == [3, 1, 3, 1, 1]
    assert_well_formed(world.get("wnp", pool))
    assert world.node_patches(since=start) == []
    for name in (alive, *dying):
        assert labels_of(world.node(name))["example.com/team"] == "payments"


def test_no_status_claims_a_generation_that_nodes_do_not_carry_yet(world: World) -> None:
    """Every status is held against the nodes as they were when it was stored (P9)."""
    world.fleet(windows=12)
    pool = world.apply(generation_of_spec(world, 0))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=12)
    with world.watch_nodes() as nodes, world.watch_pool(pool) as pools:
        for number in range(1, EDITS):
            world.apply(
                generation_of_spec(world, number)
            )  # two at once: the second meets the first half done
            if number % 2 == 0:
                world.wait_up_to_date(pool, nodes=12)
        world.wait_up_to_date(pool, nodes=12)
        nodes.catch_up(world.nodes().values())
        pools.catch_up([world.get("wnp", pool)])
    states = pools.states[pool]
    wanted = {state["metadata"]["generation"]: number_of(state["spec"]["labels"]) for state in states}
    assert len(wanted) == EDITS
    claims = 0
    for state in states:
        status = state["status"]
        assert status["observedGeneration"] <= state["metadata"]["generation"]
        carried = [number_of(labels_of(nodes.at(name, version_of(state)))) for name in nodes.states]
        for condition in status["conditions"]:
            assert condition["observedGeneration"] <= status["observedGeneration"]
            if condition["type"] == "NodesUpToDate" and condition["status"] == "True":
                assert min(carried) >= wanted[condition["observedGeneration"]]
                claims += 1
        there = [number for number in carried if number >= wanted[status["observedGeneration"]]]
        assert status["upToDateNodes"] <= len(there)
    assert claims >= 2


def test_kubectl_get_shows_seven_columns_within_80_characters(world: World) -> None:
    world.fleet(windows=3)
    longest = world.pool("a-16-char")
    assert len(longest["metadata"]["name"]) == 16
    pool = world.apply(longest)
    assert_fits(world.kubectl("get", "wnp", pool))  # before anything is known about it
    world.operator.start()
    world.wait_up_to_date(pool, nodes=3)
    table = world.kubectl("get", "wnp", pool)
    assert_fits(table)
    assert table.splitlines()[1].split()[:-1] == [pool, "2022", "3", "3", "3", "UpToDate"]
    assert world.kubectl("get", "windowspools", pool) != ""

    [header, row] = world.kubectl("get", "wnp", pool, "-o", "wide").splitlines()
    shown = dict(zip(header.split(), row.split(), strict=True))
    added = ("MODE", "AVAILABLE", "SUPPORTED", "ISSUES", "BLOCKED", "PRESSURED")
    assert tuple(shown[column] for column in added) == ("Active", "3", "True", "0", "0", "0")
    selected = world.kubectl(
        "get", "wnp", "--field-selector", "spec.os.version=2022,spec.mode=Active", "-o", "name"
    )
    assert f"windowsnodepool.winpool.dev/{pool}" in selected


def test_kubectl_wait_ends_when_the_nodes_carry_the_spec_and_not_before(world: World) -> None:
    world.fleet(windows=3)
    pool = world.apply(generation_of_spec(world, 1))
    early = world.kubectl("wait", "--for=condition=NodesUpToDate", f"wnp/{pool}", "--timeout=1s", check=False)
    assert "timed out" in early
    world.operator.start()
    world.kubectl("wait", "--for=condition=NodesUpToDate", f"wnp/{pool}", "--timeout=30s")
    assert {number_of(labels_of(node)) for node in world.nodes().values()} == {1}
    world.kubectl("wait", "--for=jsonpath={.status.upToDateNodes}=3", f"wnp/{pool}", "--timeout=30s")
    world.kubectl("wait", "--for=condition=Ready", f"wnp/{pool}", "--timeout=30s")
    # Right after an edit the old answer must not pass for the new one.
    world.apply(generation_of_spec(world, 2))
    world.kubectl("wait", "--for=condition=NodesUpToDate", f"wnp/{pool}", "--timeout=30s")
    assert {number_of(labels_of(node)) for node in world.nodes().values()} == {2}


def test_kubectl_describe_and_kubectl_events_show_the_events_of_a_pool(world: World) -> None:
    world.fleet(windows=2)
    pool = world.apply(world.pool(labels={"example.com/team": "payments"}))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=2)

    def described() -> bool:
        _, found, events = world.kubectl("describe", "wnp", pool).partition("\nEvents:")
        return bool(found) and "RolloutCompleted" in events

    eventually(described, what="the event in kubectl describe")
    assert "RolloutCompleted" in world.kubectl("events", "--for", f"wnp/{pool}")
    [event] = world.own_events(kind="WindowsNodePool", name=pool)
    assert event["type"] == "Normal"
    assert event["message"]
    assert event["action"] == "UpdateNodes"


def test_nothing_is_up_to_date_while_writes_to_nodes_are_held(world: World) -> None:
    world.fleet(windows=3)
    with world.write_gate(passes=1) as gate:
        pool = world.apply(world.pool(labels={"example.com/team": "payments"}))
        world.operator.start()
        eventually(lambda: gate.held, what="a write to a node is held")
        eventually(
            lambda: facts(world.status(pool)).get("NodesUpToDate", ("False",))[0] == "False",
            what="NodesUpToDate not True",
        )
        world.operator.kill()
        status = world.status(pool)
        assert facts(status).get("NodesUpToDate", ("Unknown", ""))[0] != "True"
        assert status.get("upToDateNodes", 0) <= 1
    world.operator.start()
    world.wait_up_to_date(pool, nodes=3)


def generation_of_spec(world: World, number: int) -> dict[str, Any]:
    return world.pool(labels={"example.com/generation": f"g{number}"})


def number_of(labels: dict[str, str]) -> int:
    return int(labels["example.com/generation"].removeprefix("g"))


def facts(status: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each["reason"]) for each in status.get("conditions", [])}


def assert_well_formed(pool: dict[str, Any]) -> None:
    status = pool["status"]
    generation = pool["metadata"]["generation"]
    assert status["observedGeneration"] == generation
    assert {each["type"] for each in status["conditions"]} == {
        str(each) for each in ConditionType if each not in OF_BLOCKS
    }
    for each in status["conditions"]:
        assert is_listed(each["type"], each["status"], each["reason"]), json.dumps(each)
        assert each["observedGeneration"] == generation
        assert each["message"]
        assert each["lastTransitionTime"]


def assert_fits(table: str) -> None:
    header, *rows = table.splitlines()
    assert header.split() == COLUMNS
    assert rows
    assert [line for line in (header, *rows) if len(line) > WIDTH] == []


@pytest.mark.nightly
def test_a_status_that_cannot_be_read_is_written_anew_before_any_node(world: World) -> None:
    """Somebody adds a condition whose time no reader but the API server's takes; an apply would leave it."""
    [node] = world.fleet(windows=1)
    pool = world.apply(world.pool(labels={"example.com/team": "payments"}))
    world.operator.start()
    known = world.wait_up_to_date(pool, nodes=1)
    eventually(lambda: world.reasons(kind="WindowsNodePool", name=pool), what="the event RolloutCompleted")
    told = world.reasons(kind="WindowsNodePool", name=pool)
    world.operator.kill()

    strange = {**known["conditions"][0], "type": "Strange", "lastTransitionTime": "0000-01-01T00:00:00Z"}
    patch = json.dumps({"status": {"conditions": [*known["conditions"], strange]}})
    world.kubectl("patch", "wnp", pool, "--subresource=status", "--type=merge", "-p", patch)
    assert len(world.status(pool)["conditions"]) == len(known["conditions"]) + 1
    world.kubectl("label", "node", node, "example.com/team-")
    start = world.now()
    world.operator.start()
    eventually(lambda: "example.com/team" in labels_of(world.node(node)), what="the label repaired")

    written = [each.resource for each in world.writes(since=start) if each.resource != "events"]
    assert "nodes" in written
    assert written.index("windowsnodepools") < written.index("nodes")
    eventually(lambda: facts(world.status(pool)) == facts(known), what="the status as it was")
    world.end_operator()
    assert set(world.reasons(kind="WindowsNodePool", name=pool)) == set(told)
