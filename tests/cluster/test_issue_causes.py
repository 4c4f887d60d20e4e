"""One issue for each cause: a pool in much trouble is told shortly, whatever its neighbours write.

Issue 15, §1: "One issue per cause", "Node events only where at most 3 nodes share a cause"; to be shown:
"A pool of 40 nodes with five kinds of trouble".
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pytest

from cluster.kstatus import Status
from cluster.pods import pods_in
from cluster.told import facts
from cluster.truth import (
    CONTROL_PLANE,
    LABELS,
    SHOWN,
    TEAM,
    WIDTH,
    a_machine,
    annotate,
    assert_issues,
    await_event,
    await_issue,
    columns,
    denying,
    described,
    described_issues,
    events_about,
    expect_state,
    issue,
    read,
    sentences,
    told_of_nodes,
)
from harness.asking import CLUSTER_SCOPED
from harness.faulty import through_proxy
from harness.nodes import labels_of
from harness.waiting import eventually, holds
from harness.world import World
from testbed.faults import answer, on
from winpool.api.keys import CRD_NAME
from winpool.cli.__main__ import main

Object = dict[str, Any]

SHARED: Final = {"example.com/shared": "yes"}
NO_EXECUTE: Final[Object] = {"key": "os", "value": "windows", "effect": "NoExecute"}
ALLOWED: Final[Object] = {"osVersion": "2025", "verdict": "Allow", "reason": "our vendor supports it"}
"""Or the oldest Kubernetes would add a sixth trouble: there only vendors support this release."""
FLOOR: Final[Object] = {"version": "2022", "minRevision": 2000}
EACH: Final = 8
"""As many of the forty nodes are in each trouble; of those below the floor there are twice as many."""
STATUS_LINES: Final = 60
ISSUE_LINES: Final = 10
SHORT_BYTES: Final = 32 * 1024
"""Of a status, whatever is in it: a small part of what an API server or a person takes at once."""
LONG_AGO: Final = "2026-01-02T03:04:05Z"


@dataclass(frozen=True, slots=True)
class Troubled:
    """A pool of forty nodes, and which of them are in which trouble."""

    pool: str
    names: list[str]
    of: dict[str, list[str]]
    """The names of the nodes by the reason of the issue that is about them."""


@contextmanager
def in_trouble(world: World) -> Iterator[Troubled]:
    """Hand over a pool of 40 nodes in five kinds of trouble at once, once it tells of all of them."""
    usual = world.fleet(windows=4 * EACH)
    other_release = world.fleet(samples=[f"2025@{CONTROL_PLANE}"], windows=EACH)
    refused, held, shared = (usual[at : at + EACH] for at in range(0, 3 * EACH, EACH))
    world.kubectl("label", "node", *shared, *(f"{key}={value}" for key, value in SHARED.items()))
    below = [name for name, node in world.nodes().items() if kernel_of(node).endswith(".1607")]
    with pods_in(world) as pods, denying(world, refused, why="on Fridays"):
        for number, name in enumerate(held):
            pods.bind(f"web-{number}", name)
        pods.wait_running(count=EACH)
        spec = {"labels": LABELS, "os": FLOOR, "taints": [NO_EXECUTE], "supportMatrix": [ALLOWED]}
        pool = world.apply(world.pool("a-16-char", **spec))
        assert len(pool) == 16
        world.operator.start()
        eventually(lambda: labels_of(world.node(shared[0])).get(TEAM), what="the shared nodes are its own")
        selector = {"matchLabels": {**world.selector, **SHARED}}
        world.apply(world.pool("rival", nodeSelector=selector, labels={"example.com/tier": "web"}))
        found = Troubled(
            pool,
            sorted([*usual, *other_release]),
            {
                "WriteRefused": refused,
                "IntolerantPods": held,
                "PoolOverlap": shared,
                "OSVersionMismatch": other_release,
                "RevisionBelowFloor": sorted(below),
            },
        )
        assert len(found.names) == 40
        assert {reason: len(names) for reason, names in found.of.items()} == {
            **dict.fromkeys(found.of, EACH),
            "RevisionBelowFloor": 2 * EACH,
        }
        for reason, names in found.of.items():
            await_issue(world, pool, reason, nodes=len(names))
        yield found


def kernel_of(node: Object) -> str:
    return str(node["status"]["nodeInfo"]["kernelVersion"])


@pytest.mark.nightly
def test_forty_nodes_with_five_kinds_of_trouble_are_told_shortly_and_once(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """§1: "at most 10, worst first; `issueCount` says how many"; to be shown: the pool of 40 nodes, whole."""
    with in_trouble(world) as troubled:
        pool = troubled.pool
        expect_state(world, pool, "WriteRefused")
        assert read(world, pool) is Status.FAILED
        status = world.status(pool)
        assert_issues(status, names=troubled.names)
        for reason, names in troubled.of.items():
            assert issue(status, reason)["nodes"] == sorted(names)[:SHOWN]
        assert "on Fridays" in issue(status, "WriteRefused")["message"]
        assert status["issueCount"] == len(status["issues"]), "ten are not reached"
        for each in status["issues"]:
            told = rf"\b{each['nodeCount']} (?:\w+ )?(?:nodes|pods)\b"
            assert not re.search(told, each["message"]), each

        lines = described(world, pool)
        shown = described_issues(lines)
        assert len(shown) == len(status["issues"])
        assert [each for each in shown if len(each) > ISSUE_LINES] == []
        twice = [sentence for sentence, count in Counter(sentences(lines)).items() if count > 1]
        assert twice == []

        table = world.kubectl("get", "wnp", pool)
        assert [line for line in table.splitlines() if len(line) > WIDTH] == []
        wide = columns(world, pool, "-o", "wide")
        assert (wide["SUPPORTED"], wide["ISSUES"]) == ("False", str(status["issueCount"]))
        assert (wide["STATE"], wide["NODES"]) == ("WriteRefused", "40")

        capsys.readouterr()
        main(["status", pool, "--kubeconfig", str(world.testbed.kubeconfig("admin"))])
        printed = capsys.readouterr().out
        assert len(printed.splitlines()) < STATUS_LINES
        assert "\x1b" not in printed, "no colour in pipes"
        for each in status["issues"]:
            assert each["reason"] in printed
        # The whole of it, for those who want to read it: pytest -rP.
        print(table, world.kubectl("get", "wnp", pool, "-o", "wide"), printed, sep="\n")
        print(world.kubectl("describe", "wnp", pool))


def test_nodes_that_differ_in_what_they_report_share_an_issue_where_the_cause_is_one(world: World) -> None:
    """§1: "one per reason and cause (a stable key of the finding: release, floor, …)"."""
    names = world.fleet(windows=2)  # 10.0.20348.4052 and .1607
    pool = world.apply(world.pool(labels=LABELS, os={"version": "2022", "minRevision": 9000}))
    world.operator.start()
    assert await_issue(world, pool, "RevisionBelowFloor", nodes=2)["nodes"] == names
    world.apply(world.pool(labels=LABELS, os={"version": "2022", "targetRevision": 9000}))
    assert await_issue(world, pool, "OSRevisionBehind", nodes=2)["nodes"] == names
    assert_issues(world.status(pool), names=names)


@pytest.mark.nightly
def test_an_issue_keeps_its_time_while_its_nodes_come_and_go(world: World) -> None:
    """§1: the cause is a stable key: `since` is that of the trouble, not of a node."""
    pool = world.apply(world.pool(labels=LABELS, os={"version": "2025"}))
    world.operator.start()
    [first] = world.fleet(windows=1)
    since = await_issue(world, pool, "OSVersionMismatch", nodes=1)["since"]
    world.fleet(windows=4)
    assert await_issue(world, pool, "OSVersionMismatch", nodes=5)["since"] == since
    world.kubectl("label", "node", first, "kubernetes.io/os=linux", "--overwrite")
    assert await_issue(world, pool, "OSVersionMismatch", nodes=4)["since"] == since
    world.operator.kill()
    world.operator.start()
    holds(lambda: issue(world.status(pool), "OSVersionMismatch")["since"] == since, seconds=2)


def test_the_crd_keeps_atomic_lists_and_asks_for_none_of_the_new_fields(world: World) -> None:
    """§1: "`issues` and `nodes` stay atomic lists; the new fields have defaults (0, [], 0)"."""
    [version] = json.loads(world.kubectl("get", "crd", CRD_NAME, "-o", "json"))["spec"]["versions"]
    status = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    listed = status["issues"]
    fields = listed["items"]["properties"]
    assert listed["x-kubernetes-list-type"] == "atomic"
    assert listed["maxItems"] == 10
    assert set(fields) == {"reason", "nodeCount", "nodes", "since", "message", "fix"}
    assert fields["nodes"]["x-kubernetes-list-type"] == "atomic"
    assert fields["nodes"]["maxItems"] == SHOWN
    assert fields["nodeCount"]["type"] == status["issueCount"]["type"] == "integer"
    assert not {"nodeCount", "nodes"} & set(listed["items"].get("required", []))
    step = status["plan"]["properties"]["steps"]["items"]["properties"]
    assert step["changes"]["maxItems"] == 8


@pytest.mark.nightly
def test_a_status_in_the_old_form_is_read_without_losing_since(world: World) -> None:
    """§1: "a status in the old form is read without losing `since`"."""
    names = world.fleet(windows=2)
    pool = world.apply(world.pool(labels=LABELS, os={"version": "2022", "minRevision": 9000}))
    world.operator.start()
    told = await_issue(world, pool, "RevisionBelowFloor", nodes=2)
    world.operator.kill()
    old = [
        {
            "node": name,
            "reason": "RevisionBelowFloor",
            "since": LONG_AGO,
            "message": f"The node runs {kernel_of(world.node(name))}, and the pool asks for revision 9000.",
            "fix": told["fix"],
        }
        for name in names
    ]
    path = f"{CLUSTER_SCOPED['wnp']}/{pool}/status"
    world.testbed.api().merge(path, {"status": {"issues": old, "issueCount": None}})
    assert len(world.status(pool)["issues"]) == 2
    world.operator.start()
    found = await_issue(world, pool, "RevisionBelowFloor", nodes=2)
    assert found["since"] == LONG_AGO
    assert world.status(pool)["issueCount"] == 1


# Events


Cause = Callable[[World, list[str]], AbstractContextManager[str]]


@contextmanager
def a_mismatch(world: World, names: list[str]) -> Iterator[str]:
    """Have all nodes reserve other memory than the pool declares."""
    pool = world.apply(world.pool(labels=LABELS, reservedMemory={"systemReserved": "3Gi"}))
    world.operator.start()
    await_issue(world, pool, "ReservedMemoryMismatch", nodes=len(names))
    yield pool


@contextmanager
def a_refusal(world: World, names: list[str]) -> Iterator[str]:
    """Have the API server refuse all writes to all nodes."""
    with denying(world, names, why="on Fridays"):
        pool = world.apply(world.pool(labels=LABELS))
        world.operator.start()
        await_issue(world, pool, "WriteRefused", nodes=len(names))
        yield pool


@contextmanager
def a_drift(world: World, names: list[str]) -> Iterator[str]:
    """Have somebody take a label off all nodes, all at once for the operator."""
    pool = world.apply(world.pool(labels=LABELS))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=len(names))
    world.operator.kill()
    world.kubectl("label", "node", *names, f"{TEAM}-")
    world.operator.start()
    world.wait_up_to_date(pool, nodes=len(names))
    yield pool


@contextmanager
def broken_records(world: World, names: list[str]) -> Iterator[str]:
    """Have somebody break the ownership records of all nodes, all at once for the operator."""
    pool = world.apply(world.pool(labels=LABELS))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=len(names))
    world.operator.kill()
    for name in names:
        annotate(world, name, "{not json")
    world.operator.start()
    yield pool


CAUSES: Final[dict[str, Cause]] = {
    "ReservedMemoryMismatch": a_mismatch,
    "WriteRefused": a_refusal,
    "DriftRepaired": a_drift,
    "OwnershipRecordUnreadable": broken_records,
}


@pytest.mark.nightly
@pytest.mark.parametrize("reason", CAUSES)
def test_few_nodes_with_one_cause_have_an_event_each(world: World, reason: str) -> None:
    """§1: "Node events only where at most 3 nodes share a cause"."""
    names = world.fleet(windows=SHOWN)
    with CAUSES[reason](world, names) as pool:
        eventually(lambda: told_of_nodes(world, names, reason) == set(names), what=f"{SHOWN} events of nodes")
        holds(lambda: events_about(world, pool=pool, reason=reason) == [], seconds=2)


@pytest.mark.nightly
@pytest.mark.parametrize("reason", CAUSES)
def test_many_nodes_with_one_cause_are_one_event_of_their_pool(world: World, reason: str) -> None:
    """§1: "else one event at the pool that counts and names the first"."""
    names = world.fleet(windows=SHOWN + 4)
    with CAUSES[reason](world, names) as pool:
        message = await_event(world, pool=pool, reason=reason)["message"]
        assert re.search(rf"\b{len(names)}\b", message), message
        assert names[0] in message
        assert [name for name in names[SHOWN:] if name in message] == []
        holds(lambda: told_of_nodes(world, names, reason) == set(), seconds=2, every=1)
        assert len(events_about(world, pool=pool, reason=reason)) == 1


# What others write


def assert_short(world: World, pool: str) -> Object:
    """Return the status of a pool, which is of its current generation, printable and short."""
    found = world.get("wnp", pool)
    status: Object = found["status"]
    assert status["observedGeneration"] == found["metadata"]["generation"]
    assert len(json.dumps(status)) <= SHORT_BYTES
    assert [text for text in texts_in(status) if not text.isprintable()] == []
    assert status["issueCount"] >= len(status["issues"])
    return status


def texts_in(value: Any) -> Iterable[str]:
    """Yield all texts in a JSON value."""
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from texts_in(inner)


@pytest.mark.nightly
def test_nodes_whose_names_are_words_of_messages_are_told_like_any_others(world: World) -> None:
    """§1: "the server's refusal without node names", where these are "node", "changes" and "taint"."""
    names = sorted(a_machine(world, name) for name in ("node", "changes", "taint"))
    with denying(world, names, why="while this node has changes on Fridays"):
        pool = world.apply(world.pool(labels=LABELS))
        world.operator.start()
        expect_state(world, pool, "WriteRefused")
        status = assert_short(world, pool)
        found = [each for each in status["issues"] if each["reason"] == "WriteRefused"]
        assert sum(each["nodeCount"] for each in found) == len(names)
        assert {name for each in found for name in each["nodes"]} == set(names)
        for each in found:
            assert "on Fridays" in each["message"], "what the policy said has to survive"
            assert len(each["message"]) >= 40
    expect_state(world, pool, "UpToDate")


@pytest.mark.nightly
def test_a_refusal_of_40_kb_with_newlines_and_escape_sequences_is_one_short_issue(world: World) -> None:
    """§1: "the server's refusal without node names", as long and as odd as a webhook can make it."""
    names = world.fleet(windows=5)
    odd = "no changes\non Fridays\r\n\x1b[2J\u202e" + "and never again " * 2560
    assert len(odd) > 40_000
    with through_proxy(world) as proxy:
        with proxy.add(on("patch", "nodes"), answer(422, message=odd)):
            pool = world.apply(world.pool(labels=LABELS))
            world.operator.start()
            found = await_issue(world, pool, "WriteRefused", nodes=len(names))
            assert "no changes" in found["message"]
            assert_short(world, pool)
            assert_issues(world.status(pool), names=names)
            eventually(lambda: events_about(world, pool=pool, reason="WriteRefused"), what="the event")
            notes = [each["message"] for each in world.own_events(kind="WindowsNodePool", name=pool)]
            assert [note for note in notes if not note.isprintable() or len(note) > 1024] == []
        expect_state(world, pool, "UpToDate")


def test_a_taint_key_of_300_characters_is_held_and_told(world: World) -> None:
    """§1: the cause of an issue is a taint, and its message has that key whole or cut, never the status."""
    names = world.fleet(windows=2)
    key = f"{'.'.join(['a' * 59] * 4)}/{'k' * 63}"
    assert len(key) >= 300
    with pods_in(world) as pods:
        for number, name in enumerate(names):
            pods.bind(f"web-{number}", name)
        pods.wait_running(count=2)
        pool = world.apply(world.pool(labels=LABELS, taints=[{**NO_EXECUTE, "key": key}]))
        world.operator.start()
        expect_state(world, pool, "TaintsHeld")
        await_issue(world, pool, "IntolerantPods", nodes=2)
        status = assert_short(world, pool)
        assert_issues(status, names=names)
        assert columns(world, pool)["STATE"] == "TaintsHeld"


def test_a_kubelet_that_lies_in_its_node_info_keeps_no_status_from_being_written(world: World) -> None:
    """§1: "never green" by what nodes report, which may be anything."""
    lies = {
        "huge": "10.0.20348.2147483648",
        "larger": f"10.0.20348.{10**30}",
        "long": "10.0." + "9" * 200,
        "escaped": "10.0.20348\x1b[2J.1",
    }
    for name, kernel in lies.items():
        a_machine(world, f"{name}-{world.suffix}", kernel=kernel)
    [fine, behind] = world.fleet(windows=2)  # 10.0.20348.4052 and .1607
    pool = world.apply(world.pool(labels=LABELS, os={"version": "2022", "targetRevision": 4052}))
    world.operator.start()
    found = await_issue(world, pool, "OSRevisionBehind", nodes=1)
    assert found["nodes"] == [behind]
    expect_state(world, pool, "UpgradeDue")
    status = assert_short(world, pool)
    assert_issues(status, names=world.nodes())
    assert status["nodes"] == 2 + len(lies)
    assert facts(status)["Ready"] == ("True", "UpgradeDue")
    assert 1 <= status["upToDateNodes"] <= status["nodes"] - 1 - 2, "what cannot be read is not up to date"
    assert labels_of(world.node(fine))[TEAM] == "payments"


def test_an_editor_who_fills_the_matrix_with_rows_gets_a_short_status(world: World) -> None:
    """§1: rows with `build`, sixteen of them with all that a reason may hold."""
    names = world.fleet(windows=2)
    reason = ("\x1b[2J\n" + "no nodes, 12 nodes, and on 3 pods. " * 10)[:256]
    named = [
        {"osVersion": f"20{number}", "build": f"10.0.{30000 + number}", "verdict": "Warn", "reason": reason}
        for number in range(40, 55)
    ]
    own = {"osVersion": "2022", "verdict": "Warn", "reason": reason}
    pool = world.apply(world.pool(labels=LABELS, supportMatrix=[own, *named]))
    world.operator.start()
    found = await_issue(world, pool, "BuildWarned", nodes=2)
    assert found["nodes"] == names
    assert_short(world, pool)
    expect_state(world, pool, "UpToDate")

    # Rows of releases that nobody knows are wrong, all sixteen of them, and the spec is not accepted.
    unknown = [{key: value for key, value in row.items() if key != "build"} for row in named]
    world.apply(world.pool(labels=LABELS, supportMatrix=[own, *unknown]))
    expect_state(world, pool, "SpecRejected")
    assert_short(world, pool)
