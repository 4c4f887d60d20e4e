"""What whoever is a kubelet writes into its node is bounded, whatever it writes and however often."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from typing import Any, Final

import msgspec
import pytest
from msgspec.structs import replace

from harness.kept import MEGABYTE, measured
from winpool.api.keys import APPLIED_ANNOTATION, BORROWED_ANNOTATIONS, OWN_ANNOTATIONS, REQUEST_ANNOTATIONS
from winpool.api.quantity import bytes_of
from winpool.kube.lists import UnreadableObjectError
from winpool.kube.nodes import decode_event, decode_page, decode_written
from winpool.kube.watch import Store
from winpool.kube.wire import NodeAnnotations
from winpool.model.node import (
    MESSAGE_LENGTH,
    REASON_LENGTH,
    Allocatable,
    KubeletEndpoint,
    Node,
    NodeMemory,
    NodePatch,
    NodeVersions,
)
from winpool.ownership.record import MAX_BYTES, Unreadable, record_of
from winpool.support.versions import parse_minor, parse_runtime, parse_windows

Object = dict[str, Any]

UPDATES: Final = 10 if os.environ.get("HYPOTHESIS_PROFILE") == "first" else 100
HUGE: Final = "HUGE"
KEPT: Final = 256 * 1024
"""Bytes that may be kept of all updates, of a megabyte each: the node as it is now, five annotations of
16 KiB with it, and what a Python of its own keeps."""


def a_node(name: str = "w1", *, version: int = 1) -> Object:
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)},
        "spec": {},
        "status": {
            "capacity": {"memory": "16776756Ki"},
            "allocatable": {"memory": "14679604Ki", "cpu": "3920m", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-01T12:00:00Z"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.5"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "kernelVersion": "10.0.20348.4052",
                "kubeletVersion": "v1.36.3",
                "containerRuntimeVersion": "containerd://2.3.0",
                "bootID": "10",
            },
        },
    }


def read(found: Object) -> Node:
    node = decode_event(line(found)).object
    assert node is not None
    return node


def line(found: Object) -> bytes:
    return json.dumps({"type": "MODIFIED", "object": found}).encode()


def huge(number: int) -> str:
    return f"{number}-".ljust(MEGABYTE, "x")


def annotated(node: Object, text: str, *, key: str = APPLIED_ANNOTATION) -> None:
    node["metadata"]["annotations"] = {key: text}


def labelled(node: Object, text: str, part: str) -> None:
    node["status"]["nodeInfo"][part] = text


def test_nodes_share_the_texts_that_they_have_in_common() -> None:
    labels, record = {f"example.com/{'k' * 40}": "the same", "zone": "b"}, json.dumps({"v": 1, "pool": "p"})
    found = [a_node("w1"), a_node("w2")]
    for each in found:
        each["metadata"] |= {"labels": labels, "annotations": {APPLIED_ANNOTATION: record}}
    one, other = map(read, found)
    for of_one, of_other in ((one.labels, other.labels), (one.annotations, other.annotations)):
        texts = list(zip(of_one.items(), of_other.items(), strict=True))
        assert texts
        assert all(key is same_key and value is same for (key, value), (same_key, same) in texts)


FIELDS: Final[dict[str, Callable[[Object, str], None]]] = {
    "an annotation of ours": annotated,
    "an annotation under our prefix that we do not know": lambda node, text: annotated(
        node, text, key="winpool.dev/unheard-of"
    ),
    "the name of an annotation": lambda node, text: annotated(node, "", key=f"winpool.dev/{text}"),
    "kernelVersion": lambda node, text: labelled(node, text, "kernelVersion"),
    "kubeletVersion": lambda node, text: labelled(node, text, "kubeletVersion"),
    "containerRuntimeVersion": lambda node, text: labelled(node, text, "containerRuntimeVersion"),
    "capacity": lambda node, text: node["status"].update(capacity={"memory": text}),
    "allocatable": lambda node, text: node["status"].update(allocatable={"memory": text}),
    "the CPU": lambda node, text: node["status"].update(allocatable={"cpu": text}),
    "the number of pods": lambda node, text: node["status"].update(allocatable={"pods": text}),
    "bootID": lambda node, text: labelled(node, text, "bootID"),
    "the status of Ready": lambda node, text: node["status"]["conditions"][0].update(status=text),
    "the type of a condition": lambda node, text: node["status"]["conditions"].append({"type": text}),
    "the time of Ready": lambda node, text: node["status"]["conditions"][0].update(lastTransitionTime=text),
    "the status of a condition of ours": lambda node, text: ours(node, status=text),
    "the reason of a condition of ours": lambda node, text: ours(node, reason=text),
    "the message of a condition of ours": lambda node, text: ours(node, message=text),
    "the time of a condition of ours": lambda node, text: ours(node, lastTransitionTime=text),
    "the status of MemoryPressure": lambda node, text: ours(node, type="MemoryPressure", status=text),
    "the message of MemoryPressure": lambda node, text: ours(node, type="MemoryPressure", message=text),
    "an address": lambda node, text: node["status"]["addresses"][0].update(address=text),
    "the type of an address": lambda node, text: node["status"]["addresses"][0].update(type=text),
    "the message of a condition of others": lambda node, text: ours(node, type="Theirs", message=text),
    "an annotation that we may borrow": lambda node, text: annotated(node, text, key=BORROWED_ANNOTATIONS[0]),
    "creationTimestamp": lambda node, text: node["metadata"].update(creationTimestamp=text),
    "the key of a taint": lambda node, text: taint(node, key=text),
    "the value of a taint": lambda node, text: taint(node, value=text),
    "the effect of a taint": lambda node, text: taint(node, effect=text),
    "timeAdded": lambda node, text: taint(node, timeAdded=text),
}
"""All that is read of what others may write into a node, but its labels: those the API server bounds, and any
may be selected by."""


def taint(node: Object, **changes: str) -> None:
    node["spec"]["taints"] = [{"key": "os", "value": "windows", "effect": "NoSchedule", **changes}]


def ours(node: Object, **changes: str) -> None:
    node["status"]["conditions"].append({"type": "Drained", "status": "True", **changes})


def lines(change: Callable[[Object], None]) -> Iterator[bytes]:
    """Give a hundred updates of a node; where it says HUGE there is a megabyte, another one each time."""
    node = a_node(version=2)
    change(node)
    head, *tail = line(node).split(HUGE.encode())
    for number in range(UPDATES):
        yield huge(number).encode().join([head, *tail])


@pytest.mark.slow
@pytest.mark.parametrize("field", FIELDS.values(), ids=FIELDS)
def test_updates_of_a_megabyte_leave_nothing_behind(field: Callable[[Object, str], None]) -> None:
    store = Store[Node](lambda _old, _new: None)
    store.put(read(a_node()))
    with measured() as memory:
        for update in lines(lambda node: field(node, HUGE)):
            take(update, store)
            del update
    assert memory.kept < KEPT
    assert list(store.objects) == ["w1"]


def take(update: bytes, store: Store[Node]) -> None:
    with contextlib.suppress(UnreadableObjectError):  # then it is kept as last seen
        node = decode_event(update).object
        assert node is not None
        store.put(node)


@pytest.mark.slow
def test_a_hundred_nodes_with_long_annotations_take_little() -> None:
    store = Store[Node](lambda _old, _new: None)
    told = [line(a_node(f"w{number}")) for number in range(UPDATES)]
    long = ", ".join(f'"winpool.dev/{key}": "{HUGE}"' for key in ("applied", "memory", "upgrade"))
    with measured() as memory:
        for number, update in enumerate(told):
            annotated_so = f'"metadata": {{"annotations": {{{long}}}, '.replace(HUGE, huge(number))
            take(update.replace(b'"metadata": {', annotated_so.encode()), store)
            del annotated_so
    assert [node.annotations.keys() for node in store.objects.values()] == [
        {f"winpool.dev/{key}" for key in ("applied", "memory", "upgrade")}
    ] * UPDATES
    assert memory.kept < UPDATES * 4096


def test_the_annotations_that_are_read_are_those_of_the_table() -> None:
    read = {each.encode_name for each in msgspec.structs.fields(NodeAnnotations)}
    assert read == {*OWN_ANNOTATIONS, *REQUEST_ANNOTATIONS, *BORROWED_ANNOTATIONS}


def test_of_thousands_of_conditions_of_one_type_the_first_is_kept() -> None:
    node = a_node()
    for number in range(5000):
        ours(node, message=f"number {number}", type=("Drained", "DrainInProgress")[number % 2])
    assert [(each.type, each.message) for each in read(node).conditions] == [
        ("DrainInProgress", "number 1"),
        ("Drained", "number 0"),
    ]


@pytest.mark.slow
def test_of_ten_thousand_addresses_one_is_kept() -> None:
    store = Store[Node](lambda _old, _new: None)
    told = a_node(version=2)
    told["status"]["addresses"] = [
        {"type": ("Hostname", "InternalIP")[number % 2], "address": f"10.0.{number // 250}.{number % 250}"}
        for number in range(10_000)
    ]
    update = line(told)
    with measured() as memory:
        take(update, store)
    assert store.objects["w1"].kubelet == KubeletEndpoint("10.0.0.1", 10250)
    assert memory.kept < 16 * 1024


@pytest.mark.parametrize("text", ["10.0.0.5".ljust(65, "0"), huge(1)], ids=["65", "a megabyte"])
def test_what_is_too_long_for_an_address_is_cut_and_is_none(text: str) -> None:
    told = a_node()
    told["status"]["addresses"][0]["address"] = text
    kept = read(told).kubelet.address
    assert kept == text[:64] + "…"
    with pytest.raises(ValueError, match="IPv4 or IPv6"):
        ip_address(kept)


@pytest.mark.parametrize(("part", "length"), [("reason", REASON_LENGTH), ("message", MESSAGE_LENGTH)])
def test_words_of_a_condition_are_kept_as_long_as_we_write_them_and_cut_beyond(
    part: str, length: int
) -> None:
    for text, kept in (("x" * length, "x" * length), ("x" * (length + 1), "x" * length + "…")):
        node = a_node()
        ours(node, **{part: text})
        (condition,) = read(node).conditions
        assert getattr(condition, part) == kept


@pytest.mark.parametrize("status", ["", "true", "Yes", HUGE, "Unknown"])
def test_a_condition_that_is_neither_true_nor_false_is_unknown(status: str) -> None:
    node = a_node()
    ours(node, status=status)
    assert [each.status for each in read(node).conditions] == ["Unknown"]


def test_only_annotations_that_we_know_are_kept() -> None:
    node = a_node()
    ours = {
        f"winpool.dev/{key}": key
        for key in (
            *("applied", "upgrade", "memory"),
            *("hold", "upgrade-requested", "upgrade-done", "upgrade-retry"),
        )
    } | dict.fromkeys(BORROWED_ANNOTATIONS, "true")
    theirs = {
        "winpool.dev/unheard-of": "x",
        "winpool.dev/": "x",
        "example.com/hold": "x",
        "winpool.devil/hold": "x",
    }
    node["metadata"]["annotations"] = ours | theirs
    assert read(node).annotations == ours
    patch = NodePatch(node=read(a_node()), labels={}, annotations={}, taints=None)
    assert decode_written(json.dumps(node).encode(), patch=patch).annotations == ours


@pytest.mark.parametrize("text", ["x" * (MAX_BYTES + 1), "x" * MEGABYTE, "ü" * (MAX_BYTES // 2 + 1)])
def test_a_record_that_is_too_long_is_still_seen_as_too_long(text: str) -> None:
    node = a_node()
    annotated(node, text)
    record = record_of(read(node))
    assert isinstance(record, Unreadable)
    assert record.why == f"it is longer than {MAX_BYTES} bytes"


def test_a_record_as_long_as_it_may_be_is_read_as_it_is() -> None:
    node = a_node()
    annotated(node, "x" * MAX_BYTES)
    assert read(node).annotations == {APPLIED_ANNOTATION: "x" * MAX_BYTES}


@pytest.mark.parametrize("key", ["hold", "upgrade-requested", "upgrade-done", "upgrade-retry"])
def test_an_annotation_of_others_that_is_too_long_is_there_all_the_same(key: str) -> None:
    node = a_node()
    annotated(node, huge(1), key=f"winpool.dev/{key}")
    kept = read(node).annotations[f"winpool.dev/{key}"]
    assert kept
    assert len(kept) == MAX_BYTES + 1


def test_what_nodes_have_in_common_is_held_once() -> None:
    one, two = (
        read(a_node("w1")),
        decode_page(
            json.dumps(
                {
                    "kind": "NodeList",
                    "apiVersion": "v1",
                    "metadata": {"resourceVersion": "9"},
                    "items": [a_node("w2")],
                }
            ).encode()
        ).items[0],
    )
    assert one.versions is two.versions
    assert one.memory is two.memory
    assert one.allocatable is two.allocatable
    assert one.kubelet_pressure is two.kubelet_pressure
    assert one.versions == NodeVersions("10.0.20348.4052", "v1.36.3", "containerd://2.3.0")
    assert one.memory == NodeMemory(16776756 * 1024, 14679604 * 1024)
    assert one.allocatable == Allocatable(cpu_milli=3920, pods=110)


@pytest.mark.parametrize(
    ("allocatable", "expected"),
    [
        ({}, Allocatable()),
        ({"cpu": "4"}, Allocatable(cpu_milli=4000)),
        ({"cpu": "1500500u", "pods": "1e2"}, Allocatable(cpu_milli=1501, pods=100)),
        ({"cpu": "many", "pods": "250"}, Allocatable(pods=250)),
        ({"cpu": "1".rjust(65, "0")}, Allocatable()),
        ({"cpu": "9" * 40, "pods": "9" * 40}, Allocatable(2**63 - 1, 2**63 - 1)),
    ],
)
def test_what_a_node_offers_to_pods_is_read_as_far_as_it_is_there(
    allocatable: dict[str, str], expected: Allocatable
) -> None:
    told = a_node()
    told["status"]["allocatable"] = allocatable
    assert read(told).allocatable == expected


@pytest.mark.parametrize(("text", "kept"), [("", ""), ("9", "9"), ("b" * 64, "b" * 64), (huge(1), None)])
def test_a_boot_id_is_kept_as_it_is_if_it_is_one(text: str, kept: str | None) -> None:
    told = a_node()
    labelled(told, text, "bootID")
    assert read(told).boot_id == (text[:64] + "…" if kept is None else kept)
    del told["status"]["nodeInfo"]
    assert read(told).boot_id == ""


@pytest.mark.parametrize(
    ("part", "head", "parse"),
    [
        ("kernelVersion", "10.0.20348.4052", parse_windows),
        ("kubeletVersion", "v1.36.3-", parse_minor),
        ("containerRuntimeVersion", "containerd://2.3.0+", parse_runtime),
        ("containerRuntimeVersion", "c" * 63 + "://2.3.0+", parse_runtime),
    ],
)
def test_a_version_is_judged_as_if_all_of_it_were_kept(
    part: str, head: str, parse: Callable[[str], object]
) -> None:
    """A vendor's suffix of some length can be read, one beyond all bounds cannot: also what is kept of it."""
    field = {"kernelVersion": "kernel", "kubeletVersion": "kubelet"}.get(part, "runtime")
    for length in (0, 1, 40, 60, 200, 255, 256, 300, 390, 400, 401, MEGABYTE):
        told = a_node()
        text = head + "7" * length
        labelled(told, text, part)
        kept = getattr(read(told).versions, field)
        assert kept.startswith(text[:100])
        assert len(kept) <= 401
        assert parse(kept) == parse(text)


