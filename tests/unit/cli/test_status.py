"""What ``status`` shows of a pool, on which terminal, and how it ends where it cannot show any."""

from __future__ import annotations

import argparse
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.builders import NOON, a_taint
from harness.strategies import NASTY
from unit.cli.pools import GOOD, a_condition, a_member, a_pool, an_issue, five_troubles, members
from winpool.api.conditions import ConditionType
from winpool.api.keys import HOLD_ANNOTATION, POOL_LABEL
from winpool.api.status import SlotState
from winpool.api.text import printable
from winpool.cli.console import Ink, Look, Paper, fills, look_of, rows_of, width_of
from winpool.cli.kubectl import Kubectl
from winpool.cli.reader import PoolFeed
from winpool.cli.status import (
    PoolView,
    Seen,
    _content,
    _Screen,
    _text,
    content_of,
    names_of,
    node_groups,
    render_pool,
    render_pools,
    seen_of,
)
from winpool.kube.nodes import NODES_PATH

if TYPE_CHECKING:
    from unit.cli.conftest import Plugin
    from winpool.model.node import Node

WIDE = Look(100)
PRESSURE = "winpool.dev/memory-pressure:NoSchedule"


def shown(pool: Mapping[str, Any], nodes: list[Node] | None = None, *, look: Look = WIDE, **more: Any) -> str:
    shown_nodes = members(40) if nodes is None else nodes
    return render_pool(PoolView(pool), shown_nodes, now=NOON, look=look, **more)


def section(text: str, title: str) -> list[str]:
    """Return the lines of a section, from its title to the next empty line."""
    lines = text.splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith(title))
    after = lines[begin:]
    return after[: after.index("")] if "" in after else after


def squeezed(text: str) -> str:
    """Return ``text`` without its line breaks."""
    return " ".join(text.split())


def test_a_pool_in_good_order_takes_a_few_lines_and_names_no_condition() -> None:
    text = shown(a_pool())
    header = squeezed("\n".join(section(text, "Pool:")))
    for said in ("win-2022", "Windows Server 2022", "Active", "40 Ready", "40 available", "40 up to date"):
        assert said in header
    assert "UpToDate" in header
    assert "5d3h" in header
    assert "Conditions" not in text
    assert section(text, "Issues") == ["Issues: none"]
    assert [line.split() for line in section(text, "Nodes by state")[1:]] == [["40", "up", "to", "date"]]
    assert len(text.splitlines()) < 20


@pytest.mark.parametrize("width", [80, 100, 120])
def test_forty_nodes_with_five_kinds_of_trouble_take_less_than_sixty_lines(width: int) -> None:
    pool, nodes = five_troubles()
    text = shown(pool, nodes, look=Look(width))
    assert len(text.splitlines()) < 60
    whole = squeezed(text)
    for issue in pool["status"]["issues"]:
        for said in (issue["reason"], squeezed(issue["message"]), squeezed(issue["fix"])):
            assert said in whole
    assert "TooFewAvailable" in whole


def test_no_line_is_wider_than_the_terminal() -> None:
    pool, nodes = five_troubles()
    for width in (60, 80, 120):
        assert max(map(len, shown(pool, nodes, look=Look(width)).splitlines())) <= width


def test_a_word_that_is_longer_than_a_line_stays_whole_for_who_copies_it() -> None:
    command = f"kubectl-{'x' * 90}"
    text = shown(a_pool(issues=[an_issue("KeysLeftAlone", "w1", fix=f"run {command}")]), look=Look(60))
    assert command in text


@pytest.mark.parametrize("type_", [each for each in ConditionType if each is not ConditionType.READY])
def test_a_condition_is_shown_where_it_is_not_as_it_should_be(type_: ConditionType) -> None:
    good, reason = GOOD[type_]
    other = "False" if good == "True" else "True"
    text = shown(a_pool(conditions=[a_condition(type_, other, "SomeReason", "the sentence")]))
    lines = section(text, "Conditions")
    assert len(lines) == 3
    assert f"{type_}={other}, SomeReason, for 12m" in lines[1]
    assert lines[2].strip() == "the sentence"
    assert "Conditions" not in shown(a_pool(conditions=[a_condition(type_, good, reason)]))


