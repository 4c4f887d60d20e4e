"""What the bench of takeovers counts in an audit log."""

from __future__ import annotations

from datetime import timedelta

from bench.takeover import SCENES, Taken, count_takeover, takeover_figures, takeover_targets
from bench.targets import missed
from harness.builders import NOON
from testbed.audit import AuditRecord

FIRST, SECOND = "host_11111111", "host_22222222"


def a_request(seconds: float, who: str, *, resource: str = "nodes", verb: str = "patch") -> AuditRecord:
    return AuditRecord(
        audit_id=str(seconds),
        user="winpool",
        authenticated_user="winpool",
        verb=verb,
        resource=resource,
        api_group="",
        subresource="",
        name="w1",
        namespace="",
        code=200,
        user_agent=f"winpool/0.1.0 ({who})",
        received=NOON + timedelta(seconds=seconds),
        completed=None,
        stage="ResponseComplete",
        uri="/api/v1/nodes/w1",
    )


def test_times_count_from_the_fault_and_writes_of_the_first_after_the_second_are_late() -> None:
    records = [
        a_request(-1, FIRST),
        a_request(0.5, FIRST),
        a_request(1, SECOND, verb="watch"),
        a_request(15, SECOND, resource="leases"),
        a_request(16, SECOND),
        a_request(17, FIRST, resource="leases"),
        a_request(18, FIRST),
        a_request(19, SECOND),
    ]
    taken = count_takeover(records, fault="killed", at=NOON, first=FIRST, second=SECOND)
    assert taken == Taken("killed", lease_seconds=15, write_seconds=16, late_writes=1)


def test_without_a_write_of_the_second_there_is_no_takeover() -> None:
    records = [a_request(1, FIRST), a_request(15, SECOND, resource="leases")]
    assert count_takeover(records, fault="killed", at=NOON, first=FIRST, second=SECOND) is None


def test_one_late_write_fails_the_bench_and_a_slow_machine_does_not() -> None:
    slow = [Taken(fault, 50, 60, 0) for fault in SCENES]
    counts = [each for each in takeover_targets(takeover_figures(slow, runs=1)) if not each.of_the_machine]
    assert missed(counts) == []
    late = [*slow, Taken("killed", 15, 16, 1)]
    assert "late_writes" in missed(takeover_targets(takeover_figures(late, runs=2)))
