"""What holds for the status of any pool: never green over trouble, one entry for each cause, short, in order.

Issue 15, §1. All is asked of the status as JSON, as people and programs read it.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.builders import (
    MINUTE,
    NOON,
    SUPPORTED,
    Nodes,
    Object,
    a_node,
    a_pool,
    a_record,
    a_snapshot,
    a_survey,
    by_name,
    with_status,
)
from harness.sentences import faults_of, faults_of_texts
from harness.strategies import NASTY, fleets, haunted_nodes, pools
from harness.writes import settled
from winpool.api.keys import APPLIED_ANNOTATION
from winpool.api.status import WindowsNodePoolStatus
from winpool.decide import decide
from winpool.model.node import NodeVersions
from winpool.model.pool import Pool
from winpool.model.snapshot import Snapshot

SHOWN: Final = 3
MAX_ISSUES: Final = 10
SHORT_BYTES: Final = 32 * 1024
LABELS: Final = {"team": "payments"}
BUILDS: Final = {"2019": 17763, "2022": 20348, "2025": 26100}
BUILD_OF: Final = {**BUILDS, "1809": 17763}
"""By what a spec may ask for; nodes of 1809 are judged as 2019, whose build it shares."""
BEYOND: Final = 2**31
"""No revision is so large: what an int32 of the API cannot hold is not known."""
REVISIONS: Final = (1607, 4052, 32995, BEYOND)
KERNELS: Final = (
    *(f"10.0.{build}.{revision}" for build in BUILDS.values() for revision in REVISIONS),
    "10.0.20348",
    "10.0.22631.5335",
    "10.0.?",
    "",
)
KUBELETS: Final = ("v1.36.3", "v1.36.3", "v1.33.1", "garbage")
RUNTIMES: Final = ("containerd://2.3.0", "containerd://2.3.0", "containerd://1.5.7", "")
READABLE: Final = re.compile(r"10\.0\.(\d+)\.(\d+)")
RIVAL: Final = a_pool("rival")


def told(snapshot: Snapshot) -> Object:
    """Return the status that a decision reports, as JSON."""
    return decide(snapshot).status.to_object()


def issues_of(status: Object, reason: str | None = None) -> list[Object]:
    """Return the issues with that reason, or all."""
    found: list[Object] = status.get("issues", [])
    return [each for each in found if reason in (None, each["reason"])]


def the_issue(status: Object, reason: str) -> Object:
    """Return the one issue with that reason; fails where there is another number of them."""
    found = issues_of(status, reason)
    assert len(found) == 1, f"{len(found)} issues {reason}: {found}"
    return found[0]


def state_of(status: Object) -> str:
    """Return the reason of Ready."""
    return condition(status, "Ready")[1]


def condition(status: Object, kind: str) -> tuple[str, str]:
    [found] = [each for each in status["conditions"] if each["type"] == kind]
    return found["status"], found["reason"]


def after_all_writes(pool: Pool, nodes: Nodes, **seen: Any) -> Object:
    """Return the status once all nodes carry what the pool puts on them."""
    for _ in range(2):
        pool, nodes = settled(pool, nodes)
    return told(a_snapshot(pool, nodes, **seen))


# Never green


def is_right(kernel: str, *, version: str, target: int | None) -> bool:
    """Whether a node with this kernelVersion is of the release and at least at the revision asked for."""
    found = READABLE.fullmatch(kernel)
    if found is None or version not in BUILD_OF:
        return False
    return int(found[1]) == BUILD_OF[version] and (target is None or target <= int(found[2]) < BEYOND)


hosts = st.lists(
    st.builds(NodeVersions, st.sampled_from(KERNELS), st.sampled_from(KUBELETS), st.sampled_from(RUNTIMES)),
    min_size=1,
    max_size=4,
)
asked = st.builds(
    lambda version, target, floor: {
        "version": version,
        **({} if target is None else {"targetRevision": target}),
        **({} if floor is None or (target or floor) < floor else {"minRevision": floor}),
    },
    st.sampled_from((*BUILD_OF, "2028")),
    st.sampled_from((None, 1607, 4052)),
    st.sampled_from((None, None, 2000)),
)


@given(hosts, asked)
def test_state_is_never_up_to_date_over_a_node_that_is_not(versions: list[NodeVersions], os: Object) -> None:
    """§1: "Wrong release is never green"; of another release, below the target, unsupported or unknown."""
    nodes = by_name(*(a_node(f"n{at}", versions=each) for at, each in enumerate(versions)))
    status = after_all_writes(a_pool(labels=LABELS, more={"os": os}), nodes)
    right = [
        is_right(each.kernel, version=os["version"], target=os.get("targetRevision")) for each in versions
    ]
    supported = condition(status, "OSSupported")[0]
    # One without a revision is of the release, and whether that is enough is asked by the target only.
    bare = [each.kernel == "10.0.20348" for each in versions]
    if state_of(status) == "UpToDate":
        assert all(one or other for one, other in zip(right, bare, strict=True))
        assert supported == "True"
        assert condition(status, "NodesUpToDate") == ("True", "UpToDate")
    if all(right) and supported == "True":
        assert state_of(status) == "UpToDate"
    assert status["upToDateNodes"] <= sum(right) + sum(bare)
    assert status["upToDateNodes"] == len(versions) or condition(status, "NodesUpToDate")[0] != "True"
    if condition(status, "NodesUpToDate")[0] == "Unknown":
        assert condition(status, "NodesUpToDate")[1] == "BuildUnknown"
    # A person's turn is no work of the operator's and no failure.
    assert condition(status, "Reconciling") == ("False", "Settled")
    assert condition(status, "Stalled") == ("False", "NotStalled")
    assert condition(status, "Ready")[0] == "True"


@pytest.mark.parametrize(
    ("kernels", "target", "expected"),
    [
        (["10.0.20348.4052"], None, ("True", "UpToDate")),
        (["10.0.20348.4052"], 4052, ("True", "UpToDate")),
        (["10.0.20348.5000"], 4052, ("True", "UpToDate")),
        (["10.0.20348.4051"], 4052, ("False", "WaitingForActor")),
        (["10.0.20348.4052", "10.0.20348.4051"], 4052, ("False", "WaitingForActor")),
        (["10.0.26100.32995"], 4052, ("False", "WaitingForActor")),
        (["10.0.26100.32995"], None, ("False", "WaitingForActor")),
        (["10.0.20348"], 4052, ("Unknown", "BuildUnknown")),
        (["10.0.?"], None, ("Unknown", "BuildUnknown")),
        (["10.0.20348.4052", ""], 4052, ("Unknown", "BuildUnknown")),
        (["10.0.20348.1", ""], 4052, ("False", "WaitingForActor")),
    ],
)
def test_nodes_up_to_date_by_release_and_revision(
    kernels: list[str], target: int | None, expected: tuple[str, str]
) -> None:
    """§1: "A node is up to date only if its release is the spec's and …, its revision at least that"."""
    nodes = by_name(
        *(a_node(f"n{at}", versions=replace(SUPPORTED, kernel=kernel)) for at, kernel in enumerate(kernels))
    )
    os = {"version": "2022", **({} if target is None else {"targetRevision": target})}
    status = after_all_writes(a_pool(labels=LABELS, more={"os": os}), nodes)
    assert condition(status, "NodesUpToDate") == expected


def test_a_release_that_shares_its_build_is_no_mismatch() -> None:
    """A spec may say 1809 for what every node of it reports as the build of 2019."""
    node = a_node(versions=replace(SUPPORTED, kernel="10.0.17763.8000"))
    status = after_all_writes(a_pool(labels=LABELS, more={"os": {"version": "1809"}}), by_name(node))
    assert issues_of(status, "OSVersionMismatch") == []
    assert status["upToDateNodes"] == 1


# One entry for each cause


@st.composite
def troubled(draw: st.DrawFn) -> Snapshot:
    """Return what is seen of a pool whose nodes are in all kinds of trouble."""
    pool = draw(pools())
    nodes = draw(fleets(max_size=6))
    for at in range(draw(st.integers(0, 3))):
        nodes |= by_name(draw(haunted_nodes(f"h{at}")))
    for at in range(draw(st.integers(0, 3))):
        owner = draw(st.sampled_from((RIVAL.uid, "stranger", "another")))
        nodes |= by_name(a_node(f"o{at}", annotations=a_record(owner)))
    names = sorted(nodes)
    some = st.sets(st.sampled_from(names)) if names else st.just(set[str]())
    refused = {
        nodes[
            name
        ].uid: f'patch nodes {name}: 403 Forbidden: nodes "{name}" is forbidden: policy {name} says no'
        for name in draw(some)
    }
    contested = {nodes[name].uid: ("label team",) for name in draw(some)}
    survey = a_survey(pool, nodes.values(), unreadable=frozenset(draw(some)))
    if survey is not None and survey.intolerant:
        web = {f"{taint}": [f"{name}/shop/web-{name}" for name in draw(some)] for taint in _written(pool)}
        survey = a_survey(pool, nodes.values(), intolerant=web, unreadable=survey.unreadable)
    return a_snapshot(
        pool, nodes, rivals=[RIVAL], refused=refused, contested=contested, survey=survey, guard="a-guard"
    )


def _written(pool: Pool) -> list[str]:
    assert pool.spec is not None
    return [f"{each.key}={each.value}:{each.effect}" for each in pool.spec.taints]


def names_in(text: str, names: Iterable[str]) -> list[str]:
    """Return the names that stand in a text as words."""
    return [name for name in names if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", text)]


@pytest.mark.slow
@given(troubled())
def test_there_is_one_entry_for_each_reason_and_cause_and_it_is_of_the_promised_form(seen: Snapshot) -> None:
    """§1: "`{reason, nodeCount, nodes: [first 3], since, message, fix}`, one per reason and cause"."""
    status = told(seen)
    found = issues_of(status)
    names = {node.name for node in seen.nodes}
    causes = [(each["reason"], each["message"]) for each in found]
    assert len(set(causes)) == len(causes)
    assert len(found) <= MAX_ISSUES
    assert status["issueCount"] >= len(found)
    assert status["issueCount"] == len(found) or len(found) == MAX_ISSUES
    for each in found:
        assert set(each) == {"reason", "nodeCount", "nodes", "since", "message", "fix"}
        shown = each["nodes"]
        assert shown == sorted(set(shown))
        assert len(shown) == min(each["nodeCount"], SHOWN)
        assert set(shown) <= names
        assert each["nodeCount"] <= len(names)
        assert names_in(each["message"], names) == [], each
        assert not re.search(r"\b\d+ (?:of \d+ )?(?:more |other )?(?:nodes?|pods?)\b", each["message"]), each


@pytest.mark.slow
@given(troubled())
def test_all_that_people_read_is_in_sentences_and_none_is_told_twice(seen: Snapshot) -> None:
    """§3; what must be shown, 2: "no sentence stands twice"."""
    decision = decide(seen)
    assert list(faults_of(decision.status)) == []
    notes = [each.note for each in decision.pool_events]
    notes += [each.note for each in decision.node_events.values()]
    assert list(faults_of_texts(notes)) == []


@pytest.mark.slow
@given(troubled(), st.randoms())
def test_the_status_does_not_depend_on_the_order_in_which_things_are_seen(
    seen: Snapshot, shuffler: random.Random
) -> None:
    nodes = list(seen.nodes)
    shuffler.shuffle(nodes)
    rivals = tuple(reversed(seen.others.rivals))
    refused = dict(reversed(list(seen.attempts.refused.items())))
    other = replace(
        seen,
        nodes=tuple(nodes),
        others=replace(seen.others, rivals=rivals),
        attempts=replace(seen.attempts, refused=refused),
    )
    assert told(other) == told(seen)


@given(troubled())
def test_a_second_look_at_the_same_changes_nothing_and_keeps_all_times(seen: Snapshot) -> None:
    pool = with_status(seen.pool, decide(seen).status)
    again = replace(seen, pool=pool, now=NOON + MINUTE)
    assert issues_of(told(again)) == issues_of(told(seen))


@pytest.mark.slow
@given(troubled())
def test_the_status_can_be_read_back(seen: Snapshot) -> None:
    status = told(seen)
    assert WindowsNodePoolStatus.model_validate(status).to_object() == status


@pytest.mark.parametrize("size", [1, 3, 4, 40])
def test_a_cause_is_one_entry_however_many_nodes_it_has(size: int) -> None:
    """§1: the server's refusal without node names; release; floor."""
    nodes = [a_node(f"w{at:02}", versions=replace(SUPPORTED, kernel="10.0.26100.1")) for at in range(size)]
    refused = {
        node.uid: f'patch nodes {node.name}: 403 nodes "{node.name}" is forbidden: no changes to {node.name}'
        for node in nodes
    }
    random.Random(size).shuffle(nodes)
    status = told(a_snapshot(a_pool(labels=LABELS), nodes, refused=refused))
    for reason in ("WriteRefused", "OSVersionMismatch"):
        found = the_issue(status, reason)
        assert found["nodeCount"] == size
        assert found["nodes"] == [f"w{at:02}" for at in range(min(size, SHOWN))]
    assert status["issueCount"] == len(issues_of(status))