@pytest.mark.parametrize("type_", ["NodesUpToDate", "OSSupported", "Stalled"])
def test_unknown_is_not_as_it_should_be(type_: str) -> None:
    text = shown(a_pool(conditions=[a_condition(type_, "Unknown", "OwnerUnknown")]))
    assert f"{type_}=Unknown" in text


def test_a_condition_that_this_version_does_not_know_is_left_out() -> None:
    pool = a_pool()
    pool["status"]["conditions"].append(a_condition("GalaxyHealthy", "False", "Pressure"))
    assert "GalaxyHealthy" not in shown(pool)


def test_a_sentence_that_several_conditions_share_is_shown_once() -> None:
    said = "9 nodes wait"
    pool = a_pool(
        conditions=[
            a_condition("Ready", "True", "TaintsHeld", said),
            a_condition("NodesUpToDate", "False", "TaintsHeld", said),
            a_condition("Stalled", "True", "TaintsHeld", said),
        ]
    )
    assert shown(pool).count(said) == 1


def test_an_issue_says_how_many_nodes_the_first_names_since_when_and_what_to_do() -> None:
    issue = an_issue("VersionSkew", "w1", "w2", "w3", count=12, message="too old", fix="upgrade it")
    lines = section(shown(a_pool(issues=[issue])), "Issues")
    assert lines[0] == "Issues: 1"
    assert "VersionSkew, 12 nodes (w1, w2, w3 and 9 more), for 5h" in lines[1]
    assert [line.strip() for line in lines[2:]] == ["too old", "Fix: upgrade it"]


def test_nodes_under_pressure_and_held_nodes_are_counted_and_take_a_line_each() -> None:
    nodes = members(40)
    pressured = [replace(each, taints=(*each.taints, a_taint(PRESSURE))) for each in nodes[:5]]
    held = [replace(each, annotations={HOLD_ANNOTATION: ""}) for each in nodes[5:7]]
    pool = a_pool(status={"pressuredNodes": 6, "heldNodes": 2})
    text = shown(pool, [*pressured, *held, *nodes[7:]])
    assert "40 up to date, 6 under memory pressure, 2 held" in squeezed(text)
    assert [line.strip() for line in section(text, "Nodes by state")[1:]] == [
        "33 up to date",
        "5 tainted because of memory pressure: w01, w02, w03 and 2 more",
        "2 held, by the annotation winpool.dev/hold: w06, w07",
    ]
    content = content_of(PoolView(pool))
    assert (content["pressuredNodes"], content["heldNodes"]) == (6, 2)


def test_where_none_is_under_pressure_or_held_nothing_is_said_of_it() -> None:
    text = shown(a_pool(status={"pressuredNodes": 0, "heldNodes": 0}))
    assert "pressure" not in text
    assert "held" not in text


def test_what_someone_has_asked_for_has_another_mark_than_what_is_wrong() -> None:
    text = shown(a_pool(issues=[an_issue("BuildUnsupported", "w1"), an_issue("NodesHeld", "w1")]))
    marks = [line.split(",")[0] for line in section(text, "Issues")[1:] if ", 1 node" in line]
    assert marks == ["  ! BuildUnsupported", "  * NodesHeld"]


def test_an_issue_without_nodes_is_about_the_pool() -> None:
    text = shown(a_pool(issues=[an_issue("GuardNotInForce")]))
    assert "GuardNotInForce, the pool as a whole" in text


def test_issues_beyond_those_that_are_listed_are_counted() -> None:
    pool = a_pool(issues=[an_issue("VersionSkew", "w1")], status={"issueCount": 14})
    assert section(shown(pool), "Issues")[0].startswith("Issues: 14")


