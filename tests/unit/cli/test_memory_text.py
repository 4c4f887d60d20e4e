"""What ``memory`` shows of a report, on which terminal, and which nodes a name chooses."""

from __future__ import annotations

import argparse
import io
import json
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.memory import GIB
from harness.strategies import NASTY
from harness.watched_memory import AT, HEALTHY, Known, committed, healthy, unknown
from winpool.api.text import printable
from winpool.cli.console import Look, width_of
from winpool.cli.memory import (
    NO_NODES,
    Choice,
    NothingChosenError,
    _Drawing,
    choice,
    chosen,
    names_of,
    render_node,
    render_nodes,
)
from winpool.cli.parsing import EndError
from winpool.model.memory_report import (
    PROBLEM_CHARACTERS,
    CommitReport,
    MemoryReport,
    NodeReport,
    PagingReport,
    PhysicalReport,
    SeenNode,
)
from winpool.model.pressure import NO_SAMPLES, Axis, Guard, Level

ESTIMATE = replace(
    HEALTHY,
    axes={
        axis: replace(view, reading=replace(view.reading, is_estimate=axis is Axis.PHYSICAL))
        for axis, view in HEALTHY.axes.items()
        if view.reading is not None
    },
)

REPORT = Known(
    (
        SeenNode("akswin000001", "win-2022", HEALTHY),
        SeenNode("akswin000002", "win-2022", committed(Level.SOFT, left=2, seconds_left=840)),
        SeenNode("akswin000003", "win-2019", unknown(), "The kubelet refuses the token."),
        SeenNode("akswin000004", "win-2019", NO_SAMPLES, "The kubelet refuses the token."),
        SeenNode("akswin000005", "win-2019", ESTIMATE),
    )
).report()


def shown(report: MemoryReport = REPORT, *, width: int = 100) -> list[str]:
    return render_nodes(report, look=Look(width)).splitlines()


def cells(line: str) -> list[str]:
    return re.split(r" {3,}", line)


def about(name: str, report: MemoryReport = REPORT) -> dict[str, str]:
    """Return the lines about a node, by their titles."""
    (node,) = (each for each in report.nodes if each.node == name)
    text = re.sub(r"\n {2,}", " ", render_node(node, report, look=Look(100)))
    return {title: said.strip() for title, _, said in (line.partition(":") for line in text.splitlines())}


def test_a_line_for_each_node_the_worst_first() -> None:
    head, soft, lost, never, well, estimated, *_ = shown()
    assert cells(head) == [
        *("NODE", "POOL", "LEVEL", "AXIS", "COMMIT", "RAM", "TREND", "LEFT", "SOURCE", "AGE")
    ]
    assert cells(soft) == [
        *("akswin000002", "win-2022", "Soft", "Commit", "91%", "50%", "+146Mi/min", "14m", "Kubelet", "4s")
    ]
    assert cells(lost)[2:] == ["Unknown", "-", "50%", "50%", "-", "-", "Kubelet", "6m40s"]
    assert cells(never)[2:] == ["Unknown", *("-",) * 7]
    assert cells(well)[:5] == ["akswin000001", "win-2022", "Normal", "Commit", "50%"]
    assert cells(estimated)[5] == "~50%"


def test_all_columns_fit_a_hundred_and_the_important_ones_eighty() -> None:
    assert max(map(len, shown(width=100))) <= 100
    narrow = shown(width=80)
    assert max(map(len, narrow)) <= 80
    assert {"NODE", "LEVEL", "COMMIT", "RAM", "LEFT"} <= set(cells(narrow[0]))


def test_a_problem_is_said_once_with_its_nodes() -> None:
    lines = shown()
    assert lines[lines.index("Problems:") + 1 :] == [
        "  * akswin000003, akswin000004: The kubelet refuses the token."
    ]


