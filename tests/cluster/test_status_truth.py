"""A status that is never green over trouble: releases and revisions, waits that pass on nothing, one reason.

Issue 15, §1: "Wrong release is never green", "Waits do not pass on nothing", "One reason for one cause",
"DryRun steps show what changes".
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from cluster.kstatus import Status
from cluster.pods import pods_in
from cluster.told import expect, facts
from cluster.truth import (
    CONTROL_PLANE,
    LABELS,
    TEAM,
    assert_issues,
    await_event,
    await_issue,
    columns,
    events_about,
    expect_state,
    issue,
    read,
)
from harness.faulty import through_proxy
from harness.nodes import labels_of, taints_of
from harness.operator import USER
from harness.waiting import eventually, holds
from harness.world import World
from testbed.faults import answer, on
from winpool.api.keys import OS_VERSION_LABEL
from winpool.cli.__main__ import main

Object = dict[str, Any]

ROOT: Final = Path(__file__).parents[2]
WAITING: Final = {
    "NodesUpToDate": ("False", "WaitingForActor"),
    "Reconciling": ("False", "Settled"),
    "Stalled": ("False", "NotStalled"),
    "Available": ("True", "NodesAvailable"),
}
"""What a pool says while it is a person's turn."""
BUILD: Final = "10.0.22631"
"""That of the sample ``windows-11``, which no release of Windows Server has."""


def waits_in_vain(world: World, pool: str, condition: str) -> bool:
    """Whether ``kubectl wait`` for a condition does not end within a second."""
    said = world.kubectl("wait", f"--for=condition={condition}", f"wnp/{pool}", "--timeout=1s", check=False)
    return "timed out" in said


# Wrong release


def test_a_pool_over_nodes_of_another_release_is_not_green_and_waits_for_a_person(world: World) -> None:
    """§1: "Wrong release is never green": NodesUpToDate=False WaitingForActor, Ready True UpgradeDue."""
    names = world.fleet(windows=4)
    pool = world.apply(world.pool(labels=LABELS, os={"version": "2025"}))
    world.operator.start()
    status = expect_state(world, pool, "UpgradeDue")["status"]
    expect(world, pool, **WAITING)
    assert (status["nodes"], status["upToDateNodes"], status["upToDateAndReadyNodes"]) == (4, 0, 0)
    found = await_issue(world, pool, "OSVersionMismatch", nodes=4)
    assert found["nodes"] == names[:3]
    assert "2022" in found["message"]
    assert "2025" in found["message"]
    assert_issues(world.status(pool), names=names)
    shown = columns(world, pool)
    assert (shown["OS"], shown["NODES"], shown["UP-TO-DATE"], shown["STATE"]) == (
        "2025",
        "4",
        "0",
        "UpgradeDue",
    )
    assert read(world, pool) is Status.CURRENT, "GitOps stays green while a person's turn lasts"
    eventually(
        lambda: world.operator.metric("winpool_nodes", pool=pool, state="UpgradeDue") == 4,
        what='winpool_nodes{state="UpgradeDue"}',
    )

    world.apply(world.pool(labels=LABELS))
    expect_state(world, pool, "UpToDate")
    assert world.status(pool)["upToDateNodes"] == 4
    assert world.status(pool)["issues"] == []
    eventually(
        lambda: world.operator.metric("winpool_nodes", pool=pool, state="UpgradeDue") == 0,
        what="nothing due any more",
    )