def test_different_causes_with_the_same_reason_are_different_entries() -> None:
    nodes = [a_node("w1"), a_node("w2"), a_node("w3")]
    why = ("no changes on Fridays", "no changes on Fridays", "quota exceeded")
    refused = {
        node.uid: f"patch nodes {node.name}: 403 {said}" for node, said in zip(nodes, why, strict=True)
    }
    found = issues_of(told(a_snapshot(a_pool(labels=LABELS), nodes, refused=refused)), "WriteRefused")
    assert sorted((each["nodeCount"], each["nodes"]) for each in found) == [(1, ["w3"]), (2, ["w1", "w2"])]


def test_more_causes_than_fit_are_counted_and_the_worst_are_shown() -> None:
    """§1: "at most 10, worst first; `issueCount` says how many there are"."""
    kernels = [replace(SUPPORTED, kernel=f"10.0.{30000 + at}.1") for at in range(14)]
    nodes = [a_node(f"w{at:02}", versions=versions) for at, versions in enumerate(kernels)]
    other = a_node("z", annotations={APPLIED_ANNOTATION: "{"})
    status = told(a_snapshot(a_pool(labels=LABELS), [*nodes, other]))
    found = issues_of(status)
    assert len(found) == MAX_ISSUES
    assert status["issueCount"] == 15
    assert found[0]["reason"] == "OwnershipRecordUnreadable"


