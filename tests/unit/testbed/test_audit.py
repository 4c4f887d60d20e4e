"""What the audit reader makes of the lines of an audit log."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed import audit
from testbed.audit import AuditLog, AuditRecord

T0 = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)


def event(
    audit_id: str,
    *,
    verb: str = "patch",
    user: str = "alice",
    stage: str = "ResponseComplete",
    seconds: float = 0,
    **more: Any,
) -> dict[str, Any]:
    at = (T0 + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": audit_id,
        "stage": stage,
        "requestURI": "/api/v1/nodes/w1",
        "verb": verb,
        "user": {"username": user},
        "userAgent": "winpool/0.1",
        "objectRef": {"resource": "nodes", "name": "w1", "apiVersion": "v1"},
        "responseStatus": {"code": 200},
        "requestReceivedTimestamp": at,
        "stageTimestamp": at,
    } | more


def line(*arguments: Any, **more: Any) -> bytes:
    return json.dumps(event(*arguments, **more), separators=(",", ":")).encode() + b"\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "audit.log"
    file.touch()
    return file


def append(path: Path, *chunks: bytes) -> None:
    with path.open("ab") as file:
        file.writelines(chunks)


def ids(log: AuditLog) -> list[str]:
    return [record.audit_id for record in log.requests()]


def test_a_record_has_what_the_event_says(path: Path) -> None:
    target = {"resource": "nodes", "subresource": "status", "name": "w1", "apiGroup": "", "namespace": ""}
    append(
        path, line("1", objectRef=target, responseStatus={"code": 409}, stageTimestamp="2026-05-01T12:00:02Z")
    )
    (record,) = AuditLog(path).requests()
    assert (record.user, record.verb, record.resource, record.subresource, record.name) == (
        "alice",
        "patch",
        "nodes",
        "status",
        "w1",
    )
    assert (record.code, record.user_agent, record.uri) == (409, "winpool/0.1", "/api/v1/nodes/w1")
    assert (record.received, record.completed) == (T0, T0 + timedelta(seconds=2))
    assert record.writes


def test_a_request_that_is_no_resource_has_no_target(path: Path) -> None:
    bare = {key: value for key, value in event("1", verb="get").items() if key != "objectRef"}
    append(path, json.dumps(bare).encode() + b"\n")
    (record,) = AuditLog(path).requests()
    assert (record.resource, record.name, record.writes) == ("", "", False)


def test_a_watch_is_one_request_before_and_after_its_end(path: Path) -> None:
    append(path, line("w", verb="watch", stage="ResponseStarted"))
    log = AuditLog(path)
    (running,) = log.requests()
    assert (running.stage, running.completed) == ("ResponseStarted", None)
    append(path, line("w", verb="watch", seconds=9))
    (ended,) = log.requests()
    assert (ended.stage, ended.completed) == ("ResponseComplete", T0 + timedelta(seconds=9))


def test_an_impersonated_user_is_the_one_who_acted(path: Path) -> None:
    append(path, line("1", user="admin", impersonatedUser={"username": "bob"}))
    log = AuditLog(path)
    (record,) = log.writes(user="bob")
    assert (record.user, record.authenticated_user) == ("bob", "admin")
    assert log.writes(user="admin") == []


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, ["1", "2", "3", "4"]),
        ({"user": "alice"}, ["1", "2", "3"]),
        ({"since": T0 + timedelta(seconds=2)}, ["2", "3", "4"]),
        ({"until": T0 + timedelta(seconds=2)}, ["1"]),
        ({"since": T0 + timedelta(seconds=2), "until": T0 + timedelta(seconds=3)}, ["2"]),
        ({"verbs": {"get", "watch"}}, ["2"]),
        ({"resource": "pods"}, ["3"]),
        ({"resource": "pods/eviction"}, ["3"]),
        ({"resource": "pods/status"}, []),
        ({"resource": "pod"}, []),
        ({"user": "alice", "verbs": {"patch"}, "resource": "nodes"}, ["1"]),
    ],
)
def test_filters_are_all_of_them_at_once(path: Path, filters: dict[str, Any], expected: list[str]) -> None:
    eviction = {"resource": "pods", "subresource": "eviction", "name": "p", "namespace": "web"}
    append(
        path,
        line("1", seconds=1),
        line("2", seconds=2, verb="get"),
        line("3", seconds=3, verb="create", objectRef=eviction),
        line("4", seconds=4, user="bob"),
    )
    assert [record.audit_id for record in AuditLog(path).requests(**filters)] == expected


def test_writes_and_reads_share_out_the_verbs(path: Path) -> None:
    verbs = ["create", "update", "patch", "delete", "deletecollection", "get", "list", "watch"]
    append(path, *(line(verb, verb=verb) for verb in verbs))
    log = AuditLog(path)
    written = {record.verb for record in log.writes(user="alice")}
    read = {record.verb for record in log.reads(user="alice")}
    assert written == {"create", "update", "patch", "delete", "deletecollection"}
    assert read == {"get", "list", "watch"}


@given(cuts=st.lists(st.integers(min_value=0, max_value=2000), max_size=6))
def test_a_file_read_while_it_grows_gives_each_request_once(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int]
) -> None:
    content = b"".join(line(str(number), seconds=number, user="Jörg") for number in range(4))
    path = tmp_path_factory.mktemp("audit") / "audit.log"
    path.touch()
    log = AuditLog(path)
    written = 0
    for cut in sorted({min(cut, len(content)) for cut in cuts} | {len(content)}):
        append(path, content[written:cut])
        written = cut
        assert len(ids(log)) == content[:cut].count(b"\n")
    assert ids(log) == ["0", "1", "2", "3"]


def test_a_line_cut_by_a_kill_costs_only_itself(path: Path) -> None:
    append(path, line("1"), line("cut")[:90], line("2", seconds=1), line("3", seconds=2))
    assert ids(AuditLog(path)) == ["1", "2", "3"]


def test_two_readers_do_not_share_what_they_have_read(path: Path) -> None:
    append(path, line("1"))
    assert ids(AuditLog(path)) == ids(AuditLog(path)) == ["1"]


def test_requests_come_in_the_order_in_which_they_were_received(path: Path) -> None:
    append(
        path,
        line("watch", seconds=1, verb="watch", stage="ResponseStarted"),
        line("quick", seconds=3),
        line("slow", seconds=2),
        line("bobs", seconds=2, user="bob"),
    )
    log = AuditLog(path)
    assert ids(log) == ["watch", "slow", "bobs", "quick"]
    append(path, line("watch", seconds=1, verb="watch"), line("slowest", seconds=0))
    assert ids(log) == ["slowest", "watch", "slow", "bobs", "quick"]
    assert [each.audit_id for each in log.requests(user="alice")] == ["slowest", "watch", "slow", "quick"]


def test_a_question_looks_only_at_the_user_and_the_time_that_it_names(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(path, *(line(str(number), seconds=number, user=f"user-{number % 10}") for number in range(2000)))
    log = AuditLog(path)
    assert len(ids(log)) == 2000
    looked_at = 0
    between, received = audit._Row.between, audit._received

    def counted_row(row: audit._Row, since: datetime | None, until: datetime | None) -> list[AuditRecord]:
        nonlocal looked_at
        found = between(row, since, until)
        looked_at += len(found)
        return found

    def counted_time(record: AuditRecord) -> datetime:
        nonlocal looked_at
        looked_at += 1
        return received(record)

    monkeypatch.setattr(audit._Row, "between", counted_row)
    monkeypatch.setattr(audit, "_received", counted_time)
    late = T0 + timedelta(seconds=1990)
    assert [each.audit_id for each in log.requests(user="user-3", since=late)] == ["1993"]
    assert looked_at <= 1 + 8  # the one, and a search among 200
    looked_at = 0
    assert len(log.writes(since=late, until=late + timedelta(seconds=5))) == 5
    assert looked_at <= 5 + 2 * 11  # the five, and two searches among 2000