@pytest.mark.nightly
def test_labels_and_taints_are_waited_for_by_reconciling_and_rollout_completed_follows_it(
    world: World,
) -> None:
    """§1: '"Labels and taints are on" is waited for by `--for=condition=Reconciling=False`'."""
    world.fleet(windows=2)
    pool = world.apply(world.pool(labels=LABELS, os={"version": "2025"}))
    with world.write_gate(passes=0) as gate:
        world.operator.start()
        eventually(lambda: gate.held, what="a write to a node is held")
        expect(world, pool, Reconciling=("True", "RolloutInProgress"))
        assert waits_in_vain(world, pool, "Reconciling=False")
        assert events_about(world, pool=pool, reason="RolloutCompleted") == []
    # What the gate held is refused in the end, and a refused write is not in work either.
    expect(world, pool, Ready=("True", "UpgradeDue"))
    world.kubectl("wait", "--for=condition=Reconciling=False", f"wnp/{pool}", "--timeout=60s")
    assert {labels_of(node).get(TEAM) for node in world.nodes().values()} == {"payments"}
    assert waits_in_vain(world, pool, "NodesUpToDate"), "the nodes still run another release"
    await_event(world, pool=pool, reason="RolloutCompleted")

    world.apply(world.pool(labels={TEAM: "billing"}, os={"version": "2025"}))
    world.kubectl("wait", "--for=condition=Reconciling=False", f"wnp/{pool}", "--timeout=60s")
    assert {labels_of(node).get(TEAM) for node in world.nodes().values()} == {"billing"}


def test_a_node_below_the_target_revision_is_due_and_one_above_it_is_not(world: World) -> None:
    """§1: "where `targetRevision` is set, its revision at least that"; finding OSRevisionBehind."""
    current, behind = world.fleet(windows=2)  # 10.0.20348.4052 and .1607

    def asking(target: int) -> Object:
        return world.pool(labels=LABELS, os={"version": "2022", "targetRevision": target})

    pool = world.apply(asking(1607))
    world.operator.start()
    expect_state(world, pool, "UpToDate")
    world.apply(asking(1608))
    expect_state(world, pool, "UpgradeDue")
    expect(world, pool, **WAITING)
    found = await_issue(world, pool, "OSRevisionBehind", nodes=1)
    assert found["nodes"] == [behind]
    assert "1608" in found["message"]
    status = world.status(pool)
    assert (status["nodes"], status["upToDateNodes"]) == (2, 1)
    assert facts(status)["OSSupported"] == ("True", "NodesSupported"), "behind is not unsupported"

    world.apply(asking(5000))
    found = await_issue(world, pool, "OSRevisionBehind", nodes=2)
    assert found["nodes"] == sorted([current, behind])
    assert world.status(pool)["upToDateNodes"] == 0
    assert [each for each in world.status(pool)["issues"] if each["reason"] == "OSVersionMismatch"] == []


def test_where_only_unknown_nodes_are_left_nobody_says_that_they_are_up_to_date_or_not(world: World) -> None:
    """§1: "(only unknown nodes left: Unknown, `BuildUnknown`)"."""
    fine, garbage = world.fleet(samples=[f"2022@{CONTROL_PLANE}", "garbage"])
    pool = world.apply(world.pool(labels=LABELS))
    world.operator.start()
    expect_state(world, pool, "BuildUnknown")
    status = expect(world, pool, NodesUpToDate=("Unknown", "BuildUnknown"), Reconciling=("False", "Settled"))
    assert (status["nodes"], status["upToDateNodes"]) == (2, 1)
    assert await_issue(world, pool, "BuildUnknown", nodes=1)["nodes"] == [garbage]
    assert waits_in_vain(world, pool, "NodesUpToDate")
    # As soon as one node is known to be behind, that is what people can do something about.
    world.apply(world.pool(labels=LABELS, os={"version": "2022", "targetRevision": 4052}))
    expect_state(world, pool, "UpgradeDue")
    expect(world, pool, **WAITING)
    assert await_issue(world, pool, "OSRevisionBehind", nodes=1)["nodes"] == [fine]