def test_of_many_problems_the_most_frequent_are_said() -> None:
    nodes = tuple(
        SeenNode(f"w{number:02}", "a", NO_SAMPLES, f"cause {number % 7 if number < 7 else 3}")
        for number in range(12)
    )
    lines = shown(Known(nodes).report())
    problems = lines[lines.index("Problems:") + 1 :]
    assert problems[0] == "  * w03, w07, w08 and 3 more: cause 3"
    assert (len(problems), problems[-1]) == (6, "  and 2 more")


def test_nodes_beyond_the_operators_limit_are_counted() -> None:
    assert "7 more nodes" in shown(msgspec.structs.replace(REPORT, left_out=7))[6]


def test_a_wide_table_says_why_an_eviction_does_not_help_or_waits() -> None:
    view = replace(
        committed(Level.SOFT, left=2, seconds_left=840), guard=Guard.OUTSIDE_SHARE, outside_pods=9.5 * GIB
    )
    nodes = (SeenNode("w1", "win-2022", view), SeenNode("w2", "win-2022", NO_SAMPLES, "refused"))
    head, first, second, *_ = render_nodes(Known(nodes).report(), look=Look(40, wide=True)).splitlines()
    assert head.split()[-3:] == ["OUTSIDE-PODS", "GUARD", "HOLD"]
    assert {"POOL", "TREND", "LEFT", "SOURCE", "AGE"} < {*head.split()}, "however narrow the terminal"
    assert first.split()[-3:] == ["9.5Gi", "OutsideShare", "Grace"]
    assert second.split()[-3:-1] == ["-", "-"]


def test_nodes_are_named_as_by_kubectl() -> None:
    worst_first = ["node/akswin000002", "node/akswin000001"]
    assert [*names_of(chosen(REPORT, Choice("win-2022")))] == worst_first


def test_all_about_a_node_under_pressure() -> None:
    view = replace(
        committed(Level.SOFT, left=2, seconds_left=840), guard=Guard.OUTSIDE_SHARE, outside_pods=9.5 * GIB
    )
    assert about("w1", Known((SeenNode("w1", "win-2022", view),)).report()) == {
        "Node": "w1, pool win-2022",
        "Level": "! Soft on Commit for 60s",
        "Commit": "22Gi of 24Gi (91%), growing by +146Mi/min, exhausted in 14m",
        "RAM": "8.0Gi of 16Gi available (50%)",
        "Paging": "20 page reads a second, 3 pages written a second",
        "Outside": "9.5Gi committed outside pods",
        "Guard": "too much is committed outside pods: drain the node, and reboot or replace it",
        "Eviction": "waiting: the pressure has not lasted long enough, or is no longer over the line",
        "Sample": "4s old, from Kubelet",
    }


def test_of_a_healthy_node_nothing_is_said_about_evictions() -> None:
    assert set(about("akswin000005")) == {"Node", "Level", "Commit", "RAM", "Paging", "Outside", "Sample"}
    assert "by an estimate" in about("akswin000005")["RAM"]


def test_a_node_without_samples_has_its_problem() -> None:
    assert about("akswin000004") == {
        "Node": "akswin000004, pool win-2019",
        "Level": "* unknown",
        "Commit": "unknown",
        "RAM": "unknown",
        "Sample": "none yet",
        "Problem": "The kubelet refuses the token.",
    }


# Which nodes


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("win-2022", Choice("win-2022")),
        ("wnp/win-2022", Choice("win-2022", "pool")),
        ("windowsnodepools.winpool.dev/a", Choice("a", "pool")),
        ("node/w1", Choice("w1", "node")),
        ("Nodes/w1", Choice("w1", "node")),
        ("no/w1", Choice("w1", "node")),
    ],
)
def test_pools_and_nodes_are_named_as_for_kubectl(text: str, found: Choice) -> None:
    assert choice(text) == found


