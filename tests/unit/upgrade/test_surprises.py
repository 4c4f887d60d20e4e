"""Surprises: what a machine did that no one had announced."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from harness.builders import NOON, taints_of
from harness.upgrade_feature import W2019, W2022, W2025, settled_node
from winpool.api.keys import OS_VERSION_LABEL, UPGRADE_REQUESTED_ANNOTATION
from winpool.features.upgrade.claims import DELETED_BY_AUTOSCALER
from winpool.features.upgrade.due import surprise_of
from winpool.model.node import Node, NodeVersions
from winpool.model.pool import Surprise, SurpriseKind


def node(*, boot: str = "1", uid: str = "uid", kernel: str = W2022, **more: Any) -> Node:
    return replace(settled_node(kernel=kernel, **more), boot_id=boot, uid=uid)


def seen(before: Node, after: Node) -> Surprise | None:
    return surprise_of(before, after, now=NOON)


def kind(before: Node, after: Node) -> SurpriseKind | None:
    found = seen(before, after)
    return found.kind if found else None


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (node(boot="2"), SurpriseKind.REBOOT),
        (node(boot="0"), SurpriseKind.REBOOT),
        (node(boot=""), None),
        (node(), None),
        (node(uid="other"), SurpriseKind.OS_CHANGE),
        (node(uid="other", boot="2"), SurpriseKind.OS_CHANGE),
        (node(kernel=W2025), SurpriseKind.OS_CHANGE),
        (node(kernel=W2025, boot="2"), SurpriseKind.OS_CHANGE),
        (node(kernel="10.0.20348.9999"), None),
        (node(kernel="10.0.20348.9999", boot="2"), SurpriseKind.REBOOT),
        (node(kernel="gibberish"), None),
        (node(kernel="", boot="2"), SurpriseKind.REBOOT),
    ],
)
def test_what_changed_says_what_has_happened(after: Node, expected: SurpriseKind | None) -> None:
    assert kind(node(), after) is expected


def test_a_first_boot_id_is_no_restart() -> None:
    assert kind(node(boot=""), node(boot="2")) is None


def test_a_surprise_is_about_the_node_as_it_is_now() -> None:
    found = seen(node(), node(uid="other", kernel=W2025))
    assert found == Surprise(
        SurpriseKind.OS_CHANGE,
        "w1",
        "other",
        NOON,
        "Windows was build 10.0.20348 before, and is build 10.0.26100 now.",
    )


def announced() -> list[Any]:
    return [
        pytest.param({"state": "Required"}, id="Required"),
        pytest.param({"annotations": {UPGRADE_REQUESTED_ANNOTATION: ""}}, id="requested"),
        pytest.param({"unschedulable": True}, id="cordoned"),
        *(pytest.param({"taints": taints_of(f"{key}:NoSchedule")}, id=key) for key in DELETED_BY_AUTOSCALER),
    ]


@pytest.mark.parametrize("how", announced())
@pytest.mark.parametrize("after", [node(boot="2"), node(uid="other"), node(kernel=W2025)])
def test_what_was_announced_before_is_no_surprise(how: dict[str, Any], after: Node) -> None:
    assert seen(node(**how), after) is None


@pytest.mark.parametrize("how", announced())
def test_what_comes_with_the_change_announces_nothing(how: dict[str, Any]) -> None:
    assert kind(node(), node(boot="2", **how)) is SurpriseKind.REBOOT


@pytest.mark.parametrize("state", ["Gated", "UpToDate"])
def test_other_labels_announce_nothing(state: str) -> None:
    assert kind(node(state=state), node(boot="2", state=state)) is SurpriseKind.REBOOT


def first_sight(**more: Any) -> Surprise | None:
    found = node(**more)
    return surprise_of(found, found, now=NOON)


@pytest.mark.parametrize(
    ("label", "kernel", "is_surprise"),
    [
        ("2022", W2025, True),
        ("2025", W2022, True),
        ("2022", W2022, False),
        ("2019", W2019, False),
        ("2028", W2022, False),
        ("", W2022, False),
        ("2022", "gibberish", False),
    ],
)
def test_at_first_sight_our_own_label_says_what_windows_was(
    label: str, kernel: str, *, is_surprise: bool
) -> None:
    found = first_sight(kernel=kernel, labels={OS_VERSION_LABEL: label})
    assert (found is not None) == is_surprise
    assert found is None or found.kind is SurpriseKind.OS_CHANGE


@pytest.mark.parametrize("how", announced())
def test_at_first_sight_an_announced_change_is_no_surprise(how: dict[str, Any]) -> None:
    labels = {OS_VERSION_LABEL: "2022"}
    assert first_sight(kernel=W2025, labels=labels, **how) is None


def test_a_label_that_has_not_followed_yet_is_no_surprise_later() -> None:
    """The change was seen and announced. Until the label is written, the two differ."""
    before = node(kernel=W2025, labels={OS_VERSION_LABEL: "2022"}, unschedulable=True)
    assert seen(before, replace(before, unschedulable=False)) is None


@pytest.mark.parametrize("kernel", ["10.0.0", "10.0.9999999999.9999999999", "1" * 1000, "10.0.20348.4052\n"])
def test_hostile_versions_raise_nothing(kernel: str) -> None:
    after = replace(node(), versions=NodeVersions(kernel=kernel))
    surprise_of(node(), after, now=NOON)
    surprise_of(after, after, now=NOON)