def test_a_release_that_nobody_knows_is_a_warning_at_validate_and_an_issue(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """§1: 'A release that nobody knows ("2023") is a warning at `validate` and an issue'."""
    world.fleet(windows=2)
    manifest = world.pool(labels=LABELS, os={"version": "2023"})
    file = tmp_path / "pool.json"
    file.write_text(json.dumps(manifest))
    code = main(["validate", "-f", str(file)])
    printed = capsys.readouterr()
    said = printed.out + printed.err
    assert code == 0, "it may be newer than our data"
    assert [line for line in said.splitlines() if "2023" in line and "warning" in line.lower()], said

    pool = world.apply(manifest)
    world.operator.start()
    found = await_issue(world, pool, "OSVersionUnknown", nodes=0)
    assert found["nodes"] == []
    assert "2023" in found["message"]
    expect_state(world, pool, "UpgradeDue")
    assert world.status(pool)["upToDateNodes"] == 0


def test_a_row_names_the_build_of_a_release_that_is_newer_than_our_data(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """§1: "rows of `supportMatrix` gain `build`, so that a release newer than our data can be named"."""
    [name] = world.fleet(samples=[f"windows-11@{CONTROL_PLANE}"])
    row = {"osVersion": "2028", "build": BUILD, "verdict": "Allow", "reason": "our vendor supports it"}
    manifest = world.pool(labels=LABELS, os={"version": "2028"}, supportMatrix=[row])
    pool = world.apply(manifest)
    world.operator.start()
    status = expect_state(world, pool, "UpToDate")["status"]
    assert [(each["build"], each.get("osVersion"), each["verdict"]) for each in status["builds"]] == [
        (BUILD, "2028", "Supported")
    ]
    assert status["issues"] == []
    assert labels_of(world.node(name))[OS_VERSION_LABEL] == "2028"
    file = tmp_path / "pool.json"
    file.write_text(json.dumps(manifest))
    assert main(["validate", "-f", str(file)]) == 0
    assert "warning" not in "".join(capsys.readouterr()).lower()

    # Without that row neither the pool's release nor the node's build is known.
    world.apply(world.pool(labels=LABELS, os={"version": "2028"}))
    await_issue(world, pool, "OSVersionUnknown", nodes=0)
    expect_state(world, pool, "BuildUnknown")


def test_the_alert_about_progress_keeps_quiet_while_it_is_a_person_s_turn() -> None:
    """§1: "the NoProgress alert also asks for Reconciling"."""
    groups = yaml.safe_load((ROOT / "deploy" / "alerts" / "alerts.yaml").read_text())["groups"]
    [rule] = [
        rule
        for group in groups
        for rule in group["rules"]
        if rule.get("alert") == "WindowsNodePoolNoProgress"
    ]
    assert 'type="Reconciling"' in rule["expr"]


# Waits


def test_a_pool_that_lost_all_its_nodes_has_failed_and_no_wait_passes(world: World) -> None:
    """§1: "a pool that lost all its nodes to another is NodesUpToDate=False and Stalled (PoolOverlap)"."""
    names = world.fleet(windows=2)
    older = world.apply(world.pool(labels=LABELS))
    world.operator.start()
    world.wait_up_to_date(older, nodes=2)
    younger = world.apply(world.pool("younger", labels={"example.com/tier": "web"}))
    expect_state(world, younger, "PoolOverlap")
    overlap = ("True", "PoolOverlap")
    status = expect(world, younger, NodesUpToDate=("False", "PoolOverlap"), Stalled=overlap)
    assert (status["nodes"], status["upToDateNodes"]) == (0, 0)
    assert read(world, younger) is Status.FAILED
    for condition in ("NodesUpToDate", "Ready"):
        assert waits_in_vain(world, younger, condition)
    world.kubectl("wait", "--for=condition=Stalled", f"wnp/{younger}", "--timeout=30s")
    found = await_issue(world, younger, "PoolOverlap", nodes=2)
    assert older in found["message"], "it names the other pool"
    assert_issues(world.status(younger), names=names)
    await_event(world, pool=younger, reason="PoolOverlap")

    # The other one keeps its nodes, and is as green as before: it only has the issue.
    expect_state(world, older, "UpToDate")
    assert await_issue(world, older, "PoolOverlap", nodes=2)["nodes"] == names
    assert read(world, older) is Status.CURRENT

    world.delete(older)
    expect_state(world, younger, "UpToDate")
    assert read(world, younger) is Status.CURRENT


def test_a_pool_that_owns_some_of_the_nodes_that_it_selects_is_not_stalled(world: World) -> None:
    """The design: PoolOverlap only "where a pool owns none of the nodes it selects"."""
    shared = {"example.com/shared": "yes"}
    world.fleet(windows=2, labels=shared)
    selector = {"matchLabels": {**world.selector, **shared}}
    first = world.apply(world.pool("first", labels=LABELS, nodeSelector=selector))
    world.operator.start()
    world.wait_up_to_date(first, nodes=2)
    second = world.apply(world.pool("second", labels={"example.com/tier": "web"}))
    [own] = world.fleet(windows=1)
    world.wait_up_to_date(second, nodes=1)
    expect_state(world, second, "UpToDate")
    assert labels_of(world.node(own))["example.com/tier"] == "web"
    await_issue(world, second, "PoolOverlap", nodes=2)
    assert read(world, second) is Status.CURRENT


@pytest.mark.nightly
def test_a_selector_that_matches_no_node_is_true_and_names_the_labels_that_nodes_do_have(
    world: World,
) -> None:
    """§1: "True as ever, with an event once and an issue that names the nearest labels"."""
    names = world.fleet(windows=3, labels={"example.com/agentpool": f"win22-{world.suffix}"})
    nearly = {"matchLabels": {"example.com/agentpool": f"win-22-{world.suffix}"}}
    pool = world.apply(world.pool(labels=LABELS, nodeSelector=nearly))
    world.operator.start()
    expect_state(world, pool, "NoNodesSelected")
    empty = ("True", "NoNodesSelected")
    status = expect(world, pool, NodesUpToDate=empty, Available=empty, Stalled=("False", "NotStalled"))
    assert read(world, pool) is Status.CURRENT
    for condition in ("Ready", "NodesUpToDate"):
        world.kubectl("wait", f"--for=condition={condition}", f"wnp/{pool}", "--timeout=30s")
    found = issue(status, "NoNodesSelected")
    assert (found["nodeCount"], found["nodes"]) == (0, [])
    assert f"win22-{world.suffix}" in f"{found['message']} {found['fix']}", "what it should have been"
    assert_issues(status, names=names)
    await_event(world, pool=pool, reason="NoNodesSelected")

    # Once: neither a restart nor another spec that matches none is news.
    world.operator.kill()
    world.operator.start()
    world.apply(world.pool(labels={TEAM: "billing"}, nodeSelector=nearly))
    expect_state(world, pool, "NoNodesSelected")
    holds(lambda: world.operator.running, seconds=3)
    event = await_event(world, pool=pool, reason="NoNodesSelected")
    assert event.get("count", 1) in (None, 1)
    assert not event.get("series")

    world.kubectl("label", "node", names[0], f"example.com/agentpool=win-22-{world.suffix}", "--overwrite")
    expect_state(world, pool, "UpToDate")
    assert world.status(pool)["issues"] == []


# One reason


def test_accepted_ready_and_event_agree_where_a_spec_is_not_accepted(world: World) -> None:
    """§1: "Ready shows SpecRejected for any spec that is not accepted and the message names the reason"."""
    world.fleet(windows=1)
    pool = world.apply(world.pool(labels=LABELS, reservedMemory={"systemReserved": "9Gi"}))
    world.operator.start()
    expect(world, pool, Accepted=("False", "ReservedMemoryTooLarge"), Ready=("False", "SpecRejected"))
    assert "ReservedMemoryTooLarge" in world.condition(pool, "Ready")["message"]
    [told] = eventually(
        lambda: [
            each
            for each in world.own_events(kind="WindowsNodePool", name=pool)
            if each["reason"] in ("SpecRejected", "ReservedMemoryTooLarge")
        ],
        what="the event",
    )
    assert "ReservedMemoryTooLarge" in f"{told['reason']} {told['message']}"
    row = {"osVersion": "1809", "verdict": "Allow"}
    world.apply(world.pool(labels=LABELS, supportMatrix=[row]))
    rejected = ("False", "SpecRejected")
    expect(world, pool, Accepted=rejected, Ready=rejected, Stalled=("True", "SpecRejected"))


@pytest.mark.nightly
def test_a_missing_permission_is_one_reason_in_accepted_ready_stalled_and_an_event(world: World) -> None:
    """§1: "A missing permission is an event. One reason for one cause: Accepted, Ready and event agree"."""
    world.fleet(windows=1)
    said = (
        f'nodes "w" is forbidden: User "{USER}" cannot patch resource "nodes" in API group "" '
        "at the cluster scope"
    )
    with through_proxy(world) as proxy:
        with proxy.add(on("patch", "nodes"), answer(403, message=said)):
            pool = world.apply(world.pool(labels=LABELS))
            world.operator.start()
            missing = ("False", "MissingPermission")
            expect(world, pool, Accepted=missing, Ready=missing, Stalled=("True", "MissingPermission"))
            event = await_event(world, pool=pool, reason="MissingPermission")
            assert event["type"] == "Warning"
            assert '"patch"' in event["message"], "it has the rule"
        expect_state(world, pool, "UpToDate")
        await_event(world, pool=pool, reason="MissingPermission")


# What a dry run shows


def test_a_step_of_a_dry_run_shows_what_changes(world: World) -> None:
    """§1: "`changes: [{kind: Label, key: team, from: payments, to: billing}]`, at most 8 a step"."""
    [name] = world.fleet(windows=1)
    taint = {"key": "os", "value": "windows", "effect": "NoSchedule"}
    spec: Object = {"labels": {**LABELS, "example.com/gone": "soon"}, "taints": [taint]}
    pool = world.apply(world.pool(**spec))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=1)
    carried = world.carried()

    def changes(**edited: Any) -> list[Object]:
        """Return the changes of the one step that a dry run of this spec plans."""
        world.apply(world.pool(mode="DryRun", **edited))
        expect(world, pool, Ready=("True", "DryRun"))
        [step] = eventually(lambda: world.status(pool).get("plan", {}).get("steps"), what="a plan") or []
        assert step["node"] == name
        return list(step["changes"])

    planned = changes(
        labels={TEAM: "billing", "example.com/new": "yes"},
        taints=[{**taint, "value": "win2025"}],
    )
    assert {"kind": "Label", "key": TEAM, "from": "payments", "to": "billing"} in planned
    by_key = {(each["kind"], each["key"]): (each.get("from"), each.get("to")) for each in planned}
    assert len(by_key) == len(planned)
    assert by_key["Label", "example.com/gone"] in (("soon", None), ("soon", ""))
    assert by_key["Label", "example.com/new"] in ((None, "yes"), ("", "yes"))
    [(source, target)] = [value for (kind, _), value in by_key.items() if kind == "Taint"]
    assert "windows" in str(source)
    assert "win2025" in str(target)
    assert {kind for kind, _ in by_key} <= {"Label", "Taint", "Annotation"}

    many = changes(labels={f"example.com/label-{number:02}": "yes" for number in range(12)})
    assert len(many) == 8
    assert world.carried() == carried
    assert "os=windows:NoSchedule" in taints_of(world.node(name))


def test_taints_that_delete_pods_are_announced_and_counted_afterwards(world: World) -> None:
    """§1: "`onIntolerantPods: Delete` warns by event before, and says after how many pods went"."""
    first, second = world.fleet(windows=2)
    harsh = {"key": "os", "value": "windows", "effect": "NoExecute", "onIntolerantPods": "Delete"}
    with pods_in(world) as pods:
        doomed = [pods.bind(name, node) for name, node in (("a", first), ("b", first), ("c", second))]
        pods.bind("agent", first, tolerations=[{"operator": "Exists"}])
        pods.wait_running(count=4)
        pool = world.apply(world.pool(taints=[harsh]))
        with world.watch_nodes() as nodes:
            world.operator.start()
            world.wait_up_to_date(pool, nodes=2)
            nodes.catch_up(world.nodes().values())
        warning = await_event(world, pool=pool, reason="DeletingIntolerantPods")
        assert warning["type"] == "Warning"
        tainted = [
            int(each["metadata"]["resourceVersion"])
            for states in nodes.states.values()
            for each in states
            if "os=windows:NoExecute" in taints_of(each)
        ]
        assert int(warning["metadata"]["resourceVersion"]) < min(tainted), "before"
        eventually(lambda: not set(doomed) & set(pods.all()), what="the pods gone")
        after = await_event(world, pool=pool, reason="IntolerantPodsDeleted")
        assert re.findall(r"\b\d+\b(?= pods)", after["message"]) == ["3"], after["message"]
