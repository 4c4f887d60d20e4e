"""What a pool reports of its nodes' Windows: builds, the condition OSSupported, issues and events."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from msgspec.structs import replace

from harness.assessing import assess
from harness.builders import NOON, SUPPORTED, a_node, a_pool, a_snapshot, with_cluster_rows, with_status
from winpool.api.conditions import ConditionType, referred_by
from winpool.api.issues import IssueReason
from winpool.api.matrix import Verdict
from winpool.api.spec import read_status
from winpool.api.status import MAX_BUILDS, MAX_ISSUES, Build, Condition, Issue, WindowsNodePoolStatus
from winpool.decide import decide
from winpool.model.node import Node
from winpool.model.pool import KnownIssue
from winpool.status.os_support import UNKNOWN_BUILD
from winpool.support.rows import Row
from winpool.support.servicing import NOTICE_DAYS, WARNING_DAYS

END_OF_2022 = date(2031, 10, 14)
OLD = "10.0.14393.8000"
OWN_PAUSE = "containerd://2.9.0"
"""Of this line no default pause image is known, so that nothing is said of one."""

OLD_DAY = datetime(2026, 6, 1, 12, tzinfo=UTC)
"""No Kubernetes lists 2016, and on this day its end is not near yet, so that nothing else is said of it."""


def running(name: str, kernel: str, **versions: str) -> Node:
    return a_node(name, versions=replace(SUPPORTED, kernel=kernel, **versions))


def status_of(*nodes: Node, now: datetime = NOON) -> WindowsNodePoolStatus:
    return decide(a_snapshot(a_pool(), nodes, now=now)).status


def condition_of(status: WindowsNodePoolStatus) -> Condition:
    found = status.condition(ConditionType.OS_SUPPORTED)
    assert found is not None
    return found


def issue_of(status: WindowsNodePoolStatus, reason: str) -> Issue:
    [found] = [each for each in status.issues if each.reason == reason]
    return found


def said_of(status: WindowsNodePoolStatus) -> str:
    """Return what OSSupported says, which may be that Ready says it."""
    ready, message = status.condition(ConditionType.READY), condition_of(status).message
    assert ready is not None
    return ready.message if referred_by(message) is ConditionType.READY else message


def at(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, 12, tzinfo=UTC)


def test_kernel_versions_that_cannot_be_read_are_one_issue_with_an_example() -> None:
    nodes = [running(f"w{number:02}", f"garbage {number:02}") for number in range(12)]
    status = status_of(*nodes)
    issue = issue_of(status, "BuildUnknown")
    assert issue.node_count == 12
    assert "garbage 00" in issue.message
    assert "Other nodes report other texts" in issue.message
    assert not [node.name for node in nodes if node.name in issue.message]
    assert "other texts" not in issue_of(status_of(nodes[0]), "BuildUnknown").message


# Builds


def test_builds_count_nodes_and_tell_the_span_of_their_revisions() -> None:
    nodes = (
        running("w1", "10.0.20348.4052"),
        running("w2", "10.0.20348.3000"),
        running("w3", "10.0.26100.32995"),
        running("w4", "10.0.20348.4052"),
        running("w5", "10.0.20348"),
    )
    first, second = status_of(*nodes).builds
    assert first == Build(
        build="10.0.20348",
        os_version="2022",
        nodes=4,
        min_revision=3000,
        max_revision=4052,
        verdict=first.verdict,
        end_of_support="2031-10-14",
    )
    assert (second.build, second.nodes, second.min_revision) == ("10.0.26100", 1, 32995)


def test_a_build_has_the_verdict_of_its_worst_node() -> None:
    good, bad = (
        running("w1", "10.0.20348.4052"),
        running("w2", "10.0.20348.4052", runtime="containerd://1.5.0"),
    )
    (build,) = status_of(good, bad).builds
    assert build.verdict is Verdict.UNSUPPORTED


def test_what_cannot_be_read_is_one_build_without_a_release() -> None:
    (build,) = status_of(running("w1", "garbage"), running("w2", ""), running("w3", "10.0")).builds
    assert build == Build(build=UNKNOWN_BUILD, nodes=3, verdict=Verdict.UNKNOWN)


@pytest.mark.parametrize("revision", [2**31 - 1, 2**31, 2**32 - 1, 9999999999])
def test_no_number_that_a_node_reports_keeps_its_pool_from_being_reported(revision: int) -> None:
    status = status_of(a_node("w1"), running("w2", f"10.0.26100.{revision}"))
    assert status.nodes == 2
    second = status.builds[1]
    assert (second.build, second.nodes) == ("10.0.26100", 1)
    assert second.min_revision == second.max_revision == (revision if revision < 2**31 else None)


def test_no_more_builds_than_fit_and_those_with_the_most_nodes() -> None:
    nodes = [running(f"w{n:02d}", f"10.0.{30000 + n}.1") for n in range(MAX_BUILDS + 3)]
    builds = status_of(*nodes, running("x", "10.0.30018.2")).builds
    assert len(builds) == MAX_BUILDS
    assert (builds[0].build, builds[0].nodes) == ("10.0.30018", 2)


def test_the_event_says_the_same_whatever_build_it_is() -> None:
    """Or a node that reports another build each time uses up the events of its pool."""
    pool = with_status(a_pool(), status_of(a_node("w1"), a_node("w2")))
    said = set[tuple[str, str]]()
    for build in range(18000, 18020):
        decision = decide(a_snapshot(pool, [a_node("w1"), running("w2", f"10.0.{build}.1")]))
        [event] = decision.pool_events
        said.add((event.reason, event.note))
    [(reason, note)] = said
    assert reason in note
    assert "w2" in note


# The condition


def test_the_worst_node_decides_and_the_message_counts_and_names() -> None:
    nodes = (
        running("w1", "10.0.20348.4052"),
        running("w3", OLD),
        running("w2", OLD),
        running("w4", "garbage"),
    )
    status = status_of(*nodes, now=OLD_DAY)
    found = condition_of(status)
    assert (found.status, found.reason) == ("False", "BuildUnsupported")
    assert said_of(status) == "2 of 4 nodes are not supported (w2, w3). See the issue BuildUnsupported."
    assert "2016" in issue_of(status, found.reason).message


def test_unknown_is_neither_true_nor_false() -> None:
    status = status_of(running("w1", "10.0.20348.4052"), running("w2", "garbage"))
    found = condition_of(status)
    assert (found.status, found.reason) == ("Unknown", "BuildUnknown")
    assert "garbage" in issue_of(status, found.reason).message


def test_a_build_that_is_not_known_is_unknown_and_not_unsupported() -> None:
    """Nobody has said that it is unsupported: a newer winpool may know it (P4)."""
    status = status_of(running("w1", "10.0.26200.1"))
    found = condition_of(status)
    assert (found.status, found.reason) == ("Unknown", "BuildUnknown")
    assert [(each.build, each.verdict) for each in status.builds] == [("10.0.26200", "Unknown")]


def test_a_control_plane_of_unknown_version_is_unknown() -> None:
    status = decide(a_snapshot(a_pool(), [a_node()], control_plane="")).status
    found = condition_of(status)
    assert (found.status, found.reason) == ("Unknown", "BuildUnknown")
    assert "/version" in issue_of(status, found.reason).fix


@pytest.mark.parametrize(
    ("days", "reason", "issue"),
    [
        (NOTICE_DAYS + 1, "NodesSupported", False),
        (NOTICE_DAYS, "NodesSupported", True),
        (WARNING_DAYS + 1, "NodesSupported", True),
        (WARNING_DAYS, "SupportEnding", True),
        (0, "SupportEnding", True),
    ],
)
def test_an_end_of_support_is_told_in_time(days: int, reason: str, issue: bool) -> None:
    status = status_of(a_node(), now=at(END_OF_2022 - timedelta(days=days)))
    found = condition_of(status)
    assert (found.status, found.reason) == ("True", reason)
    assert [each.reason for each in status.issues] == [IssueReason.SUPPORT_ENDING] * issue


def test_a_day_that_passes_changes_nothing_in_the_status() -> None:
    """Or every pool would be written once a day for half a year."""
    first, second = (status_of(a_node(), now=at(END_OF_2022 - timedelta(days=days))) for days in (120, 119))
    same: dict[str, tuple[()]] = {"issues": (), "conditions": ()}
    assert first.model_copy(update=same) == second.model_copy(update=same)
    assert [each.message for each in first.issues] == [each.message for each in second.issues]
    assert condition_of(first).message == condition_of(second).message


def test_the_last_day_is_still_supported_and_the_next_is_not() -> None:
    last = datetime(2031, 10, 14, 23, 59, 59, tzinfo=UTC)
    assert condition_of(status_of(a_node(), now=last)).status == "True"
    after = condition_of(status_of(a_node(), now=last + timedelta(seconds=1)))
    assert (after.status, after.reason) == ("False", "SupportEnded")


# Issues and events


def test_an_issue_names_the_node_and_a_way_out() -> None:
    issue, due = status_of(running("w1", OLD, runtime=OWN_PAUSE), a_node("w2"), now=OLD_DAY).issues
    assert due.reason == IssueReason.OS_VERSION_MISMATCH
    assert (issue.nodes, issue.reason) == (("w1",), IssueReason.BUILD_UNSUPPORTED)
    assert "2016" in issue.message
    assert "supportMatrix" in issue.fix


def test_a_label_that_disagrees_is_an_issue_and_the_node_is_judged_by_what_it_reports() -> None:
    node = a_node(labels={"node.kubernetes.io/windows-build": "10.0.17763"})
    status = status_of(node)
    assert [each.reason for each in status.issues] == [IssueReason.BUILD_LABEL_DISAGREES]
    assert status.builds[0].build == "10.0.20348"


def test_an_end_that_comes_is_not_crowded_out_by_worse() -> None:
    now = at(END_OF_2022 - timedelta(days=100))
    crowd = [running(f"w{n:02d}", f"10.0.{30000 + n}.1") for n in range(2 * MAX_ISSUES)]
    status = status_of(a_node("z"), *crowd, now=now)
    assert (len(status.issues), status.issue_count) == (MAX_ISSUES, 2 * MAX_ISSUES + 1)
    assert status.issues[-1].reason == IssueReason.SUPPORT_ENDING


def test_nodes_of_different_revisions_below_one_floor_are_one_issue() -> None:
    pool = a_pool(more={"os": {"version": "2022", "minRevision": 5000}})
    nodes = [running(f"w{n}", f"10.0.20348.{4000 + n}") for n in range(5)]
    found = decide(a_snapshot(pool, nodes)).status.issues
    [issue] = [each for each in found if each.reason == IssueReason.REVISION_BELOW_FLOOR]
    assert (issue.node_count, issue.nodes) == (5, ("w0", "w1", "w2"))
    assert "5000" in issue.message


def test_releases_that_are_not_supported_are_issues_of_their_own() -> None:
    nodes = [running("w1", OLD, runtime=OWN_PAUSE), running("w2", "10.0.19041.1", runtime=OWN_PAUSE)]
    nodes += [running("w3", OLD, runtime=OWN_PAUSE)]
    found = status_of(*nodes, now=OLD_DAY).issues
    unsupported = {each.nodes: each.message for each in found if each.reason == IssueReason.BUILD_UNSUPPORTED}
    assert unsupported.keys() == {("w1", "w3"), ("w2",)}
    assert "2016" in unsupported["w1", "w3"]


def reasons_told(before: WindowsNodePoolStatus, *nodes: Node, now: datetime = NOON) -> list[str]:
    pool = with_status(a_pool(), before)
    return [event.reason for event in decide(a_snapshot(pool, nodes, now=now)).pool_events]


def test_an_end_is_announced_once_when_it_comes_near_and_once_when_it_is_there() -> None:
    told = []
    status = status_of(a_node(), now=at(END_OF_2022 - timedelta(days=NOTICE_DAYS + 2)))
    for days in (NOTICE_DAYS + 1, NOTICE_DAYS, NOTICE_DAYS - 1, WARNING_DAYS, 1, 0, -1, -2):
        now = at(END_OF_2022 - timedelta(days=days))
        told += [(days, reason) for reason in reasons_told(status, a_node(), now=now) if "Support" in reason]
        status = decide(a_snapshot(with_status(a_pool(), status), [a_node()], now=now)).status
    assert told == [(NOTICE_DAYS, "SupportEnding"), (-1, "SupportEnded")]


def test_each_end_is_announced_also_while_another_is_near_and_others_crowd_the_list() -> None:
    nodes = [running("a", "10.0.26100.32995"), running("b", "10.0.20348.4052")]
    crowd = [running(f"w{n:02d}", f"10.0.{30000 + n}.1") for n in range(2 * MAX_ISSUES)]
    row = {"osVersion": "2025", "endOfSupport": str(END_OF_2022 - timedelta(days=30))}
    pool, told = a_pool(more={"supportMatrix": [row]}), []
    known: tuple[KnownIssue, ...] = ()
    for days in (NOTICE_DAYS + 31, NOTICE_DAYS + 30, NOTICE_DAYS + 1, NOTICE_DAYS, NOTICE_DAYS - 1):
        snapshot = a_snapshot(pool, [*nodes, *crowd], now=at(END_OF_2022 - timedelta(days=days)))
        decision = decide(replace(snapshot, known_issues=known))
        told += [(days, each.note[:48]) for each in decision.pool_events if each.reason == "SupportEnding"]
        pool, known = with_status(pool, decision.status), decision.issues
    assert told == [
        (NOTICE_DAYS + 30, "1 node (a): Support for Windows Server 2025 ends"),
        (NOTICE_DAYS, "1 node (b): Support for Windows Server 2022 ends"),
    ]


def test_an_end_of_support_goes_on_when_the_node_that_stood_for_it_is_gone() -> None:
    first = at(END_OF_2022 - timedelta(days=100))
    before = status_of(a_node("w1"), a_node("w2"), now=first)
    pool = with_status(a_pool(), before)
    later = decide(a_snapshot(pool, [a_node("w2")], now=first + timedelta(days=1)))
    (issue,) = later.status.issues
    assert (issue.nodes, issue.since) == (("w2",), first)
    assert "SupportEnding" not in [each.reason for each in later.pool_events]


def test_an_end_that_an_earlier_version_announced_is_not_announced_again() -> None:
    first = at(END_OF_2022 - timedelta(days=100))
    told = {
        "reason": "SupportEnding",
        "since": first.isoformat(),
        "message": "support of Windows Server 2022 ends with 2031-10-14 (UTC), 3 nodes on it",
        "fix": "plan nodes with a newer release",
    }
    before = read_status({"status": {"observedGeneration": 1, "issues": [told]}})
    later = decide(a_snapshot(with_status(a_pool(), before), [a_node()], now=first + timedelta(days=1)))
    assert "SupportEnding" not in [each.reason for each in later.pool_events]
    assert [each.since for each in later.status.issues] == [first]


@pytest.mark.slow
def test_thousands_of_nodes_that_become_unsupported_at_once_are_one_event() -> None:
    nodes = [running(f"w{n:04d}", OLD) for n in range(1000)]
    good = [a_node(f"w{n:04d}") for n in range(1000)]
    told = reasons_told(status_of(*good, now=OLD_DAY), *nodes, now=OLD_DAY)
    assert told.count("BuildUnsupported") == 1
    assert "BuildUnsupported" not in reasons_told(status_of(*nodes, now=OLD_DAY), *nodes, now=OLD_DAY)


# What the pool itself says


def test_a_row_of_the_pool_is_heard() -> None:
    row = {"osVersion": "2016", "verdict": "Allow", "reason": "vendor backport"}
    snapshot = a_snapshot(
        a_pool(more={"supportMatrix": [row]}), [running("w1", OLD, runtime=OWN_PAUSE)], now=OLD_DAY
    )
    found = condition_of(decide(snapshot).status)
    assert (found.status, found.reason) == ("True", "NodesSupported")


def test_a_reason_of_a_row_reaches_status_and_events_in_one_printable_line() -> None:
    reason = "we said so\x1b[2J,\nand\u202e we\x9b meant it\n"
    row = {"osVersion": "2016", "verdict": "Deny", "reason": reason}
    pool = with_status(a_pool(more={"supportMatrix": [row]}), status_of(a_node()))
    decision = decide(a_snapshot(pool, [running("w1", OLD)]))
    told = [issue.message for issue in decision.status.issues if "we said so" in issue.message]
    told += [each.message for each in decision.status.conditions if "we said so" in each.message]
    assert told
    assert [text for text in told if not text.isprintable()] == []
    assert r"we said so\x1b[2J, and\u202e we\x9b meant it." in told[0]


def test_a_row_for_a_release_that_nobody_knows_is_refused_with_the_ones_that_are_known() -> None:
    row = {"osVersion": "2018", "verdict": "Allow"}
    decision = decide(a_snapshot(a_pool(more={"supportMatrix": [row]}), [a_node()]))
    accepted = decision.status.condition(ConditionType.ACCEPTED)
    assert accepted is not None
    assert (accepted.status, accepted.reason) == ("False", "SpecRejected")
    assert "'2018'" in accepted.message
    assert "2022" in accepted.message
    assert not decision.writes.patches, "a spec that cannot be acted on is not acted on"


def test_nodes_of_one_kind_are_judged_once() -> None:
    nodes = [*(a_node(f"w{n}") for n in range(50)), running("x", OLD)]
    assessed = assess(a_snapshot(a_pool(), nodes))
    assert len({id(each.found.judgement) for each in assessed}) == 2


def test_a_target_below_a_floor_of_the_cluster_is_refused() -> None:
    """No node could ever be as the spec asks."""
    pool = a_pool(more={"os": {"version": "2022", "targetRevision": 4052}})
    snapshot = with_cluster_rows(a_snapshot(pool, [a_node()]), Row("2022", min_revision=5000))
    accepted = decide(snapshot).status.condition(ConditionType.ACCEPTED)
    assert accepted is not None
    assert (accepted.status, accepted.reason) == ("False", "SpecRejected")
    assert accepted.message.startswith("spec.os.targetRevision: 4052 is below revision 5000")
    assert "--support-matrix-file" in accepted.message