def test_builds_are_a_table_with_what_is_not_known_as_a_dash() -> None:
    builds = [
        {"build": "10.0.20348", "osVersion": "2022", "nodes": 39, "minRevision": 1607, "maxRevision": 4052,
         "verdict": "Warned", "endOfSupport": "2031-10-14"},
        {"build": "10.0.99999", "nodes": 1, "verdict": "Unknown"},
    ]  # fmt: skip
    lines = section(shown(a_pool(status={"builds": builds})), "Builds")
    assert [line.split() for line in lines[1:]] == [
        ["BUILD", "OS", "REVISIONS", "NODES", "VERDICT", "END-OF-SUPPORT"],
        ["10.0.20348", "2022", "1607-4052", "39", "Warned", "2031-10-14"],
        ["10.0.99999", "-", "-", "1", "Unknown", "-"],
    ]


def test_nodes_are_folded_by_state_and_those_in_trouble_are_named() -> None:
    nodes = [*members(4), *(a_member(f"x{number}", release="2019") for number in range(1, 6))]
    lines = [line.split(maxsplit=1) for line in section(shown(a_pool(nodes=9), nodes), "Nodes by")[1:]]
    assert lines == [["4", "up to date"], ["5", "upgrade due: x1, x2, x3 and 2 more"]]


def test_nodes_that_are_not_up_to_date_yet_lead_to_issues_only_if_there_are_any() -> None:
    behind = {"upToDateNodes": 0}
    (_, line) = section(shown(a_pool(nodes=2, status=behind), members(2)), "Nodes by")
    assert line == "  2 not as the spec asks: w01, w02"
    issues = [an_issue("WriteFailing", "w01")]
    (_, line) = section(shown(a_pool(nodes=2, status=behind, issues=issues), members(2)), "Nodes by")
    assert line == "  2 not as the spec asks, see issues: w01, w02"


def test_where_nodes_cannot_be_listed_the_reason_is_shown_and_the_rest_too() -> None:
    text = shown(a_pool(), [], nodes_problem="the API server refuses: you may not")
    assert "the API server refuses: you may not" in text
    assert "40 Ready" in text


def test_before_the_first_look_of_the_operator_the_state_says_so() -> None:
    pool = a_pool()
    for status in ({}, {"observedGeneration": -1, "nodes": 0}):
        text = squeezed(shown(pool | {"status": status}, []))
        assert "the operator has not processed this pool yet" in text
        assert "Issues" not in text


def test_a_status_that_is_behind_its_spec_says_so() -> None:
    said = "The operator has not processed the newest spec yet"
    assert said in shown(a_pool(metadata={"generation": 2}))
    assert said not in shown(a_pool())


def test_the_plan_of_a_dry_run_is_folded_by_what_would_be_changed() -> None:
    def step(node: str, *changes: dict[str, str]) -> dict[str, Any]:
        return {"node": node, "action": "Update", "reason": "Labels", "changes": list(changes)}

    team = {"kind": "Label", "key": "team", "from": "payments", "to": "billing"}
    tier = {"kind": "Label", "key": "tier", "to": "gold"}
    taint = {"kind": "Taint", "key": "os:NoSchedule", "from": "windows"}
    steps = [*(step(f"w{number}", team) for number in range(1, 5)), step("w5", tier, taint)]
    pool = a_pool(spec={"mode": "DryRun"}, status={"plan": {"totalNodes": 60, "steps": steps}})
    lines = section(shown(pool), "Plan")
    assert "60 nodes" in lines[0]
    assert lines[1].strip() == "change label team: payments -> billing on 4 nodes (w1, w2, w3 and 1 more)"
    assert lines[2].strip() == "add label tier: gold, remove taint os:NoSchedule (windows) on 1 node (w5)"
    assert "55 nodes more" in lines[-1]


def test_upgrades_of_a_plan_are_told_from_what_the_operator_would_write() -> None:
    steps = [
        {"node": "w1", "action": "Update", "changes": [{"kind": "Label", "key": "team", "to": "a"}]},
        {"node": "w2", "action": "Upgrade", "reason": "OSRevision", "batch": 1},
        {"node": "w3", "action": "Upgrade", "reason": "OSRevision", "batch": 1},
        {"node": "w4", "action": "Upgrade", "reason": "Request", "closedGates": ["Capacity", "Images"]},
    ]
    plan = {"totalNodes": 4, "steps": steps, "upgrade": {"dueNodes": 3}}
    text = shown(a_pool(spec={"mode": "DryRun"}, status={"plan": plan}))
    lines = section(text, "Plan")
    assert lines[0] == "Plan: for 4 nodes, what the operator would write, and which upgrades are due"
    assert "  add label team: a on 1 node (w1)" in lines
    assert "  upgrade for OSRevision on 2 nodes (w2, w3)" in lines
    assert "  upgrade for Request, closed: Capacity and Images on 1 node (w4)" in lines


