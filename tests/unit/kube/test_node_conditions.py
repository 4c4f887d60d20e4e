"""What is applied to the status of a node: all conditions of ours, each since when its status stands."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, cast

import pytest

from harness.builders import a_node
from winpool.kube.client import Transport
from winpool.kube.errors import StreamGarbled
from winpool.kube.request import APPLY_PATCH, Request
from winpool.kube.writer import Writer, encode_conditions
from winpool.model.node import MESSAGE_LENGTH, REASON_LENGTH, ConditionsPatch, Node, NodeCondition

NOW = datetime(2026, 11, 1, 13, 0, 0, 250_000, tzinfo=UTC)
SINCE = datetime(2026, 11, 1, 12, tzinfo=UTC)
HIGH = NodeCondition("WindowsMemoryPressure", "True", "CommitHigh", "93 % of 48Gi")
CALM = NodeCondition("WindowsMemoryPressure", "False")


def node_with(*conditions: NodeCondition) -> Node:
    node = a_node("w1")
    return Node(
        node.name, node.uid, "7", {}, {}, (), unschedulable=False, ready="True", conditions=conditions
    )


def since(condition: NodeCondition, moment: datetime | None) -> NodeCondition:
    return NodeCondition(condition.type, condition.status, "Before", "other words", moment)


def applied(*wanted: NodeCondition, standing: tuple[NodeCondition, ...] = ()) -> list[dict[str, str]]:
    body = json.loads(encode_conditions(ConditionsPatch(node_with(*standing), wanted), now=NOW))
    assert body.keys() == {"apiVersion", "kind", "metadata", "status"}
    assert body["metadata"] == {"name": "w1", "resourceVersion": "7"}
    found: list[dict[str, str]] = body["status"]["conditions"]
    return found


def test_a_new_condition_stands_since_now() -> None:
    assert applied(HIGH) == [
        {
            "type": "WindowsMemoryPressure",
            "status": "True",
            "lastTransitionTime": "2026-11-01T13:00:00Z",
            "reason": "CommitHigh",
            "message": "93 % of 48Gi",
        }
    ]


def test_a_condition_with_the_status_that_stands_there_keeps_its_time_and_gets_our_words() -> None:
    (told,) = applied(HIGH, standing=(since(HIGH, SINCE),))
    assert (told["lastTransitionTime"], told["reason"]) == ("2026-11-01T12:00:00Z", "CommitHigh")


@pytest.mark.parametrize(
    "standing", [since(CALM, SINCE), since(HIGH, None)], ids=["another status", "no time"]
)
def test_a_condition_whose_status_changes_or_has_no_time_stands_since_now(standing: NodeCondition) -> None:
    (told,) = applied(HIGH, standing=(standing,))
    assert told["lastTransitionTime"] == "2026-11-01T13:00:00Z"


def test_a_time_of_another_zone_is_written_as_the_api_server_does() -> None:
    moved = NOW.astimezone(timezone(timedelta(hours=9))) + timedelta(seconds=1)
    (told,) = json.loads(encode_conditions(ConditionsPatch(node_with(), (HIGH,)), now=moved))["status"][
        "conditions"
    ]
    assert told["lastTransitionTime"] == "2026-11-01T13:00:01Z"


def test_the_first_year_is_written_with_four_digits() -> None:
    (told,) = applied(HIGH, standing=(since(HIGH, datetime.min.replace(tzinfo=UTC)),))
    assert told["lastTransitionTime"] == "0001-01-01T00:00:00Z"


def test_no_condition_is_an_empty_set_so_that_those_of_ours_come_off() -> None:
    assert applied(standing=(since(HIGH, SINCE),)) == []


def test_words_that_are_not_said_are_not_written() -> None:
    (told,) = applied(CALM)
    assert told.keys() == {"type", "status", "lastTransitionTime"}


@pytest.mark.parametrize(
    "long",
    [
        NodeCondition("Drained", "True", reason="x" * (REASON_LENGTH + 1)),
        NodeCondition("Drained", "True", message="x" * (MESSAGE_LENGTH + 1)),
    ],
    ids=["reason", "message"],
)
def test_words_that_would_be_read_back_as_others_are_never_written(long: NodeCondition) -> None:
    with pytest.raises(ValueError, match="condition Drained: the reason or the message is too long"):
        applied(long)


class Answering:
    """A transport with one answer."""

    def __init__(self, answer: bytes) -> None:
        self.asked: list[Request] = []
        self._answer = answer

    async def request(self, request: Request) -> bytes:
        self.asked.append(request)
        return self._answer


def the_node(**status: Any) -> bytes:
    metadata = {"name": "w1", "uid": "uid-of-w1", "resourceVersion": "8"}
    return json.dumps({"kind": "Node", "metadata": metadata, "status": status}).encode()


async def test_the_answer_is_the_node_as_it_now_stands() -> None:
    conditions = [
        {"type": "Ready", "status": "True"},
        {
            "type": "WindowsMemoryPressure",
            "status": "True",
            "reason": "CommitHigh",
            "message": "93 % of 48Gi",
        },
    ]
    transport = Answering(the_node(conditions=conditions))
    writer = Writer(cast(Transport, transport))
    node = await writer.apply_node_conditions(ConditionsPatch(node_with(), (HIGH,)), now=NOW)
    assert (node.name, node.resource_version, node.ready, node.conditions) == ("w1", "8", "True", (HIGH,))
    (asked,) = transport.asked
    assert asked.path == "/api/v1/nodes/w1/status?fieldManager=winpool&force=true"
    assert (asked.method, asked.content_type, asked.resource) == ("PATCH", APPLY_PATCH, "nodes/status")
    assert asked.is_repeatable


@pytest.mark.parametrize("answer", [b"", b"{}", b"[]", b'{"metadata":{"name":"w1"}}', b'{"metadata":7}'])
async def test_an_unreadable_answer_is_no_node(answer: bytes) -> None:
    writer = Writer(cast(Transport, Answering(answer)))
    with pytest.raises(StreamGarbled, match="patch nodes/status w1: unreadable answer"):
        await writer.apply_node_conditions(ConditionsPatch(node_with(), (HIGH,)), now=NOW)
