"""Why a node is due: each trigger, what is not known, and downgrades."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from harness.builders import CONTROL_PLANE
from harness.upgrade_feature import (
    BEHIND,
    W2019,
    W2022,
    W2025,
    due_node,
    gates_of,
    overview_of,
    settled_node,
    upgrade_pool,
    upgrade_snapshot,
    wishes,
)
from winpool.api.keys import UPGRADE_REQUESTED_ANNOTATION
from winpool.api.quantity import GIB
from winpool.api.upgrade import Gate, Trigger
from winpool.features.upgrade.records import SHOWN_LENGTH
from winpool.model.node import Node, NodeMemory
from winpool.model.snapshot import Snapshot

ALL = tuple(Trigger)
PLAIN = {"version": "2022"}
RESERVED = {"reservedMemory": {"systemReserved": "2Gi", "kubeReserved": "0", "evictionHard": "0"}}


def seen(
    node: Node,
    *,
    os: Mapping[str, Any] = PLAIN,
    triggers: Sequence[str] | None = None,
    more: Mapping[str, Any] | None = None,
    control_plane: str = CONTROL_PLANE,
) -> Snapshot:
    upgrade = {"method": "Replace", **({} if triggers is None else {"triggers": list(triggers)})}
    return upgrade_snapshot(upgrade_pool(upgrade, os=os, more=more), [node], control_plane=control_plane)


def reasons(snapshot: Snapshot) -> dict[str, str]:
    return {each.trigger: each.said for node in overview_of(snapshot).due for each in node.due}


def is_unknown(snapshot: Snapshot) -> bool:
    return overview_of(snapshot).unknown == ("w1",)


def reserves(gib: int | None) -> Node:
    """Return a node whose kubelet reserves so much."""
    memory = NodeMemory() if gib is None else NodeMemory(capacity=16 * GIB, allocatable=(16 - gib) * GIB)
    return replace(settled_node(), memory=memory)


def test_a_node_that_is_as_asked_is_up_to_date() -> None:
    snapshot = seen(settled_node(), os={"version": "2022", "targetRevision": 4052})
    overview = overview_of(snapshot)
    assert (overview.due, overview.unknown, overview.up_to_date) == ((), (), 1)
    assert wishes(snapshot) == {"w1": "UpToDate"}
    assert overview.target == "2022.4052"


def test_another_release_is_due() -> None:
    found = reasons(seen(settled_node(kernel=W2019)))
    assert found == {
        "OSVersion": "Windows Server 2019 runs, but spec.os.version asks for 2022.",
    }


def test_a_newer_release_is_a_downgrade_and_said_so() -> None:
    snapshot = seen(settled_node(kernel=W2025))
    assert "This is a downgrade" in reasons(snapshot)["OSVersion"]
    assert gates_of(snapshot)[Gate.RELEASE_CHANGE].permits, "a machine can be replaced by an older one"


def test_a_downgrade_on_one_node_keeps_no_other_from_being_upgraded() -> None:
    nodes = [settled_node("newer", kernel=W2025), settled_node("older")]
    snapshot = upgrade_snapshot(upgrade_pool(), nodes)
    assert wishes(snapshot) == {"newer": "Gated", "older": "Required"}


def test_a_revision_below_the_target_is_due() -> None:
    assert reasons(seen(settled_node(), os=BEHIND)) == {
        "OSRevision": "The revision of Windows Server 2022 is below 5000, which spec.os.targetRevision asks "
        "for."
    }


def test_a_revision_above_the_target_is_not_due() -> None:
    assert not reasons(seen(settled_node(), os={"version": "2022", "targetRevision": 4051}))


def test_a_revision_of_another_release_is_not_compared() -> None:
    assert set(reasons(seen(settled_node(kernel=W2019), os=BEHIND))) == {"OSVersion"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", " requests an upgrade."),
        ("KB5044281", " requests an upgrade: KB5044281."),
        ("it leaks.", " requests an upgrade: it leaks."),
        (" two\n lines ", " requests an upgrade: two lines."),
        ("\x1b[2Jred", " requests an upgrade: \\x1b[2Jred."),
    ],
)
def test_a_request_is_due_and_shown(text: str, said: str) -> None:
    node = settled_node(annotations={UPGRADE_REQUESTED_ANNOTATION: text})
    assert reasons(seen(node))["Request"].endswith(said)


def test_a_request_of_any_length_is_cut() -> None:
    node = settled_node(annotations={UPGRADE_REQUESTED_ANNOTATION: "é\u202e" * 100_000})
    said = reasons(seen(node))["Request"]
    assert len(said) < SHOWN_LENGTH + 100
    assert said.endswith("….")


@pytest.mark.parametrize(("gib", "said"), [(1, "reserves less memory"), (3, "reserves more memory"), (2, "")])
def test_reserved_memory_that_differs_is_due_where_asked(gib: int, said: str) -> None:
    found = reasons(seen(reserves(gib), triggers=ALL, more=RESERVED))
    assert (said in found.get("ReservedMemory", "")) if said else found == {}
    assert "ReservedMemory" not in reasons(seen(reserves(gib), more=RESERVED)), "it is no default trigger"


def test_an_older_kubelet_is_due_where_asked() -> None:
    """Older at all: it is to follow before the version skew policy forbids it."""
    node = settled_node(kubelet="v1.35.9")
    assert reasons(seen(node, triggers=ALL)) == {
        "KubeletSkew": "The kubelet has version 1.35, and the control plane 1.36."
    }
    assert not reasons(seen(node)), "it is no default trigger"


@pytest.mark.parametrize("kubelet", ["v1.36.0", "v1.37.0"])
def test_a_kubelet_that_is_not_older_is_not_due(kubelet: str) -> None:
    assert not reasons(seen(settled_node(kubelet=kubelet), triggers=ALL))


def test_several_reasons_are_reported_in_order() -> None:
    node = settled_node(kernel=W2019, kubelet="v1.35.0", annotations={UPGRADE_REQUESTED_ANNOTATION: ""})
    snapshot = seen(
        replace(node, memory=NodeMemory(capacity=16 * GIB, allocatable=GIB)), triggers=ALL, more=RESERVED
    )
    assert [each.trigger for each in due_node(snapshot).due] == [
        Trigger.OS_VERSION,
        Trigger.REQUEST,
        Trigger.RESERVED_MEMORY,
        Trigger.KUBELET_SKEW,
    ]


@pytest.mark.parametrize("trigger", ALL)
def test_a_trigger_that_is_not_asked_for_makes_no_node_due(trigger: Trigger) -> None:
    node = replace(
        settled_node(kernel=W2019, kubelet="v1.35.0", annotations={UPGRADE_REQUESTED_ANNOTATION: ""}),
        memory=NodeMemory(capacity=16 * GIB, allocatable=GIB),
    )
    asked = [each for each in ALL if each is not trigger]
    assert trigger not in reasons(seen(node, os=BEHIND, triggers=asked, more=RESERVED))


@pytest.mark.parametrize(
    ("node", "os", "triggers"),
    [
        (settled_node(kernel=""), PLAIN, ["OSVersion"]),
        (settled_node(kernel="10.0.99999.1"), PLAIN, ["OSVersion"]),
        (settled_node(kernel="gibberish"), BEHIND, ["OSRevision"]),
        (settled_node(kernel="10.0.20348"), BEHIND, ["OSVersion", "OSRevision"]),
        (settled_node(kubelet="gibberish"), PLAIN, ["KubeletSkew"]),
        (reserves(None), PLAIN, ["ReservedMemory"]),
    ],
)
def test_what_cannot_be_read_is_neither_due_nor_up_to_date(
    node: Node, os: Mapping[str, Any], triggers: Sequence[str]
) -> None:
    snapshot = seen(node, os=os, triggers=triggers, more=RESERVED)
    assert is_unknown(snapshot)
    assert not reasons(snapshot)
    assert overview_of(snapshot).up_to_date == 0
    assert wishes(snapshot) == {"w1": ""}, "the label stays as it is"


def test_an_unknown_control_plane_makes_kubelets_unknown() -> None:
    assert is_unknown(seen(settled_node(), triggers=["KubeletSkew"], control_plane=""))


@pytest.mark.parametrize(
    ("node", "os", "triggers"),
    [
        (settled_node(kernel="10.0.20348"), PLAIN, ["OSVersion", "OSRevision"]),
        (settled_node(kernel="gibberish"), PLAIN, ["OSRevision", "Request"]),
        (reserves(None), PLAIN, ["OSVersion"]),
    ],
)
def test_what_no_trigger_needs_may_be_unknown(
    node: Node, os: Mapping[str, Any], triggers: Sequence[str]
) -> None:
    assert not is_unknown(seen(node, os=os, triggers=triggers, more=RESERVED))


def test_a_node_that_is_due_is_due_whatever_is_unknown() -> None:
    node = settled_node(kernel="gibberish", annotations={UPGRADE_REQUESTED_ANNOTATION: ""})
    snapshot = seen(node)
    assert set(reasons(snapshot)) == {"Request"}
    assert not overview_of(snapshot).unknown


def test_a_permission_does_not_outlast_what_is_known() -> None:
    assert wishes(seen(settled_node(kernel="", state="Required"))) == {"w1": "Gated"}


@pytest.mark.parametrize("state", ["UpToDate", "Gated"])
def test_any_other_label_stays_while_it_is_unknown(state: str) -> None:
    assert wishes(seen(settled_node(kernel="", state=state))) == {"w1": state}


def test_a_release_that_only_a_row_names_is_compared() -> None:
    more = {"supportMatrix": [{"osVersion": "2028", "build": "10.0.30000"}]}
    assert wishes(seen(settled_node(kernel="10.0.30000.1"), os={"version": "2028"}, more=more)) == {
        "w1": "UpToDate"
    }
    found = reasons(seen(settled_node(kernel="10.0.30000.1"), more=more))
    assert "This is a downgrade" in found["OSVersion"]


def test_nodes_that_are_alike_share_their_reasons() -> None:
    nodes = [settled_node(f"w{place}") for place in range(3)]
    nodes = [replace(each, versions=nodes[0].versions, memory=nodes[0].memory) for each in nodes]
    due = overview_of(upgrade_snapshot(upgrade_pool(), nodes)).due
    assert len({id(each.due) for each in due}) == 1


def test_the_kernel_of_a_release_is_that_of_the_data() -> None:
    assert not reasons(seen(settled_node(kernel=W2022)))