def test_a_step_of_the_plan_that_was_cut_says_so() -> None:
    team = {"kind": "Label", "key": "team", "to": "billing"}
    step = {"node": "w1", "action": "Update", "reason": "Labels", "changes": [team], "changeCount": 12}
    pool = a_pool(spec={"mode": "DryRun"}, status={"plan": {"totalNodes": 1, "steps": [step]}})
    assert "add label team: billing and 11 more on 1 node (w1)" in squeezed(shown(pool))


def test_what_a_taint_of_the_plan_would_meet_is_shown() -> None:
    preflight = {
        "taint": "os=windows:NoExecute", "nodes": 2, "intolerantPods": 5,
        "pods": ["a/x", "a/y", "a/z"], "daemonSets": ["kube-system/csi"],
    }  # fmt: skip
    pool = a_pool(status={"plan": {"totalNodes": 0, "steps": [], "preflight": [preflight]}})
    told = squeezed("\n".join(section(shown(pool), "Plan")))
    assert "os=windows:NoExecute: not tolerated by 5 pods (a/x, a/y, a/z and 2 more) on 2 nodes" in told
    assert "kube-system/csi" in told


def test_the_slots_are_shown_but_for_those_that_count_for_nothing() -> None:
    slots = [{"node": f"w{place}", "state": state} for place, state in enumerate(SlotState)]
    said = shown(a_pool(status={"slots": slots}))
    assert "w0 Reserved, w1 Begun, w2 Gone and 1 more" in said
    assert "Slots:" not in shown(a_pool(status={"slots": slots[-1:]}))


def test_pods_that_cannot_run_are_counted() -> None:
    assert "3 pods that cannot run there" in shown(a_pool(status={"misplacedPods": 3}))


def test_there_is_nothing_beyond_ascii_where_the_terminal_has_nothing_else() -> None:
    pool, nodes = five_troubles()
    pool["status"]["issues"][0]["message"] = "für Prüfer gesperrt, and so on…"
    text = shown(pool, nodes)
    assert text.isascii()
    assert "and so on..." in text
    assert not shown(pool, nodes, look=Look(100, unicode=True)).isascii()


def test_a_pipe_gets_no_colours_and_a_terminal_the_same_words() -> None:
    pool, nodes = five_troubles()
    plain, painted = shown(pool, nodes), shown(pool, nodes, look=Look(100, colour=True))
    assert "\x1b" not in plain
    assert "\x1b[31m" in painted
    for code in ("0", "1", "31", "32", "33"):
        painted = painted.replace(f"\x1b[{code}m", "")
    assert painted == plain


def test_a_text_of_somebody_else_cannot_move_the_cursor() -> None:
    evil = "a\x1b[2Jb\nforged: line\u202e"
    pool = a_pool(
        name=evil, issues=[an_issue(evil, evil, message=evil, fix=evil)],
        conditions=[a_condition("Stalled", "True", evil, evil)],
        spec={"mode": evil, "os": {"version": evil}},
        status={"builds": [{"build": evil, "osVersion": evil, "nodes": 1, "verdict": evil}]},
    )  # fmt: skip
    text = shown(pool, [], look=Look(100, unicode=True))
    assert all(line.isprintable() for line in text.splitlines())
    assert not [line for line in text.splitlines() if line.startswith("forged")]


