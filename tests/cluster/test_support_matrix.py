"""Nodes as people have them, judged by the support matrix: what a pool says of them, and what changes it.

What is expected stands here as it was worked out by hand from the tables of Kubernetes and Microsoft.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.faulty import through_proxy
from harness.nodes import labels_of
from harness.operator import Operator
from harness.waiting import eventually, holds
from harness.world import World
from testbed.faults import answer, cut_stream, on
from testbed.pins import chosen_pins, minor_of
from winpool.api.conditions import ConditionType, referred_by
from winpool.api.issues import IssueReason
from winpool.app import App
from winpool.cli.__main__ import main
from winpool.kube.client import Transport
from winpool.kube.credentials import load_connection
from winpool.loops import Clock
from winpool.settings import Settings

CONTROL_PLANE = chosen_pins().kubernetes
MINOR = int(minor_of(CONTROL_PLANE).removeprefix("1."))
# These two were published with kubelets of 1.33 and 1.32, out of the skew of 1.37. So theirs is 1.34.1 here,
# which the project of the Windows 11 has gone on to (https://github.com/Siemens-Healthineers/K2s/pull/1375).
# 1.34 is also the last minor with which only vendors support Windows Server 2025. Where the control plane is
# older, theirs is of its version.
KUBELET = "v1.34.1" if MINOR >= 34 else CONTROL_PLANE
SERVER_2025, WINDOWS_11 = f"2025@{KUBELET}", f"windows-11@{KUBELET}"
WRONG_BUILD = {"node.kubernetes.io/windows-build": "10.0.17763"}
ALLOW = [{"osVersion": "2025", "verdict": "Allow", "reason": "our vendor supports it"}]
FILE = """\
supportMatrix:
- osVersion: "2025"
  verdict: Deny
  reason: no storage driver for it
