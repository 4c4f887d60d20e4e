"""Nodes are read from whatever comes, and nothing unreadable ever reads as an absence."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.every import every
from winpool.kube.errors import Gone, StreamGarbled, Unavailable
from winpool.kube.lists import UnreadableObjectError
from winpool.kube.nodes import decode_event, decode_page, decode_written
from winpool.model.node import (
    MESSAGE_LENGTH,
    Allocatable,
    KubeletEndpoint,
    Node,
    NodeCondition,
    NodeMemory,
    NodePatch,
    NodeVersions,
    Taint,
)

Object = dict[str, Any]


def a_node_object(name: str = "w1", **changes: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "creationTimestamp": "2026-11-01T12:00:00Z",
            "labels": {"kubernetes.io/os": "windows"},
            "annotations": {"winpool.dev/applied": "{}", "volumes.kubernetes.io/attach-detach": "true"},
            "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:metadata": {}}}],
        },
        "spec": {
            "unschedulable": True,
            "providerID": "sim://w1",
            "taints": [
                {"key": "os", "value": "windows", "effect": "NoSchedule"},
                {
                    "key": "node.kubernetes.io/unschedulable",
                    "effect": "NoSchedule",
                    "timeAdded": "2026-11-01T12:00:00Z",
                },
            ],
        },
        "status": {
            "conditions": [
                {
                    "type": "MemoryPressure",
                    "status": "False",
                    "lastHeartbeatTime": "2026-11-01T12:05:00Z",
                    "lastTransitionTime": "2026-11-01T12:05:00Z",
                },
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-01T12:05:00Z"},
            ],
            "capacity": {"cpu": "4", "memory": "16776756Ki", "pods": "110"},
            "allocatable": {"cpu": "4", "memory": "14679604Ki", "pods": "110"},
            "addresses": [
                {"type": "Hostname", "address": "w1"},
                {"type": "InternalIP", "address": "10.0.0.5"},
                {"type": "InternalIP", "address": "fd00::5"},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "kernelVersion": "10.0.20348.4052",
                "kubeletVersion": "v1.36.3",
                "containerRuntimeVersion": "containerd://2.3.0",
                "osImage": "Windows Server 2022 Datacenter",
                "bootID": "10",
            },
        },
        **changes,
    }


W1 = Node(
    name="w1",
    uid="uid-w1",
    resource_version="7",
    labels={"kubernetes.io/os": "windows"},
    annotations={"winpool.dev/applied": "{}"},
    taints=(
        Taint(key="os", effect="NoSchedule", value="windows"),
        Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule", time_added="2026-11-01T12:00:00Z"),
    ),
    unschedulable=True,
    ready="True",
    versions=NodeVersions(
        "10.0.20348.4052", "v1.36.3", "containerd://2.3.0", "Windows Server 2022 Datacenter"
    ),
    created=datetime(2026, 11, 1, 12, tzinfo=UTC),
    ready_since=datetime(2026, 11, 1, 12, 5, tzinfo=UTC),
    memory=NodeMemory(16776756 * 1024, 14679604 * 1024),
    kubelet=KubeletEndpoint("10.0.0.5", 10250),
    kubelet_pressure="False",
    boot_id="10",
    allocatable=Allocatable(cpu_milli=4000, pods=110),
)


def line(type_: str, object_: Object) -> bytes:
    return json.dumps({"type": type_, "object": object_}).encode()


def page(*items: Object, kind: str = "NodeList", **metadata: str) -> bytes:
    listed = {"kind": kind, "apiVersion": "v1", "metadata": {"resourceVersion": "9", **metadata}}
    return json.dumps({**listed, "items": items}).encode()


@pytest.mark.parametrize("type_", ["ADDED", "MODIFIED", "DELETED"])
def test_an_event_is_read_to_the_wanted_fields(type_: str) -> None:
    event = decode_event(line(type_, a_node_object()))
    assert (event.type, event.resource_version, event.error) == (type_, "7", None)
    assert event.object == W1
    assert event.object is not None
    assert event.object.resource_version == "7"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2026-11-01T12:00:00",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        None,
    ],
)
def test_a_time_that_cannot_be_read_is_not_known_and_hides_no_node(text: str | None) -> None:
    told = a_node_object(
        status={"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": text}]}
    )
    told["metadata"]["creationTimestamp"] = text
    node = decode_event(line("MODIFIED", told)).object
    assert node is not None
    assert (node.ready, node.ready_since, node.created) == ("True", None, None)


@pytest.mark.parametrize(
    ("capacity", "allocatable", "expected"),
    [
        ({"memory": "8Gi"}, {"memory": "6442450944"}, NodeMemory(8 * 2**30, 6 * 2**30)),
        ({"memory": "lots"}, {"memory": "6Gi"}, NodeMemory(None, 6 * 2**30)),
        ({"cpu": "4"}, None, NodeMemory()),
    ],
)
def test_memory_is_read_in_bytes_and_what_cannot_be_read_is_not_known(
    capacity: Object | None, allocatable: Object | None, expected: NodeMemory
) -> None:
    told = a_node_object(status={"capacity": capacity, "allocatable": allocatable})
    node = decode_event(line("MODIFIED", told)).object
    assert node is not None
    assert node.memory == expected


def unready(message: str, *, reason: str = "KubeletNotReady", status: str = "False") -> str:
    condition = {"type": "Ready", "status": status, "reason": reason, "message": message}
    node = decode_event(line("MODIFIED", a_node_object(status={"conditions": [condition]}))).object
    assert node is not None
    return node.unready


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        (
            "PLEG is not healthy: pleg was last seen active 3m5.12s ago; threshold is 3m0s.",
            "PLEG is not healthy: pleg was last seen active … ago; threshold is ….",
        ),
        ("dial tcp 10.0.0.7:50121->10.0.0.1:6443: i/o timeout", "dial tcp …->…: i/o timeout"),
        ("x509: certificate expired at 2026-11-01T12:00:00Z", "x509: certificate expired at …"),
        ("sandbox fe0123456789ab of DEADBEEF-0000-4000-8000-0123456789ab", "sandbox … of …"),
        ("hcs failed: 0xc0370101 at 0xc000123456ab\n\tretry", "hcs failed: 0xc0370101 at … retry"),
    ],
)
def test_what_a_ready_that_is_not_true_says_is_kept_without_what_each_heartbeat_changes(
    message: str, kept: str
) -> None:
    assert unready(message) == f"KubeletNotReady: {kept}"


def test_a_long_message_is_cut_and_one_of_a_ready_node_is_not_kept() -> None:
    assert len(unready("7s " * 2**20)) <= MESSAGE_LENGTH + 1
    assert unready("kubelet is posting ready status", status="True") == ""


def test_a_bare_node_has_defaults() -> None:
    bare = {"metadata": {"name": "w1", "uid": "u", "resourceVersion": "1"}}
    node = decode_event(line("ADDED", bare)).object
    assert node == Node("w1", "u", "1", {}, {}, (), unschedulable=False, ready="Unknown")


def test_nulls_read_like_absences() -> None:
    nulls = {
        "metadata": {
            "name": "w1", "uid": "u", "resourceVersion": "1",
            "labels": None, "annotations": None, "deletionTimestamp": None,
        },
        "spec": {"taints": None, "unschedulable": None},
        "status": {
            "conditions": None, "nodeInfo": None, "addresses": None,
            "daemonEndpoints": {"kubeletEndpoint": None},
        },
    }  # fmt: skip
    node = decode_event(line("ADDED", nulls)).object
    assert node == Node("w1", "u", "1", {}, {}, (), unschedulable=False, ready="Unknown")


def test_a_node_being_deleted_says_so() -> None:
    going = a_node_object()
    going["metadata"]["deletionTimestamp"] = "2026-11-01T12:00:00Z"
    node = decode_event(line("MODIFIED", going)).object
    assert node is not None
    assert node.deleting


def test_a_bookmark_moves_on_and_an_unknown_type_is_let_by() -> None:
    bookmark = {"kind": "Node", "metadata": {"resourceVersion": "12"}, "spec": {}, "status": {}}
    assert decode_event(line("BOOKMARK", bookmark)).resource_version == "12"
    unknown = decode_event(line("SHINY", {"metadata": {"resourceVersion": "13"}}))
    assert (unknown.object, unknown.error) == (None, None)


@pytest.mark.parametrize(("code", "kind"), [(410, Gone), (500, Unavailable), (504, Unavailable)])
def test_an_error_event_is_an_error_like_any_other(code: int, kind: type[Exception]) -> None:
    told = {"kind": "Status", "status": "Failure", "code": code, "reason": "Expired", "message": "too old"}
    error = decode_event(line("ERROR", {"metadata": {}, **told})).error
    assert type(error) is kind
    assert str(error) == f"watch nodes: {code} too old"


WRONG: list[Object] = [
    {"metadata": {"name": "w1", "uid": "u", "resourceVersion": "7", "labels": {"a": 5}}},
    {"metadata": {"name": "w1", "uid": "u", "resourceVersion": "7", "labels": ["a"]}},
    {"metadata": {"name": "w1", "uid": "u", "resourceVersion": "7"}, "spec": {"taints": "all"}},
    {"metadata": {"name": "w1", "uid": "u", "resourceVersion": "7"}, "status": {"conditions": [7]}},
    {"metadata": {"name": "w1", "uid": "u", "resourceVersion": "7"}, "status": {"addresses": "10.0.0.5"}},
    {
        "metadata": {"name": "w1", "uid": "u", "resourceVersion": "7"},
        "status": {"addresses": [{"type": "InternalIP", "address": 10}]},
    },
    {
        "metadata": {"name": "w1", "uid": "u", "resourceVersion": "7"},
        "status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": "10250"}}},
    },
    {
        "metadata": {"name": "w1", "uid": "u", "resourceVersion": "7"},
        "status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 2**31}}},
    },
    {"metadata": {"name": "w1", "uid": "u"}},
    {"metadata": {"name": "w1", "resourceVersion": "7"}},
]


@every("wrong", WRONG)
def test_an_unreadable_node_is_named_and_is_not_gone(wrong: Object) -> None:
    with pytest.raises(UnreadableObjectError) as caught:
        decode_event(line("MODIFIED", wrong))
    assert caught.value.name == "w1"
    found = decode_page(page(a_node_object("w0"), wrong, a_node_object("w2")))
    assert [node.name for node in found.items] == ["w0", "w2"]
    assert [error.name for error in found.unreadable] == ["w1"]


def test_the_deletion_of_an_unreadable_node_is_still_a_deletion() -> None:
    event = decode_event(line("DELETED", WRONG[0]))
    assert event.object is not None
    assert (event.object.name, event.object.uid, event.object.resource_version) == ("w1", "u", "7")


@pytest.mark.parametrize("wrong", [{"metadata": {"name": 5}}, {"metadata": "x"}, 7, None, "w1", []])
def test_a_node_without_a_readable_name_is_reported_as_such(wrong: Any) -> None:
    found = decode_page(page(a_node_object(), wrong))
    assert [node.name for node in found.items] == ["w1"]
    assert [error.name for error in found.unreadable] == [""]


GARBAGE = [
    b"",
    b"{",
    b"null",
    b"[]",
    b"{}",
    b"<html>502</html>",
    b'{"kind":"NodeList","apiVersion":"v1"}',
    b'{"kind":"NodeList","apiVersion":"v1","items":[]}',
    b'{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"9"}}',
    b'{"kind":"NodeList","apiVersion":"v2","metadata":{"resourceVersion":"9"},"items":[]}',
    b'{"kind":"NodeList","metadata":{"resourceVersion":"9"},"items":[]}',
    b'{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[]}',
    b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[]}',
    b'{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":{}}',
    b'{"kind":"Status","status":"Failure","code":500}',
    b'{"type":"MODIFIED"}',
    b'{"type":5,"object":{}}',
    b'{"type":"MODIFIED","object":{"metadata":{"name":"w1","uid":"u","resourceVersion":"7"}}} trailing',
    b"[" * 100_000,
    b'{"type":"MODIFIED","object":' + b"[" * 100_000,
    page(a_node_object())[:-40],
    line("MODIFIED", a_node_object())[:-40],
]


@every("body", GARBAGE)
def test_garbage_says_nothing_at_all(body: bytes) -> None:
    with pytest.raises(StreamGarbled):
        decode_page(body)
    with pytest.raises(StreamGarbled):
        decode_event(body)


@given(st.binary(max_size=200))
def test_no_bytes_are_too_strange(data: bytes) -> None:
    with pytest.raises(StreamGarbled):
        decode_page(data)
    with pytest.raises(StreamGarbled):
        decode_event(data)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


KNOWN = [
    ("metadata", "labels"),
    ("spec", "taints"),
    ("status", "conditions"),
    ("status", "addresses"),
    ("status", "daemonEndpoints"),
]


@pytest.mark.slow
@given(
    st.sampled_from(KNOWN) | st.tuples(st.sampled_from(["metadata", "spec", "status"]), st.text(max_size=12)),
    JSON,
)
def test_any_field_may_be_anything(place: tuple[str, str], value: Any) -> None:
    """Whatever one field holds, the node is read or reported, never garbled and never silently gone."""
    strange = a_node_object()
    part, field = place
    strange[part][field] = value
    found = decode_page(page(strange))
    assert len(found.items) + len(found.unreadable) == 1


def test_a_page_tells_where_it_goes_on() -> None:
    found = decode_page(page(a_node_object(), **{"continue": "token"}))
    assert (found.resource_version, found.continue_token) == ("9", "token")
    assert found.items == (W1,)
    assert decode_page(page()).items == ()
    assert (
        decode_page(
            b'{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":null}'
        ).items
        == ()
    )


def test_a_written_node_is_the_answer_and_what_was_sent() -> None:
    taint = Taint(key="os", effect="NoSchedule", value="linux")
    patch = NodePatch(node=W1, labels={"a": "b"}, annotations={}, taints=(taint,))
    answer = {
        "kind": "PartialObjectMetadata",
        "metadata": {"name": "w1", "uid": "uid-w1", "resourceVersion": "8", "labels": {"a": "b"}},
    }
    node = decode_written(json.dumps(answer).encode(), patch=patch)
    assert node == replace(W1, labels={"a": "b"}, annotations={}, taints=(taint,))
    assert node.resource_version == "8"
    untouched = NodePatch(node=W1, labels={"a": "b"}, annotations={}, taints=None)
    assert decode_written(json.dumps(answer).encode(), patch=untouched).taints == W1.taints


@pytest.mark.parametrize(
    ("before", "sent", "after"), [(True, False, False), (False, True, True), (True, None, True)]
)
def test_a_written_node_is_cordoned_as_was_sent(before: bool, sent: bool | None, after: bool) -> None:
    node = replace(W1, unschedulable=before)
    answer = b'{"metadata":{"name":"w1","uid":"uid-w1","resourceVersion":"8"}}'
    patch = NodePatch(node=node, labels={}, annotations={}, taints=None, unschedulable=sent)
    assert decode_written(answer, patch=patch).unschedulable is after


def with_conditions(*conditions: Object, version: str = "7") -> Node:
    told = a_node_object()
    told["metadata"]["resourceVersion"] = version
    told["status"]["conditions"] += conditions
    node = decode_event(line("MODIFIED", told)).object
    assert node is not None
    return node


HIGH = {"type": "WindowsMemoryPressure", "status": "True", "reason": "CommitHigh", "message": "93 % of 48Gi"}


def test_the_conditions_of_our_table_are_kept_by_type_and_no_others() -> None:
    told: list[Object] = [HIGH, {"type": "Drained", "status": "False"}, {"type": "Theirs", "status": "True"}]
    for conditions in (told, told[::-1]):
        assert with_conditions(*conditions).conditions == (
            NodeCondition("Drained", "False"),
            NodeCondition("WindowsMemoryPressure", "True", "CommitHigh", "93 % of 48Gi"),
        )
    assert with_conditions().conditions == ()


def test_a_condition_says_since_when() -> None:
    (kept,) = with_conditions({**HIGH, "lastTransitionTime": "2026-11-01T12:05:00Z"}).conditions
    assert kept.since == datetime(2026, 11, 1, 12, 5, tzinfo=UTC)


def test_a_heartbeat_compares_equal_and_so_does_another_time_of_a_condition_of_ours() -> None:
    before = with_conditions({**HIGH, "lastHeartbeatTime": "2026-11-01T12:05:00Z"})
    after = with_conditions({**HIGH, "lastHeartbeatTime": "2026-11-01T12:05:10Z"}, version="8")
    assert (before, before.conditions) == (after, after.conditions)
    assert before == with_conditions({**HIGH, "lastTransitionTime": "2026-11-01T12:06:00Z"})


def with_status(**changes: Any) -> Node:
    told = a_node_object()
    told["status"].update(changes)
    node = decode_event(line("MODIFIED", told)).object
    assert node is not None
    return node


def under_pressure(status: str, *, at: str = "2026-11-01T12:05:00Z") -> Object:
    return {
        "type": "MemoryPressure",
        "status": status,
        "lastHeartbeatTime": at,
        "lastTransitionTime": at,
        "reason": f"at {at}",
        "message": f"at {at}",
    }


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([under_pressure("True")], "True"),
        ([under_pressure("False")], "False"),
        ([under_pressure("Unknown")], "Unknown"),
        ([under_pressure("true")], "Unknown"),
        ([{"type": "MemoryPressure"}], "Unknown"),
        ([], "Unknown"),
        ([{"type": "WindowsMemoryPressure", "status": "True"}], "Unknown"),
        ([under_pressure("False"), under_pressure("True")], "False"),
    ],
)
def test_the_pressure_that_the_kubelet_reports_is_read(conditions: list[Object], expected: str) -> None:
    assert with_status(conditions=conditions).kubelet_pressure == expected


def test_a_heartbeat_of_the_kubelets_own_condition_compares_equal() -> None:
    before, after = (
        with_status(conditions=[under_pressure("False", at=at)])
        for at in ("2026-11-01T12:05:00Z", "2026-11-01T12:10:00Z")
    )
    assert before == after
    assert before != with_status(conditions=[under_pressure("True")])


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        ([("InternalIP", "10.0.0.5"), ("InternalIP", "10.0.0.6")], "10.0.0.5"),
        ([("ExternalIP", "203.0.113.7"), ("InternalIP", "fd00::5")], "fd00::5"),
        ([("InternalIP", "not an address"), ("InternalIP", "10.0.0.6")], "not an address"),
        ([("InternalIP", ""), ("InternalIP", "10.0.0.6")], ""),
        ([("Hostname", "w1"), ("internalip", "10.0.0.5")], ""),
        ([], ""),
    ],
)
def test_the_first_internal_address_counts_as_it_is_written(
    addresses: list[tuple[str, str]], expected: str
) -> None:
    told = [{"type": kind, "address": text} for kind, text in addresses]
    assert with_status(addresses=told).kubelet == KubeletEndpoint(expected, 10250)


@pytest.mark.parametrize(
    ("endpoints", "expected"),
    [
        ({"kubeletEndpoint": {"Port": 443}}, 443),
        ({"kubeletEndpoint": {"Port": 0}}, None),
        ({"kubeletEndpoint": {"Port": -1}}, -1),
        ({"kubeletEndpoint": {"Port": 70000}}, 70000),
        ({"kubeletEndpoint": {"port": 443}}, None),
        ({"kubeletEndpoint": {}}, None),
        ({}, None),
        (None, None),
    ],
)
def test_the_port_of_the_kubelet_is_what_the_node_reports(
    endpoints: Object | None, expected: int | None
) -> None:
    assert with_status(daemonEndpoints=endpoints).kubelet == KubeletEndpoint("10.0.0.5", expected)


@pytest.mark.parametrize("change", [{"status": "False"}, {"reason": "Else"}, {"message": "94 % of 48Gi"}])
def test_a_change_of_a_condition_of_ours_is_one(change: Object) -> None:
    assert with_conditions(HIGH) != with_conditions({**HIGH, **change})


@pytest.mark.parametrize("body", [b"", b"{}", b'{"metadata":{}}', b'{"metadata":{"resourceVersion":8}}'])
def test_an_unreadable_answer_to_a_write_is_no_node(body: bytes) -> None:
    with pytest.raises(StreamGarbled, match="patch nodes w1"):
        decode_written(body, patch=NodePatch(node=W1, labels={"a": "b"}, annotations={}, taints=None))