@pytest.mark.parametrize("look", [Look(80), Look(80, unicode=True)])
@pytest.mark.parametrize("state", ["ready", "unschedulable", "up to date"])
def test_a_node_cannot_write_on_the_terminal_by_its_name_or_labels(look: Look, state: str) -> None:
    evil = "w\x1b[2J\x1b]0;x\x07\n\x9b1m\u2028\u202e\u3164e\u0301\u0301\u0301"
    more: dict[str, Any] = {"ready": evil} if state == "ready" else {"unschedulable": state != "up to date"}
    nodes = [a_member(evil, release=evil, **more), a_member(f"{evil}2", labels={evil: evil})]
    text = shown(a_pool(nodes=2), nodes, look=look, nodes_problem="")
    assert all(printable(line) == line for line in text.split("\n"))
    text = shown(a_pool(nodes=2), [], look=look, nodes_problem=evil)
    assert all(printable(line) == line for line in text.split("\n"))


@given(st.text() | NASTY)
def test_paper_takes_any_text_and_shows_none_that_is_not_printable(text: str) -> None:
    paper = Paper(Look(60, unicode=True))
    paper.line(text)
    paper.wrapped(text, first="  ", rest="    ")
    paper.marked(text, ink=Ink.BAD)
    paper.table([{"NAME": text, "STATE": "x"}], dropped=(), indent="")
    lines = paper.text.split("\n")
    assert all(line.isprintable() for line in lines)
    assert lines[-2].endswith("   x"), "a row of a table is one line"


def test_an_object_of_any_shape_is_shown_as_far_as_it_can_be_read() -> None:
    strange: Any = {"metadata": [], "spec": "no", "status": {"conditions": [1], "issues": {}, "nodes": "x"}}
    for pool in ({}, strange, {"metadata": {"name": "a"}, "status": {"issues": [None, {"nodes": "w1"}]}}):
        assert shown(pool, [])


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**63, -1, "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"])
    | st.sampled_from([-5000, 5000]).map(lambda digits: 10**digits if digits > 0 else -(10**-digits))
    | st.floats()
    | st.text(max_size=8)
    | NASTY,
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=8), each, max_size=3),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Return the way to every value inside ``value``."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield (*path, key)
            yield from places(inner, (*path, key))


@st.composite
def mangled(draw: st.DrawFn) -> Mapping[str, Any]:
    """Return a pool with any JSON in a few places."""
    pool = deepcopy(five_troubles()[0])
    pool["metadata"]["deletionTimestamp"] = None
    pool["spec"]["os"]["targetRevision"] = 3000
    step = {
        "node": "w1",
        "reason": "Labels",
        "changes": [{"kind": "Label", "key": "a", "from": "b", "to": "c"}],
    }
    preflight = {"taint": "a", "nodes": 1, "intolerantPods": 2, "pods": ["a/x"], "daemonSets": ["a/y"]}
    pool["status"]["plan"] = {"totalNodes": 1, "steps": [step], "preflight": [preflight]}
    for path in draw(st.lists(st.sampled_from(list(places(pool))), min_size=1, max_size=4)):
        holder: Any = pool
        with suppress(LookupError, TypeError):
            for key in path[:-1]:
                holder = holder[key]
            holder[path[-1]] = draw(JSON)
    return pool


@given(mangled() | st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), JSON))
def test_whatever_an_object_holds_it_is_shown(pool: Mapping[str, Any]) -> None:
    view = PoolView(pool)
    assert content_of(view)["name"] == view.name
    text = render_pool(view, [a_member("w1", revision=10**20)], now=NOON, look=WIDE)
    assert all(line.isprintable() for line in text.split("\n"))
    assert render_pools([view, view], now=NOON, look=WIDE)


def test_a_condition_without_a_type_is_left_out_for_programs() -> None:
    pool = a_pool(conditions=[a_condition("Stalled", "True", "TaintsHeld")])
    pool["status"]["conditions"].append({"type": []})
    assert [each["type"] for each in content_of(PoolView(pool))["conditions"]] == ["Stalled"]


def test_a_number_that_is_longer_than_python_writes_counts_as_absent() -> None:
    builds = [{"build": "10.0.20348", "minRevision": 10**5000, "maxRevision": 4052, "nodes": 10**5000}]
    line = section(shown(a_pool(status={"builds": builds})), "Builds")[2]
    assert line.split()[:4] == ["10.0.20348", "-", "4052", "0"]