"""


@pytest.mark.nightly
async def test_a_fleet_of_real_nodes_is_told_apart(world: World) -> None:
    async with operator_here(world, now=Calendar(day(2026, 11, 21)).now):
        await asyncio.to_thread(tell_a_fleet_apart, world)


def tell_a_fleet_apart(world: World) -> None:
    newer, older = world.fleet(windows=2)  # Windows Server 2022, the older one 2445 revisions behind
    server_2019, server_2025, sac, windows_11, garbage = world.fleet(
        samples=["2019", SERVER_2025, "2004", WINDOWS_11, "garbage"]
    )
    [mislabelled] = world.fleet(windows=1, labels=WRONG_BUILD)
    pool = world.apply(world.pool())
    status = world.wait_written(pool, nodes=8)

    assert status["upToDateNodes"] == 3, "those of Windows Server 2022"
    progress = world.condition(pool, "NodesUpToDate")
    assert (progress["status"], progress["reason"]) == ("False", "WaitingForActor")
    assert status["builds"] == [
        {
            "build": "10.0.20348",
            "osVersion": "2022",
            "nodes": 3,
            "minRevision": 1607,
            "maxRevision": 4052,
            "verdict": "Warned",
            "endOfSupport": "2031-10-14",
        },
        {
            "build": "10.0.17763",
            "osVersion": "2019",
            "nodes": 1,
            "minRevision": 1397,
            "maxRevision": 1397,
            "verdict": "Unsupported",
            "endOfSupport": "2029-01-09",
        },
        {
            "build": "10.0.19041",
            "osVersion": "2004",
            "nodes": 1,
            "minRevision": 804,
            "maxRevision": 804,
            "verdict": "Unsupported",
            "endOfSupport": "2021-12-14",
        },
        {
            "build": "10.0.22631",
            "nodes": 1,
            "minRevision": 5335,
            "maxRevision": 5335,
            "verdict": "Unknown",
        },
        {
            "build": "10.0.26100",
            "osVersion": "2025",
            "nodes": 1,
            "minRevision": 32995,
            "maxRevision": 32995,
            "verdict": "Warned",
            "endOfSupport": "2034-11-14",
        },
        {"build": "Unknown", "nodes": 1, "verdict": "Unknown"},
    ]
    # Of Windows Server 2019 no source says anything for 1.37; before, it is documented or vendors list it.
    unknown_there = [("BuildUnknown", server_2019)] if MINOR >= 37 else []
    # The status has room for ten.
    left_out = [("BuildWarned", sac)] if unknown_there else []
    told = issues(world, pool)
    assert sorted([*told, *left_out]) == sorted(
        [
            *(("OSVersionMismatch", each) for each in (server_2019, sac, server_2025)),
            ("SupportEnded", sac),
            ("VersionSkew", server_2019),
            ("VersionSkew", sac),
            *unknown_there,
            ("BuildUnknown", windows_11),
            ("BuildUnknown", garbage),
            ("BuildLabelDisagrees", mislabelled),
            ("BuildWarned", server_2025),
            ("BuildWarned", sac),
        ]
    )
    ranks = [list(IssueReason).index(IssueReason(reason)) for reason, _ in told]
    assert ranks == sorted(ranks), "the worst first"
    assert status["issueCount"] == len(status["issues"]) + len(left_out)
    said = {
        (issue["reason"], name): issue["message"] for issue in status["issues"] for name in issue["nodes"]
    }
    assert "ended on 2021-12-14" in said["SupportEnded", sac]
    assert "The kubelet has version 1.19" in said["VersionSkew", server_2019]
    assert "Build 10.0.22631 is no release of Windows Server" in said["BuildUnknown", windows_11]
    assert "'10.0.?'" in said["BuildUnknown", garbage]
    assert "'10.0.17763'" in said["BuildLabelDisagrees", mislabelled]
    assert "Only vendors support Windows Server 2025" in said["BuildWarned", server_2025]
    assert all(issue["fix"] for issue in status["issues"])

    condition = world.condition(pool, "OSSupported")
    assert (condition["status"], condition["reason"]) == ("False", "SupportEnded")
    worst = f"1 of 8 nodes is not supported ({sac}). See the issue SupportEnded."
    assert world.condition(pool, "Ready")["message"] == worst
    assert referred_by(condition["message"]) is ConditionType.READY
    assert world.condition(pool, "Ready")["status"] == "True", "it is a matter of support, not of readiness"

    assert {name: os_labels(node) for name, node in world.nodes().items()} == {
        newer: {"os-version": "2022", "os-revision": "4052"},
        older: {"os-version": "2022", "os-revision": "1607"},
        server_2019: {"os-version": "2019", "os-revision": "1397"},
        server_2025: {"os-version": "2025", "os-revision": "32995"},
        sac: {"os-version": "2004", "os-revision": "804"},
        windows_11: {"os-revision": "5335"},
        garbage: {},
        mislabelled: {"os-version": "2022", "os-revision": "4052"},
    }
    expect_events(world, pool, "RolloutCompleted", "SupportEnded")
    assert [each for name in world.nodes() for each in world.own_events(kind="Node", name=name)] == []


def test_a_deleted_pool_leaves_nothing_of_what_it_said_about_windows(world: World) -> None:
    names = world.fleet(samples=["2022", "windows-11", "garbage"])
    before = world.carried()
    pool = world.apply(world.pool())
    world.operator.start()
    world.wait_written(pool, nodes=3)
    assert [os_labels(world.node(name)) for name in names] == [
        {"os-version": "2022", "os-revision": "1607"},
        {"os-revision": "5335"},
        {},
    ]
    world.delete(pool)
    assert world.carried() == before


def test_rows_of_the_pool_and_of_the_file_change_the_verdict(world: World, tmp_path: Path) -> None:
    world.fleet(samples=[SERVER_2025])
    pool = world.apply(world.pool())
    world.operator.start()
    expect_os_supported(world, pool, "True", "BuildWarned")
    world.apply(world.pool(supportMatrix=ALLOW))
    expect_os_supported(world, pool, "True", "NodesSupported")
    assert verdicts(world, pool) == {"2025": "Supported"}
    assert {reason for reason, _ in issues(world, pool)} == {"OSVersionMismatch"}, (
        "supported, and not what os asks for"
    )
    world.apply(world.pool(supportMatrix=[]))
    expect_os_supported(world, pool, "True", "BuildWarned")
    assert world.operator.stop() == 0

    with operator_with_file(world, tmp_path / "rows.yaml", FILE) as operator:
        operator.start()
        message = expect_os_supported(world, pool, "False", "BuildUnsupported")
        assert "no storage driver for it" in message
        assert verdicts(world, pool) == {"2025": "Unsupported"}
        world.apply(world.pool(supportMatrix=ALLOW))
        expect_os_supported(world, pool, "True", "NodesSupported")
    # The second warning within minutes of the first is no event of its own.
    expect_events(world, pool, "BuildUnsupported", "BuildWarned", "RolloutCompleted")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        ("supportMatrix: [", "line 1"),
        (FILE.replace("Deny", "Maybe"), "supportMatrix[0].verdict: 'Maybe' must be one of"),
    ],
    ids=["absent", "no YAML", "unknown verdict"],
)
def test_a_file_that_cannot_be_used_ends_the_operator_with_a_sentence(
    world: World, tmp_path: Path, content: str | None, said: str
) -> None:
    path = tmp_path / "rows.yaml"
    with operator_with_file(world, path, content) as operator:
        operator.start(wait=False)
        eventually(lambda: not operator.running, what="the operator ends by itself")
        assert operator.stop() == 1
        [line] = operator.log_lines()
    assert line["level"] == "ERROR"
    assert str(line["message"]).startswith(f"--support-matrix-file {path}: ")
    assert said in str(line["message"])
    assert "Traceback" not in operator.log_text()


def test_another_version_of_the_api_server_changes_the_verdict(world: World) -> None:
    """A server that is upgraded ends its watches: that is when it is asked again."""
    [name] = world.fleet(windows=1)
    pool = world.apply(world.pool())
    with through_proxy(world) as proxy:
        world.operator.start()
        expect_os_supported(world, pool, "True", "NodesSupported")
        upgraded = answer(200, body=b'{"gitVersion": "v1.41.2"}')
        with proxy.add(on("get", path="^/version$"), upgraded):
            proxy.add(on("watch", "nodes"), cut_stream(), nth=1)
            message = expect_os_supported(world, pool, "False", "VersionSkew")
            assert "the control plane 1.41" in message
            assert issues(world, pool) == [("VersionSkew", name), ("BuildUnknown", name)]
        proxy.add(on("watch", "nodes"), cut_stream(), nth=1)
        expect_os_supported(world, pool, "True", "NodesSupported")
        expect_events(world, pool, "RolloutCompleted", "VersionSkew")


def test_audit_asks_the_cluster_what_the_nodes_of_a_pool_run(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    older, _ = world.fleet(samples=["2022", "2025"])
    pool = world.apply(world.pool())
    file = tmp_path / "pod.yaml"

    def audited(build: str, *, of: str = pool) -> tuple[int, list[str]]:
        annotations = f"{{winpool.dev/windows-build: {build}}}"
        selected = "os: {name: windows}, nodeSelector: {kubernetes.io/os: windows}"
        spec = f"{{{selected}, containers: [{{name: app, image: app}}]}}"
        file.write_text(f"kind: Pod\nmetadata: {{name: a, annotations: {annotations}}}\nspec: {spec}\n")
        kubeconfig = str(world.testbed.kubeconfig("admin"))
        code = main(["audit", "-f", str(file), "--pool", of, "--ignore", "W34", "--kubeconfig", kubeconfig])
        return code, capsys.readouterr().out.splitlines()

    assert audited("10.0.20348") == (0, [])
    code, [line] = audited("10.0.26100")
    assert code == 0
    assert ": P7 Warning spec.nodeSelector[node.kubernetes.io/windows-build]: " in line
    assert f"On 10.0.20348.1607 ({older}): An image of 10.0.26100 does not run" in line
    code, [line] = audited("10.0.17763")
    assert code == 3
    assert ": W44 Error spec.containers[0].image: " in line
    assert audited("10.0.20348", of="no-such-pool") == (1, [])


@pytest.mark.nightly
async def test_days_that_pass_change_the_verdict_without_a_restart(world: World) -> None:
    """Windows Server 2022 is supported through 2031-10-14."""
    calendar = Calendar(day(2026, 11, 21))
    async with operator_here(world, now=calendar.now):
        await asyncio.to_thread(years_pass, world, calendar)


def years_pass(world: World, calendar: Calendar) -> None:
    first, second = world.fleet(windows=2)
    pool = world.apply(world.pool())
    world.wait_up_to_date(pool, nodes=2)
    expect_os_supported(world, pool, "True", "NodesSupported")
    assert issues(world, pool) == []
    expect_events(world, pool, "RolloutCompleted")

    calendar.today = day(2031, 4, 17)
    ending = [("SupportEnding", first), ("SupportEnding", second)]
    eventually(lambda: issues(world, pool) == ending, what="the notice 180 days before")
    expect_os_supported(world, pool, "True", "NodesSupported")
    expect_events(world, pool, "RolloutCompleted", "SupportEnding")

    calendar.today = day(2031, 7, 16)
    message = expect_os_supported(world, pool, "True", "SupportEnding")
    assert "ends on 2031-10-14 (UTC)" in message
    assert issues(world, pool) == ending
    assert verdicts(world, pool) == {"2022": "Supported"}

    before = world.get("wnp", pool)
    calendar.today = day(2031, 10, 14) + timedelta(hours=23, minutes=59)
    # Some passes long: on the last day nothing is different, and so nothing is written.
    holds(lambda: world.get("wnp", pool) == before, seconds=3)
    expect_events(world, pool, "RolloutCompleted", "SupportEnding")

    calendar.today = day(2031, 10, 15)
    message = expect_os_supported(world, pool, "False", "SupportEnded")
    assert f"2 of 2 nodes are not supported ({first}, {second}). " in message
    assert issues(world, pool) == [("SupportEnded", first), ("SupportEnded", second)]
    assert verdicts(world, pool) == {"2022": "Unsupported"}
    expect_events(world, pool, "RolloutCompleted", "SupportEnded", "SupportEnding")


@dataclass(slots=True)
class Calendar:
    """What day it is for the operator: the test says."""

    today: datetime

    def now(self) -> datetime:
        return self.today


@asynccontextmanager
async def operator_here(world: World, *, now: Callable[[], datetime]) -> AsyncIterator[None]:
    """Run the operator in this process, where ``now`` is its time, and with a pass each second."""
    kubeconfig = world.testbed.kubeconfig("winpool")
    settings = Settings(kubeconfig=kubeconfig, host="127.0.0.1", port=0, pool_relist_seconds=1)
    others = asyncio.all_tasks()
    connection = await load_connection(kubeconfig=str(kubeconfig), context=None)
    async with Transport(connection) as transport:
        app = App(settings, connection=connection, transport=transport, clock=Clock(now=now))
        running = asyncio.create_task(app.run(), name="operator")
        try:
            yield
        finally:
            running.cancel()
            await asyncio.wait({running})
    assert running.cancelled()
    assert asyncio.all_tasks() == others


@contextmanager
def operator_with_file(world: World, path: Path, content: str | None) -> Iterator[Operator]:
    """Hand over an operator, not started yet, whose file of rows has this content; None: there is no file."""
    if content is not None:
        path.write_text(content)
    operator = Operator(
        kubeconfig=world.testbed.kubeconfig("winpool"),
        log_file=world.directory / "with-file.log",
        environment={"WINPOOL_SUPPORT_MATRIX_FILE": str(path)},
    )
    try:
        yield operator
    finally:
        operator.close()


def day(year: int, month: int, number: int) -> datetime:
    return datetime(year, month, number, tzinfo=UTC)


def os_labels(node: dict[str, Any]) -> dict[str, str]:
    found = {key: value for key, value in labels_of(node).items() if key.startswith("winpool.dev/os-")}
    return {key.removeprefix("winpool.dev/"): value for key, value in found.items()}


def issues(world: World, pool: str) -> list[tuple[str, str]]:
    found = world.status(pool).get("issues", [])
    return [(issue["reason"], name) for issue in found for name in issue["nodes"]]


def verdicts(world: World, pool: str) -> dict[str, str]:
    return {build["osVersion"]: build["verdict"] for build in world.status(pool)["builds"]}


def expect_os_supported(world: World, pool: str, status: str, reason: str) -> str:
    """Wait until the condition OSSupported says so; return all that its message refers to."""

    def check() -> dict[str, Any]:
        found = world.condition(pool, "OSSupported")
        assert (found.get("status"), found.get("reason")) == (status, reason)
        return found

    message = str(eventually(check, what=f"OSSupported {status} {reason}")["message"])
    issues = [each["message"] for each in world.status(pool)["issues"] if each["reason"] == reason]
    return " ".join([message, world.condition(pool, "Ready")["message"], *issues])


def expect_events(world: World, pool: str, *reasons: str) -> None:
    """Wait for exactly these events about the pool; ``reasons`` are sorted."""

    def told() -> bool:
        found = world.reasons(kind="WindowsNodePool", name=pool)
        assert found == list(reasons)
        return True

    eventually(told, what=f"the events {', '.join(reasons)}")
