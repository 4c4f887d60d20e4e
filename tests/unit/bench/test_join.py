"""How long nodes that join stand open, as counted from the audit log."""

from __future__ import annotations

from datetime import timedelta

from bench.join import JOINING, Joined, count_joined, join_figures, join_targets
from bench.operator_process import USER
from bench.targets import missed
from harness.builders import NOON
from testbed.audit import AuditRecord


def a_record(verb: str, name: str, *, user: str, after: float, code: int = 200) -> AuditRecord:
    moment = NOON + timedelta(seconds=after)
    return AuditRecord(
        audit_id="",
        user=user,
        authenticated_user=user,
        verb=verb,
        resource="nodes",
        api_group="",
        subresource="",
        name=name,
        namespace="",
        code=code,
        user_agent="",
        received=moment,
        completed=moment,
        stage="ResponseComplete",
        uri="",
    )


def test_a_node_is_open_from_its_creation_to_the_first_write_that_was_taken() -> None:
    records = [
        a_record("create", "", user="system:node:w1", after=0, code=201),
        a_record("patch", "w1", user="system:node:w1", after=0.1),
        a_record("patch", "w1", user=USER, after=0.2, code=409),
        a_record("patch", "w1", user=USER, after=0.5),
        a_record("patch", "w1", user=USER, after=3.0),
        a_record("patch", "w9", user=USER, after=0.1),
    ]
    assert count_joined(records, ["w1", "w2"]) == Joined([0.5], [3.0])


def test_what_is_missed_is_a_node_that_was_open_for_long_or_never_written() -> None:
    def verdicts(first: list[float]) -> list[str]:
        return missed(join_targets(join_figures(Joined(first, first), nodes=100, pods=0)))

    assert verdicts([0.5] * JOINING) == []
    assert verdicts([0.5] * (JOINING - 1) + [2.5]) == ["open_longest_seconds"]
    assert verdicts([]) == ["joined"]
