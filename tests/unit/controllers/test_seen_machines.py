"""What a process remembers of machines: surprises for an hour, changes of labels, and nothing of the rest."""

from __future__ import annotations

import tracemalloc
from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from harness.builders import NOON, a_node
from winpool.api.keys import APPLIED_ANNOTATION, UPGRADE_REQUESTED_ANNOTATION, UPGRADE_STATE_LABEL
from winpool.controllers import machines
from winpool.controllers.machines import GONE_KEPT, GONE_SECONDS, SeenMachines
from winpool.loops import Clock
from winpool.model.node import Node
from winpool.model.pool import SURPRISE_SECONDS, Surprise, SurpriseKind


class Stage:
    """Machines that were seen, at times that a test sets; and what the rule was asked."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.asked: list[tuple[Node, Node]] = []
        self.machines = SeenMachines(Clock(now=self.now, monotonic=lambda: self.seconds))

    def now(self) -> datetime:
        return NOON + timedelta(seconds=self.seconds)

    def kinds(self) -> list[tuple[str, str]]:
        return [(each.kind.value, each.node) for each in self.machines.surprises()]


@pytest.fixture
def stage() -> Stage:
    return Stage()


def booted(name: str = "w1", boot_id: str = "7", **changes: object) -> Node:
    return replace(a_node(name), boot_id=boot_id, **changes)


def labelled(node: Node, state: str | None) -> Node:
    labels = {key: value for key, value in node.labels.items() if key != UPGRADE_STATE_LABEL}
    return replace(node, labels=labels if state is None else {**labels, UPGRADE_STATE_LABEL: state})


def test_a_reboot_that_no_one_announced_is_known_for_an_hour(stage: Stage) -> None:
    stage.machines.note(None, booted())
    assert stage.kinds() == []
    stage.machines.note(booted(), booted(boot_id="6"))
    assert stage.kinds() == [("SurpriseReboot", "w1")]
    stage.seconds = SURPRISE_SECONDS - 1
    assert stage.kinds() == [("SurpriseReboot", "w1")]
    stage.seconds = SURPRISE_SECONDS
    assert stage.kinds() == []
    assert not stage.machines._surprises


def test_one_that_was_announced_is_none(stage: Stage) -> None:
    stage.machines.note(booted(unschedulable=True), booted(boot_id="8"))
    stage.machines.note(labelled(booted(), "Required"), booted(boot_id="8"))
    assert stage.kinds() == []


def test_another_machine_under_the_name_is_compared_with_the_one_that_is_gone(stage: Stage) -> None:
    old, new = booted(), booted(uid="another")
    stage.machines.note(None, old)
    stage.machines.note(old, None)
    stage.seconds = GONE_SECONDS
    stage.machines.note(None, new)
    assert stage.kinds() == [("SurpriseOSChange", "w1")]
    [surprise] = stage.machines.surprises()
    assert surprise.node_uid == "another"


def test_what_was_announced_before_the_node_went_counts(stage: Stage) -> None:
    old = booted(annotations={UPGRADE_REQUESTED_ANNOTATION: "please"})
    stage.machines.note(old, None)
    stage.machines.note(None, booted(uid="another"))
    assert stage.kinds() == []


def test_after_an_hour_the_name_may_be_that_of_any_machine(stage: Stage) -> None:
    stage.machines.note(booted(), None)
    stage.seconds = GONE_SECONDS + 1
    stage.machines.note(None, booted(uid="another"))
    assert stage.kinds() == []


def test_a_machine_that_is_seen_for_the_first_time_is_compared_with_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[Node, Node]] = []

    def rule(before: Node, after: Node, *, now: datetime) -> Surprise | None:
        asked.append((before, after))
        return None

    monkeypatch.setattr(machines, "surprise_of", rule)
    seen = SeenMachines(Clock(now=lambda: NOON, monotonic=lambda: 0.0))
    node = booted()
    seen.note(None, node)
    [(before, after)] = asked
    assert before is after is node


def test_surprises_are_in_order_the_newest_first(stage: Stage) -> None:
    for seconds, name in ((5, "w2"), (0, "w3"), (5, "w1")):
        stage.seconds = seconds
        stage.machines.note(booted(name), booted(name, boot_id="8"))
    stage.seconds = 9
    assert [name for _, name in stage.kinds()] == ["w1", "w2", "w3"]


def test_a_machine_that_restarts_again_and_again_is_one_surprise(stage: Stage) -> None:
    for number in range(1000):
        stage.seconds = number
        stage.machines.note(booted(boot_id=str(number)), booted(boot_id=str(number + 1)))
    [surprise] = stage.machines.surprises()
    assert surprise.at == NOON + timedelta(seconds=999)


def test_a_machine_that_restarts_again_and_again_is_one_line_of_the_log(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    for boot in range(1000):
        stage.machines.note(booted(boot_id=str(boot)), booted(boot_id=str(boot + 1)))
    assert len(caplog.records) == 1


def test_of_a_node_that_is_gone_nothing_is_kept_but_its_last_state(stage: Stage) -> None:
    node = labelled(booted(boot_id="8"), "Gated")
    stage.machines.note(booted(), node)
    assert stage.kinds()
    stage.machines.note(node, None)
    assert stage.kinds() == []


@pytest.mark.slow
def test_nodes_that_are_gone_are_remembered_in_bounds(stage: Stage) -> None:
    """Each had annotations as long as a node may have, which are not compared."""
    text = "x" * 16_000
    tracemalloc.start()
    try:
        for number in range(3 * GONE_KEPT):
            annotations = {APPLIED_ANNOTATION: text + str(number)}
            stage.machines.note(booted(f"w{number}", annotations=annotations), None)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(stage.machines._gone) == GONE_KEPT
    assert kept < GONE_KEPT * 4096
    stage.seconds = GONE_SECONDS + 1
    stage.machines.note(booted("last"), None)
    assert list(stage.machines._gone) == ["last"]


def test_a_bug_in_the_rule_ends_no_watch_and_is_one_line(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(before: Node, after: Node, *, now: datetime) -> Surprise | None:
        raise OverflowError("date value out of range")

    monkeypatch.setattr(machines, "surprise_of", broken)
    seen = SeenMachines(Clock(now=lambda: NOON, monotonic=lambda: 0.0))
    for _ in range(3):
        seen.note(booted(), booted(boot_id="8"))
    told = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert len(told) == 1
    assert "OverflowError: date value out of range" in told[0]
    assert SurpriseKind.REBOOT not in told[0]
