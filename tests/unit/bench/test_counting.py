"""What is counted in a piece of a real audit log: a cold start, one conflict in it, and two drifts."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from bench import api, counting
from bench.trail import AuditTrail, read
from testbed.audit import AuditRecord
from testbed.tokens import subject

SAMPLE = Path(__file__).with_name("audit-sample.jsonl")
OPERATOR = subject()
DRIFT_BEGINS = datetime(2026, 11, 21, 11, 28, tzinfo=UTC)


@pytest.fixture
def records() -> list[AuditRecord]:
    return list(read(SAMPLE, start=0, end=SAMPLE.stat().st_size))


@pytest.fixture
def cold(records: list[AuditRecord]) -> list[AuditRecord]:
    return [each for each in records if each.received < DRIFT_BEGINS]


def test_leases_and_the_ends_of_watches_are_left_out(records: list[AuditRecord]) -> None:
    assert len(SAMPLE.read_text().splitlines()) - len(records) == 2
    assert not [each for each in records if each.resource == "leases"]
    assert [each.stage for each in records if each.verb == "watch"] == ["ResponseStarted"]


def test_a_burst_is_the_window_of_one_user(cold: list[AuditRecord]) -> None:
    counted = counting.burst(cold, user=OPERATOR)
    assert (counted.node_patches, counted.node_conflicts, counted.node_failures) == (4, 1, 0)
    # From the first received (24.839945) to the last answered (25.648).
    assert counted.seconds == pytest.approx(0.808055)
    assert counted.nodes_per_second == pytest.approx(4 / 0.808055)
    assert counted.busy_seconds == pytest.approx(0.18286)
    assert counted.in_flight == pytest.approx(0.18286 / 0.808055)


def test_other_writes_of_the_operator_are_all_but_node_patches(cold: list[AuditRecord]) -> None:
    """The finalizer, the status, an event; its reads are none, and those of the bench are not its own."""
    counted = counting.burst(cold, user=OPERATOR)
    assert (counted.other_writes, counted.node_gets) == (3, 0)


def test_writes_by_others_are_those_to_nodes_and_their_status(cold: list[AuditRecord]) -> None:
    """The controller manager's annotation and one heartbeat."""
    assert counting.burst(cold, user=OPERATOR).foreign_writes == 2


def test_nothing_makes_an_empty_burst() -> None:
    counted = counting.burst([], user=OPERATOR)
    assert (counted.node_patches, counted.seconds, counted.nodes_per_second, counted.in_flight) == (
        0,
        0,
        0,
        0,
    )


def test_requests_are_told_by_verb_and_resource(cold: list[AuditRecord]) -> None:
    assert counting.requests(cold, user=OPERATOR) == {
        "create events": 1,
        "get /apis": 1,
        "list nodes": 1,
        "patch nodes": 5,
        "patch windowsnodepools": 1,
        "patch windowsnodepools/status": 1,
        "watch nodes": 1,
    }
    assert counting.verbs(cold, user=OPERATOR) == {"write": 8, "get": 1, "list": 1, "watch": 1}


def test_a_drift_lasts_from_its_answer_to_the_answer_of_the_repair(records: list[AuditRecord]) -> None:
    assert counting.repair_seconds(records, drifter=api.USER, user=OPERATOR) == pytest.approx(
        [0.067374, 0.051873]
    )


def test_a_drift_without_a_repair_is_left_out(records: list[AuditRecord]) -> None:
    assert len(counting.repair_seconds(records[:-1], drifter=api.USER, user=OPERATOR)) == 1


def test_a_heartbeat_does_not_disturb_the_rest(cold: list[AuditRecord]) -> None:
    disturbed = counting.last_disturbance(cold)
    assert disturbed is not None
    assert disturbed.isoformat() == "2026-11-21T11:26:25.648000+00:00"
    assert counting.last_disturbance([each for each in cold if counting.is_heartbeat(each)]) is None


def test_a_status_by_somebody_else_is_no_heartbeat(cold: list[AuditRecord]) -> None:
    (heartbeat,) = [each for each in cold if counting.is_heartbeat(each)]
    assert heartbeat.user == f"system:node:{heartbeat.name}"
    assert not [each for each in cold if counting.is_heartbeat(each) and each.user == OPERATOR]


def test_a_slice_has_the_lines_that_lie_wholly_in_it(tmp_path: Path) -> None:
    lines = SAMPLE.read_bytes().splitlines(keepends=True)
    start, end = len(lines[0]), sum(map(len, lines[:4]))
    assert [each.resource for each in read(SAMPLE, start=start, end=end)] == ["nodes", "nodes", ""]
    assert len(list(read(SAMPLE, start=start, end=end - 1))) == 2


def test_a_mark_is_behind_the_line_of_its_own_request(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    first, second = SAMPLE.read_bytes().splitlines(keepends=True)[3:5]
    log.write_bytes(first)

    def ask(path: str) -> None:
        with log.open("ab") as file:
            file.write(first.replace(b"/apis", path.encode()) + second)

    trail = AuditTrail(log, ask=ask)
    begin = trail.mark()
    assert log.read_bytes()[begin:] == second
    end = trail.mark()
    assert [each.verb for each in trail.between(begin, end)] == ["create", "get"]