def test_columns_of_a_table_are_aligned_by_what_letters_take() -> None:
    pools = [a_pool(name="漢字"), a_pool(name="e\u0301")]
    lines = render_pools(map(PoolView, pools), now=NOON, look=Look(100, unicode=True)).splitlines()
    assert [line.split("2022")[0] for line in lines[1:]] == ["漢字   ", "e\u0301      "]


class TestSeveralPools:
    def test_each_is_one_line_in_the_order_given(self) -> None:
        pools = [a_pool(name="a", nodes=2), a_pool(name="b", issues=[an_issue("VersionSkew", "w1")])]
        lines = render_pools(map(PoolView, pools), now=NOON, look=WIDE).splitlines()
        assert [line.split() for line in lines] == [
            ["NAME", "OS", "MODE", "NODES", "READY", "UP-TO-DATE", "ISSUES", "STATE", "AGE"],
            ["a", "2022", "Active", "2", "2", "2", "0", "UpToDate", "5d3h"],
            ["b", "2022", "Active", "40", "40", "40", "1", "UpToDate", "5d3h"],
        ]

    def test_columns_go_where_they_do_not_fit_but_name_and_state_stay(self) -> None:
        pool = a_pool(
            name="a-name-of-26-characters-abc",
            conditions=[a_condition("Ready", "False", "TooFewAvailable")],
        )
        for width in (120, 100, 80):
            lines = render_pools([PoolView(pool)], now=NOON, look=Look(width)).splitlines()
            assert max(map(len, lines)) <= width
            assert "TooFewAvailable" in lines[1]
            assert "a-name-of-26-characters-abc" in lines[1]


class TestJson:
    def test_it_has_what_the_text_has_under_the_names_of_the_api(self) -> None:
        pool, nodes = five_troubles()
        view = PoolView(pool)
        groups_of = node_groups(view, nodes, now=NOON)
        content = content_of(view, groups_of)
        assert json.loads(json.dumps(content)) == content
        assert content["name"] == "win-2022"
        assert content["state"] == "TooFewAvailable"
        assert (content["nodes"], content["readyNodes"], content["upToDateNodes"]) == (40, 38, 26)
        assert [each["type"] for each in content["conditions"]] == [
            "Available", "NodesUpToDate", "OSSupported", "Stalled",
        ]  # fmt: skip
        assert content["issues"] == pool["status"]["issues"]
        assert content["issueCount"] == 5
        groups = {each["state"]: each for each in content["nodeGroups"]}
        assert groups["UpgradeDue"] == {
            "state": "UpgradeDue", "count": 4, "nodes": ["w13", "w14", "w15", "w16"],
        }  # fmt: skip
        assert sum(each["count"] for each in groups.values()) == 40

    def test_without_nodes_it_does_not_say_that_there_are_none(self) -> None:
        assert "nodeGroups" not in content_of(PoolView(a_pool()))


class Pools(PoolFeed):
    """Three pools, as the API server has them."""

    def __init__(self, *names: str) -> None:
        super().__init__(Kubectl())
        self._pools = {name: a_pool(name=name) for name in names}