def test_an_issue_about_the_pool_as_a_whole_has_no_nodes() -> None:
    status = told(a_snapshot(a_pool(labels=LABELS), [a_node(labels={"agentpool": "blue"})]))
    found = the_issue(status, "NoNodesSelected")
    assert (found["nodeCount"], found["nodes"]) == (0, [])
    assert "blue" in f"{found['message']} {found['fix']}", "the nearest label that a Windows node does have"


def test_counts_of_issues_are_written_also_where_there_are_none() -> None:
    status = after_all_writes(a_pool(labels=LABELS), by_name(a_node()))
    assert (status["issueCount"], status["issues"]) == (0, [])


# Times


def test_since_is_that_of_the_cause_while_its_nodes_change() -> None:
    """§1: "one per reason and cause (a stable key of the finding that is not published)"."""
    pool = a_pool(labels=LABELS)
    for minute, names in enumerate((["w5"], ["w1", "w5"], ["w1"], ["w0", "w1", "w2", "w3"])):
        nodes = [a_node(name, versions=replace(SUPPORTED, kernel="10.0.26100.1")) for name in names]
        status = decide(a_snapshot(pool, nodes, now=NOON + minute * MINUTE)).status
        pool = with_status(pool, status)
        found = the_issue(status.to_object(), "OSVersionMismatch")
        assert found["since"] == "2026-11-01T12:00:00Z"
    gone = with_status(pool, decide(a_snapshot(pool, [a_node()], now=NOON + 5 * MINUTE)).status)
    back = told(a_snapshot(gone, nodes, now=NOON + 6 * MINUTE))
    assert the_issue(back, "OSVersionMismatch")["since"] == "2026-11-01T12:06:00Z"


