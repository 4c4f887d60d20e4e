"""How much memory machines have and hold back, from what is asked for to the node that reports it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from testbed.options import Options
from testbed.winsim.conditions import HEALTHY
from testbed.winsim.entries import Family
from testbed.winsim.lives import machine
from testbed.winsim.machines import WINDOWS_HARDWARE
from testbed.winsim.memory import USUAL_MEMORY, Memory, parse_memory, parse_size
from testbed.winsim.nodestatus import initial_node
from testbed.winsim.objects import Node
from testbed.winsim.options import parse_options
from testbed.winsim.roster import Roster
from testbed.winsim.verbs import VERBS

NOW = datetime(2026, 11, 21, 8, 0, tzinfo=UTC)


def filled(*memory: Memory, count: int = 1, os: Family = "windows", path: Path | None = None) -> Roster:
    roster = Roster("win", path=path)
    names = roster.new_names(os, count)
    addresses = {name: f"127.1.0.{number}" for number, name in enumerate(names)}
    roster.add(names, os=os, addresses=addresses, labels={}, taints=(), memory=memory)
    return roster


def node(roster: Roster, name: str) -> Node:
    return initial_node(machine(roster.entries[name]), health=HEALTHY, now=NOW)


def kibibytes(quantity: str) -> int:
    return parse_size(quantity) if quantity != "0" else 0


def held_back(of: Node) -> int:
    return kibibytes(of.status.capacity["memory"]) - kibibytes(of.status.allocatable["memory"])


def test_nothing_asked_for_is_what_there_always_was() -> None:
    found = node(filled(), "win-w01").status
    assert found.capacity["memory"] == "16776756Ki"
    assert held_back(node(filled(), "win-w01")) == (2048 + 500) * 1024
    assert USUAL_MEMORY.of(WINDOWS_HARDWARE) is WINDOWS_HARDWARE


@given(size=st.integers(1, (1 << 30) - 1), data=st.data())
def test_what_is_held_back_is_exactly_what_was_asked_for(size: int, data: st.DataObject) -> None:
    reserved = data.draw(st.integers(0, size))
    found = node(filled(Memory(size_ki=size, reserved_ki=reserved)), "win-w01")
    assert kibibytes(found.status.capacity["memory"]) == size
    assert held_back(found) == reserved


def test_of_more_than_there_is_nothing_is_left() -> None:
    found = node(filled(parse_memory("4Gi/6Gi")), "win-w01").status
    assert (found.capacity["memory"], found.allocatable["memory"]) == ("4Gi", "0")


def test_machines_take_their_sizes_in_turn() -> None:
    roster = filled(parse_memory("16Gi/2548Mi"), parse_memory("32Gi"), count=3)
    sizes = [node(roster, name).status.capacity["memory"] for name in roster.entries]
    assert sizes == ["16Gi", "32Gi", "16Gi"]
    assert held_back(node(roster, "win-w02")) == 2548 * 1024


def test_a_kubelet_may_hold_back_another_part_and_a_new_machine_may_have_another_size(
    tmp_path: Path,
) -> None:
    roster = filled(parse_memory("32Gi/4Gi"), path=tmp_path / "roster.json")
    roster.set_memory(["win-w01"], parse_memory("/1Gi"))
    assert held_back(node(roster, "win-w01")) == 1024**2
    roster.set_memory(["win-w01"], parse_memory("64Gi"))
    roster.renew(["win-w01"])
    later = Roster("win", path=tmp_path / "roster.json")
    later.load()
    found = node(later, "win-w01")
    assert (found.status.capacity["memory"], held_back(found)) == ("64Gi", 1024**2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("16Gi", Memory(size_ki=16 * 1024**2)),
        ("16Gi/2548Mi", Memory(size_ki=16 * 1024**2, reserved_ki=2548 * 1024)),
        ("/1Ki", Memory(reserved_ki=1)),
    ],
)
def test_a_size_and_what_is_held_back_are_one_text(text: str, expected: Memory) -> None:
    assert parse_memory(text) == expected
    assert Options(windows_memory=(text,)).windows_memory == (text,)


@pytest.mark.parametrize("text", ["", "/", "16", "16GB", "-1Gi", "1.5Gi", "16Gi/", "16Gi/x", "1e3Ki"])
def test_what_is_no_size_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(ValueError, match="a whole number with Ki, Mi or Gi"):
        parse_memory(text)
    with pytest.raises(ValidationError, match="a whole number with Ki, Mi or Gi"):
        Options(windows_memory=(text,))


def test_the_command_line_takes_sizes_in_turn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "f").touch()
    files = [text for name in ("ca", "cert", "key") for text in (f"--{name}", str(tmp_path / "f"))]
    options = ["--server", "https://127.0.0.1:6443", *files, "--windows-memory"]
    assert parse_options([*options, "32Gi/4Gi"]).plan.memory == (parse_memory("32Gi/4Gi"),)
    with pytest.raises(SystemExit):
        parse_options([*options, "32GB"])
    assert "'32GB' is not a size of memory: a whole number with Ki, Mi or Gi" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("verb", "given"),
    [
        ("join", {"count": 1, "memory": "32GB"}),
        ("join", {"count": 1, "unready_pods": ["csi-proxy"]}),
        ("join", {"count": 1, "ready_after": "soon"}),
        ("replace", {"nodes": 1, "reserved_memory": 4}),
        ("restart", {"nodes": 1, "memory": "4Gi"}),
        ("set_pods_ready", {"nodes": 1, "ready": False}),
        ("set_pods_ready", {"nodes": 1, "ready": False, "pods": []}),
        ("set_pods_ready", {"nodes": 1, "ready": False, "pods": ["kube-system/"]}),
    ],
)
def test_what_a_verb_does_not_take_is_refused(verb: str, given: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        VERBS[verb].model_validate(given)


def test_verbs_take_sizes_as_people_write_them() -> None:
    given = {"nodes": "all", "memory": "32Gi", "reserved_memory": None, "ready_after": "30s"}
    verb = VERBS["replace"].model_validate(given)
    assert verb.model_dump(exclude={"nodes"}) == {
        "os": None,
        "seed": 0,
        "memory": 32 * 1024**2,
        "reserved_memory": None,
        "ready_after": 30.0,
    }


def test_which_pods_are_unready_is_kept_and_taken_back_by_name(tmp_path: Path) -> None:
    roster = filled(path=tmp_path / "roster.json")
    roster.set_unready_pods(["win-w01"], ["a/b", "a/c"], ready=False)
    roster.set_unready_pods(["win-w01"], ["a/b"], ready=True)
    later = Roster("win", path=tmp_path / "roster.json")
    later.load()
    assert later.entries["win-w01"].unready_pods == {"a/c"}