class Nodes(Kubectl):
    """Lists nodes of two of the pools, and notes for which label it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def get(self, path: str, **query: str) -> bytes:
        assert path == NODES_PATH
        self.asked.append(query["labelSelector"])
        items = [
            {
                "metadata": {
                    "name": f"{pool}-1",
                    "uid": pool,
                    "resourceVersion": "1",
                    "labels": {POOL_LABEL: pool},
                }
            }
            for pool in ("a", "b", "not-shown")
        ]
        return json.dumps(
            {"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": items}
        ).encode()


class TestSeveral:
    """Pools in detail, of which more than one is shown."""

    def test_the_nodes_of_all_of_them_are_one_list(self) -> None:
        kubectl = Nodes()
        seen = seen_of(Pools("a", "b", "c"), kubectl, is_wanted=True)
        assert kubectl.asked == [POOL_LABEL]
        assert seen.nodes is not None
        assert {name: [each.name for each in nodes] for name, nodes in seen.nodes.items()} == {
            "a": ["a-1"], "b": ["b-1"], "c": [],
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("pools", "is_wanted", "asked"),
        [
            (("a",), None, [f"{POOL_LABEL}=a"]),
            (("a", "b"), None, []),
            (("a",), False, []),
            (("a",), True, [f"{POOL_LABEL}=a"]),
            ((), True, []),
        ],
    )
    def test_nodes_are_listed_where_they_are_shown(
        self, pools: tuple[str, ...], is_wanted: bool | None, asked: list[str]
    ) -> None:
        kubectl = Nodes()
        seen = seen_of(Pools(*pools), kubectl, is_wanted=is_wanted)
        assert (kubectl.asked, seen.nodes is not None, seen.nodes_problem) == (asked, bool(asked), "")

    def test_each_is_shown_whole_one_below_the_other(self) -> None:
        pools = (a_pool(name="a"), a_pool(name="b"))
        seen = Seen(pools=pools, nodes={"a": members(40), "b": members(39)})
        text = _text(seen, now=NOON, look=WIDE)
        assert text == f"{shown(pools[0], members(40))}\n{shown(pools[1], members(39))}"
        first, second = _content(seen)["pools"]
        assert [each["nodeGroups"][0]["count"] for each in (first, second)] == [40, 39]
        assert [*names_of(seen)] == [f"windowsnodepool.winpool.dev/{name}" for name in ("a", "b")]

    def test_without_their_nodes_they_are_a_line_each_and_wide_has_more_columns(self) -> None:
        pool = a_pool(
            name="a", status={"heldNodes": 3}, conditions=[a_condition("OSSupported", "False", "Unsupported")]
        )
        seen = Seen(pools=(pool,))
        head, line = _text(seen, now=NOON, look=Look(40, wide=True)).splitlines()
        cells = dict(zip(head.split(), line.split(), strict=True))
        assert (cells["AVAILABLE"], cells["SUPPORTED"], cells["HELD"]) == ("40", "False", "3")
        assert {"MODE", "OS", "READY", "AGE"} < {*cells}, "however narrow the terminal"
        assert "nodeGroups" not in _content(seen)["pools"][0]


class TestScreen:
    """What ``-w`` draws on a terminal."""

    @pytest.fixture
    def drawn(self, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
        def draw(seen: Seen, *, columns: int, height: int) -> list[str]:
            stream = _Stream()
            monkeypatch.setenv("COLUMNS", str(columns))
            monkeypatch.setenv("LINES", str(height))
            monkeypatch.setattr("sys.stdout", stream)
            _Screen(argparse.Namespace(output="text", pools=["win-2022"], selector="")).draw(seen)
            stream.seek(0)
            text = re.sub("\x1b\\[[0-9;]*[mHJK]", "", stream.read())
            return text.removesuffix("\n").split("\n")

        return draw

    @pytest.mark.parametrize("height", [2, 5, 20, 400])
    @pytest.mark.parametrize("columns", [20, 80, 200])
    @pytest.mark.parametrize("word", ["x" * 900, "漢字" * 400, "e\u0301" * 900, "a b " * 300])
    def test_a_picture_takes_no_more_rows_than_there_are(
        self, drawn: Callable[..., list[str]], word: str, columns: int, height: int
    ) -> None:
        pool = a_pool(name=word[:300], issues=[an_issue("VersionSkew", word, message=word, fix=word)])
        seen = Seen(pools=(pool,), nodes={PoolView(pool).name: members(3)})
        rows = drawn(seen, columns=columns, height=height)
        assert len(rows) < height, "one row is for the cursor"
        assert all(width_of(row) <= columns for row in rows)

    def test_what_fits_is_shown_whole_and_what_does_not_is_counted(
        self, drawn: Callable[..., list[str]]
    ) -> None:
        pool = a_pool(issues=[an_issue("VersionSkew", "w1", fix="x" * 900)])
        seen = Seen(pools=(pool,), nodes={"win-2022": members(3)})
        whole = drawn(seen, columns=80, height=100)
        assert "".join(whole).count("x" * 900) == 1
        rows = drawn(seen, columns=80, height=20)
        assert rows[1:-1] == whole[1:18]
        assert rows[-1] == f"({len(whole) - 18} more lines: a taller terminal shows them)"
        assert any(row.startswith("State:") for row in rows)

    @given(st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z"))), st.integers(2, 30))
    def test_rows_have_all_of_a_line_and_each_its_own_colour(self, text: str, columns: int) -> None:
        rows = list(rows_of(f"\x1b[31m{text}\x1b[0m.", columns=columns))
        assert "".join(rows).replace("\x1b[31m", "").replace("\x1b[0m", "") == f"{text}."
        for row in rows:
            assert row.count("\x1b[31m") <= row.count("\x1b[0m") <= 1
            assert width_of(row.replace("\x1b[31m", "").replace("\x1b[0m", "")) <= columns

    def test_the_last_letter_of_a_full_row_is_not_erased(self) -> None:
        assert fills(f"\x1b[31m{'x' * 79}\x1b[0m!", columns=80)
        assert not fills(f"\x1b[31m{'x' * 78}\x1b[0m!", columns=80)
        assert fills("漢" * 40, columns=80)


class _Stream(io.TextIOWrapper):
    def __init__(self, *, encoding: str = "utf-8", terminal: bool = True) -> None:
        super().__init__(io.BytesIO(), encoding=encoding)
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


UTF8 = {"LANG": "de_DE.UTF-8", "TERM": "xterm"}


class TestTerminal:
    @pytest.mark.parametrize(
        ("environ", "terminal", "coloured"),
        [
            (UTF8, True, True),
            (UTF8, False, False),
            ({**UTF8, "NO_COLOR": "1"}, True, False),
            ({**UTF8, "NO_COLOR": ""}, True, True),
            ({**UTF8, "TERM": "dumb"}, True, False),
            ({"LANG": "C.UTF-8"}, True, False),
        ],
    )
    def test_colours_are_for_a_terminal_that_has_them_and_people_who_want_them(
        self, environ: dict[str, str], *, terminal: bool, coloured: bool
    ) -> None:
        assert look_of(_Stream(terminal=terminal), environ=environ).colour is coloured

    @pytest.mark.parametrize(
        ("environ", "encoding", "has_unicode"),
        [
            ({"LANG": "en_US.UTF-8"}, "utf-8", True),
            ({"LANG": "en_US.utf8"}, "utf-8", True),
            ({"LANG": "en_US.UTF-8", "LC_ALL": "C"}, "utf-8", False),
            ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, "utf-8", True),
            ({"LANG": "en_US.UTF-8"}, "ascii", False),
            ({"LANG": "en_US.UTF-8"}, "latin-1", False),
            ({}, "utf-8", False),
        ],
    )
    def test_letters_beyond_ascii_are_for_a_stream_and_a_locale_that_have_them(
        self, environ: dict[str, str], encoding: str, *, has_unicode: bool
    ) -> None:
        assert look_of(_Stream(encoding=encoding), environ=environ).unicode is has_unicode

    def test_the_width_is_that_of_the_terminal_within_bounds(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for columns, width in (("72", 72), ("400", 120), ("10", 40)):
            monkeypatch.setenv("COLUMNS", columns)
            assert look_of(_Stream(), environ={}).width == width


@pytest.mark.parametrize("more", [(), ("-w",), ("win-2022",), ("win-2022", "-o", "json")])
def test_without_kubectl_it_ends_with_1_and_one_sentence(plugin: Plugin, more: tuple[str, ...]) -> None:
    ended = plugin("status", *more)
    assert (ended.code, ended.out) == (1, [])
    (line,) = ended.err
    assert line.startswith("kubectl winpool status: kubectl cannot be started (No such file or directory)")


def test_ages_are_counted_from_the_moment_of_the_picture() -> None:
    later = render_pool(PoolView(a_pool()), members(40), now=NOON + timedelta(days=3), look=WIDE)
    assert "8d" in section(later, "Pool:")[0]
