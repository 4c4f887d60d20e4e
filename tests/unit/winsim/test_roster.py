"""The list of machines, and the count of their nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.errors import TestbedError
from testbed.winsim.census import Census
from testbed.winsim.entries import Family, Trouble
from testbed.winsim.lives import health, machine
from testbed.winsim.machines import node_names
from testbed.winsim.objects import Condition, Metadata, Node, NodeStatus, Taint
from testbed.winsim.roster import Roster


def filled(path: Path | None = None, *, windows: int = 3) -> Roster:
    roster = Roster("win", path=path)
    add(roster, roster.new_names("windows", windows))
    return roster


def add(roster: Roster, names: tuple[str, ...], *, os: Family = "windows") -> None:
    addresses = {name: f"127.1.0.{len(roster) + number}" for number, name in enumerate(names)}
    roster.add(names, os=os, addresses=addresses, labels={"a": "b"}, taints=(Taint("k", "NoSchedule"),))


def test_a_fleet_is_named_as_its_plan_says() -> None:
    roster = Roster("win")
    names = (*roster.new_names("windows", 120), *roster.new_names("linux", 2))
    assert names == node_names("win", windows=120, linux=2)


def test_names_go_on_and_are_not_given_out_twice() -> None:
    roster = filled()
    roster.remove(["win-w03"])
    assert roster.new_names("windows", 2) == ("win-w04", "win-w05")
    add(roster, ("win-w05",))
    assert roster.new_names("windows", 2) == ("win-w06", "win-w07")
    assert roster.new_names("linux", 1) == ("win-l01",)


def test_a_name_given_by_hand_is_passed_over() -> None:
    roster = filled()
    add(roster, ("win-w05",))
    roster.remove(["win-w01"])
    add(roster, ("win-w06",))
    assert set(roster.new_names("windows", 3)).isdisjoint(roster.entries)


def test_the_next_process_reads_what_the_last_one_wrote(tmp_path: Path) -> None:
    path = tmp_path / "roster.json"
    roster = filled(path, windows=5)
    roster.remove(["win-w01"])
    roster.set_running(["win-w02"], running=False)
    roster.set_trouble(["win-w03"], Trouble("Flu", "coughs"))
    roster.renew(["win-w04"])
    later = Roster("win", path=path)
    later.load()
    assert later.loaded
    assert later.entries == roster.entries
    assert [entry.healthy for entry in later.entries.values()] == [False, False, True, True]
    assert later.new_names("windows", 1) == roster.new_names("windows", 1)


def test_a_list_that_has_become_empty_is_a_list(tmp_path: Path) -> None:
    roster = filled(tmp_path / "roster.json")
    roster.remove(list(roster.entries))
    later = Roster("win", path=tmp_path / "roster.json")
    later.load()
    assert (later.loaded, len(later)) == (True, 0)


def test_a_strange_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "roster.json"
    filled(path)
    with pytest.raises(TestbedError, match=r"lists machines called win-…, not other-…"):
        Roster("other", path=path).load()
    path.write_text("{}")
    with pytest.raises(TestbedError, match="is not a list of simulated machines"):
        Roster("win", path=path).load()


def test_a_replaced_machine_is_another_machine() -> None:
    roster = filled()
    before = machine(roster.entries["win-w02"])
    roster.set_trouble(["win-w02"], Trouble("Flu", "coughs"))
    roster.set_running(["win-w02"], running=False)
    roster.renew(["win-w02"])
    entry = roster.entries["win-w02"]
    after = machine(entry)
    assert entry.healthy
    assert after.system_uuid != before.system_uuid
    assert (after.name, after.address, after.os) == (before.name, before.address, before.os)


def test_trouble_is_what_the_kubelet_reports() -> None:
    roster = filled()
    roster.set_trouble(["win-w01"], Trouble("Flu", "coughs"))
    sick, well = health(roster.entries["win-w01"]), health(roster.entries["win-w02"])
    assert (sick.not_ready, sick.reason) == ("coughs", "Flu")
    assert well.not_ready == ""


def node(name: str, *, ready: str = "True") -> Node:
    return Node(metadata=Metadata(name=name), status=NodeStatus(conditions=(Condition("Ready", ready),)))


def test_a_node_counts_as_ready_once_its_kubelet_has_reported_in_this_life() -> None:
    census = Census()
    census.expect(["a"])
    census.saw("a", node("a"))
    assert (census.registered, census.ready, census.complete.is_set()) == ({"a"}, set(), False)
    census.reported("a", node("a"))
    assert (census.ready, census.complete.is_set()) == ({"a"}, True)
    census.began("a")
    assert census.ready == set()


def test_a_node_that_is_gone_or_unknown_is_not_ready() -> None:
    census = Census()
    census.reported("a", node("a"))
    census.saw("a", node("a", ready="Unknown"))
    assert (census.registered, census.ready) == ({"a"}, set())
    census.saw("a", node("a"))
    census.saw("a", None)
    assert (census.registered, census.ready) == (set(), set())


def test_who_was_taken_away_is_not_waited_for() -> None:
    census = Census()
    census.expect(["a", "b"])
    census.reported("a", node("a"))
    assert not census.complete.is_set()
    census.forget(["b"])
    assert census.complete.is_set()