@pytest.mark.parametrize("text", ["", "node/", "pod/w1", "wnp/a/b", "/"])
def test_other_names_are_faults_of_the_command_line(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="write NAME, wnp/NAME or node/NAME"):
        choice(text)


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (None, [1, 2, 3, 4, 5]),
        (Choice("win-2022"), [1, 2]),
        (Choice("win-2022", "pool"), [1, 2]),
        (Choice("akswin000004"), [4]),
        (Choice("akswin000004", "node"), [4]),
    ],
)
def test_a_name_chooses_the_nodes_of_a_pool_or_a_node(wanted: Choice | None, names: list[int]) -> None:
    found = chosen(REPORT, wanted)
    assert sorted(each.node for each in found.nodes) == [f"akswin00000{number}" for number in names]


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (Choice("other"), 'no watched node or pool is named "other": list them with'),
        (Choice("akswin000001", "pool"), 'no watched pool is named "akswin000001": list them with'),
        (Choice("win-2022", "node"), 'no watched node is named "win-2022": list them with'),
    ],
)
def test_a_name_of_nothing_is_told_as_what_it_was_looked_for(wanted: Choice, said: str) -> None:
    with pytest.raises(NothingChosenError, match=said):
        chosen(REPORT, wanted)
    with pytest.raises(NothingChosenError, match=NO_NODES):
        chosen(Known(()).report(), wanted)


def test_a_name_of_both_has_to_say_of_which() -> None:
    report = Known((SeenNode("a", "b", HEALTHY), SeenNode("w", "a", HEALTHY))).report()
    with pytest.raises(EndError, match="write wnp/a or node/a"):
        chosen(report, Choice("a"))
    assert [each.node for each in chosen(report, Choice("a", "pool")).nodes] == ["w"]


# Reports of a server that is no operator

floats = st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False))
sizes = st.integers(-(2**63), 2**63 - 1)
texts = st.one_of(st.text(max_size=300), NASTY)
levels = st.sampled_from(["Normal", "Warning", "ProxyOnly", "Soft", "Hard", None])
hostile_nodes = st.builds(
    NodeReport,
    node=texts,
    pool=texts,
    level=levels,
    axis=st.sampled_from(["Commit", "Physical", None]),
    since=st.one_of(st.none(), st.datetimes(timezones=st.just(AT.tzinfo))),
    age_seconds=floats,
    source=texts,
    commit=st.one_of(
        st.none(),
        st.builds(
            CommitReport,
            level=levels,
            used=sizes,
            ceiling=sizes,
            used_percent=floats,
            trend_bytes_per_second=floats,
            seconds_left=floats,
        ),
    ),
    physical=st.one_of(
        st.none(),
        st.builds(
            PhysicalReport,
            level=levels,
            available=sizes,
            total=sizes,
            available_percent=floats,
            is_estimate=st.booleans(),
        ),
    ),
    paging=st.one_of(st.none(), st.builds(PagingReport, reads_per_second=floats, writes_per_second=floats)),
    outside_pods=st.one_of(st.none(), sizes),
    guard=st.one_of(st.none(), texts),
    hold=st.one_of(st.none(), texts),
    problem=texts,
)


@given(st.lists(hostile_nodes, max_size=3), st.integers(-(2**70), 2**70), st.booleans())
def test_no_text_of_a_server_forges_a_line_or_moves_the_cursor(
    nodes: list[NodeReport], left_out: int, unicode: bool
) -> None:
    report = MemoryReport(v=1, at=AT, nodes=tuple(nodes), left_out=left_out)
    look = Look(80, unicode=unicode)
    text = render_nodes(report, look=look)
    problems = {each.problem for each in nodes if each.problem}
    assert all(printable(line) == line for line in text.splitlines())
    if not problems:
        assert len(text.splitlines()) == (len(nodes) + 1 if nodes else 0) + (left_out > 0)
    for node in nodes:
        lines = render_node(node, report, look=look).splitlines()
        assert all(printable(line) == line for line in lines)
        assert lines[0].startswith("Node:")


# Watching


class Terminal(io.StringIO):
    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def drawn(
    monkeypatch: pytest.MonkeyPatch,
    *seen: tuple[MemoryReport, str],
    output: str = "text",
    name: Choice | None = None,
    is_terminal: bool = False,
) -> str:
    stream = Terminal(is_terminal=is_terminal)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LINES", "40")
    monkeypatch.setattr("sys.stdout", stream)
    drawing = _Drawing(argparse.Namespace(output=output, name=name))
    for each in seen:
        drawing.draw(*each)
    return stream.getvalue()