@pytest.mark.parametrize("named", [True, False], ids=["as stored", "as an API server prunes it"])
def test_a_status_in_the_old_form_is_read_without_losing_since(named: bool) -> None:
    """§1: "a status in the old form is read without losing `since`"."""
    nodes = [a_node(f"w{at}", annotations=a_record(RIVAL.uid)) for at in range(1, 5)]
    old = {
        "observedGeneration": 1,
        "issues": [
            {
                **({"node": node.name} if named else {}),
                "reason": "PoolOverlap",
                "since": "2026-10-01T08:00:00Z",
                "message": "belongs to pool rival",
                "fix": "change nodeSelector of one of the two pools so that they exclude each other",
            }
            for node in nodes
        ],
    }
    pool = a_pool(labels=LABELS, status=WindowsNodePoolStatus.model_validate(old))
    found = the_issue(told(a_snapshot(pool, nodes, rivals=[RIVAL])), "PoolOverlap")
    assert (found["nodeCount"], found["since"]) == (4, "2026-10-01T08:00:00Z")


# What others write


def assert_short(status: Object) -> None:
    """Assert that a status can be written, is printable and is short."""
    assert len(json.dumps(status)) <= SHORT_BYTES
    assert all(text.isprintable() for text in _texts(status))
    assert WindowsNodePoolStatus.model_validate(status).to_object() == status
    for each in issues_of(status):
        assert len(each["message"]) <= 1024
        assert len(each["fix"]) <= 1024


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        yield from _texts(inner)


WORDS: Final = ("node", "nodes", "pod", "pool", "the", "a", "patch", "label", "denied", "403", "winpool.dev")


