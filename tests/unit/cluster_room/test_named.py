"""Reading one object by its name: what the API server says of it, and what says nothing."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from winpool.kube.errors import Gone, StreamGarbled
from winpool.kube.lists import Target, decode_list, decode_named_event

TARGET = Target(
    group="admissionregistration.k8s.io",
    version="v1",
    resource="validatingadmissionpolicies",
    kind="ValidatingAdmissionPolicy",
    name="winpool-guard",
)


def an_object(name: str = TARGET.name, **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": "u", "generation": 3, "resourceVersion": "7", **metadata},
        "spec": {"a": [1, {}]},
    }


def a_list(*items: Any, **more: Any) -> bytes:
    whole = {"kind": f"{TARGET.kind}List", "metadata": {"resourceVersion": "9"}, "items": list(items), **more}
    return json.dumps({key: value for key, value in whole.items() if value is not ...}).encode()


def a_line(kind: str, found: Any) -> bytes:
    return json.dumps({"type": kind, "object": found}).encode()


def test_requests_name_the_object_in_the_one_field_that_rbac_looks_at() -> None:
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies?fieldSelector=metadata.name%3D"
    assert TARGET.list_request().path == f"{path}winpool-guard"
    assert TARGET.watch_request(position="9", seconds=0.5).path == (
        f"{path}winpool-guard&watch=1&allowWatchBookmarks=true&resourceVersion=9&timeoutSeconds=1"
    )


def test_a_list_has_the_object() -> None:
    listed = decode_list(a_list(an_object()), target=TARGET)
    assert listed.resource_version == "9"
    assert listed.found is not None
    assert (listed.found.uid, listed.found.generation) == ("u", 3)
    assert listed.found.spec == {"a": [1, {}]}


@pytest.mark.parametrize("items", [[], None, [an_object("another")]], ids=["empty", "null", "another"])
def test_or_it_has_not(items: list[Any] | None) -> None:
    assert decode_list(a_list(items=items), target=TARGET).found is None


def test_it_changed_when_anybody_last_wrote_any_of_it() -> None:
    times = ["2026-11-01T12:30:00Z", None, "half past", "2026-11-01T13:00:00"]
    metadata: dict[str, Any] = {
        "creationTimestamp": "2026-11-01T12:00:00Z",
        "managedFields": [{"time": moment} for moment in times],
    }
    found = decode_list(a_list(an_object(**metadata)), target=TARGET).found
    assert found is not None
    assert found.changed == datetime(2026, 11, 1, 12, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        a_list(kind="PodList"),
        a_list(metadata={}),
        a_list(items=...),
        a_list({"metadata": {"name": 1}}),
    ],
)
def test_what_is_no_such_list_says_nothing(body: bytes) -> None:
    with pytest.raises(StreamGarbled):
        decode_list(body, target=TARGET)


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED"])
def test_a_line_has_the_object(kind: str) -> None:
    event = decode_named_event(a_line(kind, an_object()), target=TARGET)
    assert event.says
    assert event.found is not None
    assert event.resource_version == "7"


def test_or_that_it_is_gone() -> None:
    event = decode_named_event(a_line("DELETED", an_object()), target=TARGET)
    assert (event.says, event.found, event.resource_version) == (True, None, "7")


@pytest.mark.parametrize(
    "line",
    [
        a_line("BOOKMARK", an_object("")),
        a_line("BOOKMARK", an_object()),
        a_line("DELETED", an_object("another")),
        a_line("MODIFIED", an_object("another")),
    ],
)
def test_or_nothing_of_it_but_how_far_the_stream_is(line: bytes) -> None:
    event = decode_named_event(line, target=TARGET)
    assert (event.says, event.resource_version) == (False, "7")


def test_an_error_is_the_one_it_stands_for() -> None:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    event = decode_named_event(a_line("ERROR", status), target=TARGET)
    assert isinstance(event.error, Gone)


@pytest.mark.parametrize("line", [b"x", b"{}", a_line("ADDED", 3), a_line("ADDED", {"spec": []})])
def test_what_is_no_line_of_a_watch_says_nothing(line: bytes) -> None:
    with pytest.raises(StreamGarbled):
        decode_named_event(line, target=TARGET)