def test_on_a_terminal_trouble_is_shown_above_the_last_report(monkeypatch: pytest.MonkeyPatch) -> None:
    text = drawn(monkeypatch, (REPORT, ""), (REPORT, "the operator is gone"), is_terminal=True)
    first, second = text.split("\x1b[H")[1:]
    assert "out of date" not in first
    assert "out of date: the operator is gone" in second
    assert all("akswin000002" in each for each in (first, second))


def test_elsewhere_each_report_follows_the_one_before_and_trouble_is_said_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = (REPORT, "the operator is gone")
    text = drawn(monkeypatch, (REPORT, ""), gone, gone, (REPORT, ""))
    assert "\x1b" not in text
    assert text.count("12:00:00 UTC") == 2
    assert capsys.readouterr().err == "out of date: the operator is gone\n"


def test_with_json_each_report_is_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = drawn(
        monkeypatch, (REPORT, ""), (REPORT, "x"), (REPORT, ""), output="json", name=Choice("win-2022")
    )
    found = [json.loads(line) for line in text.splitlines()]
    assert [[node["pool"] for node in each["nodes"]] for each in found] == [["win-2022"] * 2] * 2
    assert capsys.readouterr().err == "out of date: x\n"


def test_a_node_that_is_gone_ends_no_watch_and_one_that_never_was_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted = Choice("akswin000001", "node")
    gone = Known(REPORT_WITHOUT_FIRST).report()
    assert "the operator no longer watches such a node" in drawn(
        monkeypatch, (REPORT, ""), (gone, ""), name=wanted
    )
    with pytest.raises(NothingChosenError):
        drawn(monkeypatch, (gone, ""), name=wanted)


REPORT_WITHOUT_FIRST = (SeenNode("akswin000002", "win-2022", HEALTHY),)


def test_without_a_node_that_is_watched_it_says_for_which_pools_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert NO_NODES in drawn(monkeypatch, (Known(()).report(), ""))


def test_a_watch_counts_the_nodes_by_level_above_the_lines_that_a_terminal_may_not_show(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "5 nodes: 1 Soft, 2 Unknown, 2 Normal\n" in drawn(monkeypatch, (REPORT, ""))
    one = drawn(monkeypatch, (REPORT, ""), name=Choice("akswin000002"))
    assert "nodes:" not in one


@pytest.mark.slow
def test_a_watch_of_five_thousand_nodes_fills_the_terminal_once_and_erases_nothing_before_it_draws(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = (healthy(5000).report(), "")
    text = drawn(monkeypatch, seen, seen, is_terminal=True)
    clear, first, second = text.split("\x1b[H")
    assert clear == "\x1b[2J", "later pictures are written over the one before"
    assert first == second
    rows = second.removesuffix("\x1b[J").splitlines()
    assert len(rows) == 39, "one of 40 is for the cursor"
    assert "5000 nodes: 5000 Normal" in second
    assert "more lines: a taller terminal shows them" in rows[-1]
    assert all(row.endswith("\x1b[K") for row in rows), "what was longer before is erased"


def test_a_problem_without_end_is_cut_where_an_operator_cuts_it() -> None:
    report = Known((SeenNode("a", "p", NO_SAMPLES, "short"),)).report()
    (node,) = report.nodes
    endless = msgspec.structs.replace(node, problem="x " * 1_000_000)
    report = msgspec.structs.replace(report, nodes=(endless,))
    for text in (render_nodes(report, look=Look(80)), render_node(endless, report, look=Look(80))):
        assert text.count("x") <= PROBLEM_CHARACTERS


def test_five_thousand_nodes_take_a_line_each() -> None:
    lines = shown(healthy(5000).report())
    assert len(lines) == 5001
    assert max(map(width_of, lines)) <= 100
