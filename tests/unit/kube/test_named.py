"""Reading one object by its name: what the API server says of it, and what says nothing."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from winpool.kube.errors import Gone, StreamGarbled
from winpool.kube.watch import NamedObject, Target

TARGET = Target(
    group="admissionregistration.k8s.io",
    version="v1",
    resource="validatingadmissionpolicies",
    kind="ValidatingAdmissionPolicy",
    name="winpool-guard",
)
SOURCE = TARGET.source


def an_object(name: str = TARGET.name, **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": "u", "generation": 3, "resourceVersion": "7", **metadata},
        "spec": {"a": [1, {}]},
    }


def a_list(*items: Any, **more: Any) -> bytes:
    head = {"kind": f"{TARGET.kind}List", "apiVersion": f"{TARGET.group}/{TARGET.version}"}
    whole = {**head, "metadata": {"resourceVersion": "9"}, "items": list(items), **more}
    return json.dumps({key: value for key, value in whole.items() if value is not ...}).encode()


def found_in(body: bytes) -> NamedObject | None:
    return next(iter(SOURCE.listing.decode(body).items), None)


def a_line(kind: str, found: Any) -> bytes:
    return json.dumps({"type": kind, "object": found}).encode()


def test_requests_name_the_object_in_the_one_field_that_rbac_looks_at() -> None:
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies?fieldSelector=metadata.name%3D"
    assert SOURCE.listing.list_request().path == f"{path}winpool-guard&limit=500"
    assert SOURCE.listing.watch_request("9", 0.5).path == (
        f"{path}winpool-guard&watch=1&allowWatchBookmarks=true&resourceVersion=9&timeoutSeconds=1"
    )


def test_a_list_has_the_object() -> None:
    listed = SOURCE.listing.decode(a_list(an_object()))
    assert listed.resource_version == "9"
    (found,) = listed.items
    assert (found.name, found.uid, found.generation) == (TARGET.name, "u", 3)
    assert found.spec == {"a": [1, {}]}


@pytest.mark.parametrize("items", [[], None], ids=["empty", "null"])
def test_or_it_has_not(items: list[Any] | None) -> None:
    assert found_in(a_list(items=items)) is None


def test_it_changed_when_anybody_last_wrote_any_of_it() -> None:
    times = ["2026-11-01T12:30:00Z", None, "half past", "2026-11-01T13:00:00"]
    metadata: dict[str, Any] = {
        "creationTimestamp": "2026-11-01T12:00:00Z",
        "managedFields": [{"time": moment} for moment in times],
    }
    found = found_in(a_list(an_object(**metadata)))
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
        SOURCE.listing.decode(body)


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED"])
def test_a_line_has_the_object(kind: str) -> None:
    event = SOURCE.decode_event(a_line(kind, an_object()))
    assert event.object is not None
    assert (event.type, event.object.name, event.resource_version) == (kind, TARGET.name, "7")


def test_or_that_it_is_gone() -> None:
    event = SOURCE.decode_event(a_line("DELETED", an_object()))
    assert event.object is not None
    assert (event.type, event.object.uid, event.resource_version) == ("DELETED", "u", "7")


@pytest.mark.parametrize(
    "line",
    [
        a_line("BOOKMARK", an_object("")),
        a_line("BOOKMARK", an_object()),
    ],
)
def test_or_nothing_of_it_but_how_far_the_stream_is(line: bytes) -> None:
    event = SOURCE.decode_event(line)
    assert (event.object, event.resource_version) == (None, "7")


def test_an_error_is_the_one_it_stands_for() -> None:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    event = SOURCE.decode_event(a_line("ERROR", status))
    assert isinstance(event.error, Gone)


@pytest.mark.parametrize("line", [b"x", b"{}", a_line("ADDED", 3), a_line("ADDED", {"spec": []})])
def test_what_is_no_line_of_a_watch_says_nothing(line: bytes) -> None:
    with pytest.raises(StreamGarbled):
        SOURCE.decode_event(line)