def test_names_that_are_words_of_messages_harm_no_message() -> None:
    """§1: "the server's refusal without node names", where a name is a word of it."""
    nodes = [a_node(name) for name in WORDS]
    sentence = "admission webhook denied the request: label the node of a pool, patch no pod of the nodes"
    refused = {node.uid: f"patch nodes {node.name}: 403 {sentence}" for node in nodes}
    status = told(a_snapshot(a_pool(labels=LABELS), nodes, refused=refused))
    assert_short(status)
    found = issues_of(status, "WriteRefused")
    assert sum(each["nodeCount"] for each in found) == len(WORDS) or status["issueCount"] > MAX_ISSUES
    assert all("webhook" in each["message"] and "request" in each["message"] for each in found)


def test_a_name_that_is_a_part_of_another_name_hides_no_cause() -> None:
    nodes = [a_node("w1"), a_node("w10"), a_node("w1.example.com")]
    refused = {node.uid: f"patch nodes {node.name}: 403 no changes to {node.name} here" for node in nodes}
    found = the_issue(told(a_snapshot(a_pool(labels=LABELS), nodes, refused=refused)), "WriteRefused")
    assert found["nodeCount"] == 3
    assert names_in(found["message"], ("w1", "w10", "w1.example.com")) == []


@given(NASTY)
def test_what_a_server_says_is_one_printable_issue(words: str) -> None:
    nodes = [a_node("w1"), a_node("w2")]
    long = words + "\n\x1b[2J" + "no changes on Fridays " * 2000
    refused = {node.uid: f"patch nodes {node.name}: 403 {long}" for node in nodes}
    status = told(a_snapshot(a_pool(labels=LABELS), nodes, refused=refused))
    found = the_issue(status, "WriteRefused")
    assert found["nodeCount"] == 2
    assert_short(status)


def test_many_long_refusals_that_all_differ_leave_a_short_status() -> None:
    nodes = [a_node(f"w{at:03}") for at in range(200)]
    refused = {
        node.uid: f"patch nodes {node.name}: 403 {at} " + "x" * 40_000 for at, node in enumerate(nodes)
    }
    status = told(a_snapshot(a_pool(labels=LABELS), nodes, refused=refused))
    assert_short(status)
    found = issues_of(status, "WriteRefused")
    assert sorted(each["nodeCount"] for each in found) == [1, 1, 1, 1, 1, 195]


def test_a_taint_key_of_300_characters_is_told() -> None:
    key = f"{'.'.join(['a' * 59] * 4)}/{'k' * 63}"
    taint = f"{key}=windows:NoExecute"
    pool = a_pool(taints=[taint])
    nodes = [a_node(f"w{at}") for at in range(5)]
    survey = a_survey(pool, nodes, intolerant={taint: [f"{node.name}/shop/web" for node in nodes]})
    status = told(a_snapshot(pool, nodes, survey=survey))
    found = the_issue(status, "IntolerantPods")
    assert found["nodeCount"] == 5
    assert_short(status)


LIES: Final = (
    f"10.0.20348.{2**31}",
    f"10.0.20348.{2**63}",
    f"10.0.20348.{10**300}",
    f"10.0.{'9' * 400}.1",
    "10.0.20348.4052\n",
    "10.0.20348\x1b[2J.1",
    "10.0.20348.-1",
    "10.0.20348.٤٠٥٢",
)


@pytest.mark.parametrize("lie", LIES, ids=range(len(LIES)))
def test_a_kubelet_that_lies_of_its_windows_keeps_no_status_from_being_written(lie: str) -> None:
    nodes = by_name(a_node("liar", versions=replace(SUPPORTED, kernel=lie)), a_node("fine"))
    os = {"version": "2022", "targetRevision": 4052}
    status = after_all_writes(a_pool(labels=LABELS, more={"os": os}), nodes)
    assert_short(status)
    assert status["nodes"] == 2
    assert status["upToDateNodes"] >= 1


def test_a_matrix_full_of_rows_that_warn_leaves_a_short_status() -> None:
    """§1: "rows of `supportMatrix` gain `build`", sixteen of them with a reason of 256 characters."""
    builds = range(30_000, 30_016)
    rows = [
        {
            "osVersion": f"20{at}",
            "build": f"10.0.{build}",
            "verdict": "Warn",
            "reason": f"{at} \x1b[2J\n12 nodes " + "y" * 200,
        }
        for at, build in enumerate(builds, start=40)
    ]
    nodes = by_name(
        *(a_node(f"w{build}", versions=replace(SUPPORTED, kernel=f"10.0.{build}.1")) for build in builds)
    )
    pool = a_pool(labels=LABELS, more={"os": {"version": "2040"}, "supportMatrix": rows})
    status = after_all_writes(pool, nodes)
    assert_short(status)
    assert {each.get("osVersion") for each in status["builds"]} == {row["osVersion"] for row in rows}
    assert state_of(status) == "UpgradeDue"
    assert status["upToDateNodes"] == 1