@pytest.mark.parametrize(
    ("status", "expected"), [("True", "True"), ("False", "False"), ("Unknown", "Unknown")]
)
def test_ready_is_one_of_three(status: str, expected: str) -> None:
    told = a_node()
    told["status"]["conditions"][0]["status"] = status
    assert read(told).ready == expected
    for strange in ("", "true", "Yes", huge(1)):
        told["status"]["conditions"][0]["status"] = strange
        assert read(told).ready == "Unknown"


@pytest.mark.parametrize("length", [20, 40, 64, 65, 80, MEGABYTE])
def test_an_amount_is_read_if_it_is_one(length: int) -> None:
    told = a_node()
    told["status"]["capacity"] = {"memory": "1".rjust(length, "0")}
    assert read(told).memory.capacity == (1 if length <= 40 else None)
    assert bytes_of("1".rjust(40, "0")) == 1


@pytest.mark.parametrize("part", ["key", "value", "effect", "timeAdded"])
def test_a_taint_that_the_api_server_would_not_take_leaves_the_node_as_last_seen(part: str) -> None:
    """It has to be sent back as it came, since the list is atomic. So it is not cut."""
    told = a_node()
    taint(told, **{part: "x" * 513})
    with pytest.raises(UnreadableObjectError) as caught:
        decode_event(line(told))
    assert caught.value.name == "w1"
    assert len(str(caught.value)) < 200
    taint(told, **{part: "x" * 317})
    assert getattr(read(told).taints[0], {"timeAdded": "time_added"}.get(part, part)) == "x" * 317


@pytest.mark.slow
def test_a_node_is_the_same_whatever_it_told_before() -> None:
    store, told = Store[Node](lambda _old, _new: None), a_node(version=7)
    for number, field in enumerate(FIELDS.values()):
        strange = a_node()
        field(strange, huge(number))
        take(line(strange), store)
    assert read(told) == replace(read(a_node()), resource_version="7")
