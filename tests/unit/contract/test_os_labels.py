"""The labels that tell a node's Windows: as they are read from what it reports, and ours alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from msgspec.structs import replace

from harness.assessing import assess
from harness.builders import NOON, a_node, a_pool, a_snapshot
from harness.ownership import conformed, released, wanting
from harness.strategies import nodes, os_labels, wishes
from harness.wishes import Own, Wanted, conform
from harness.writes import relabelled
from winpool.api.keys import OS_REVISION_LABEL, OS_VERSION_LABEL
from winpool.api.keys import TOLD_BY_THE_NODE as OS_LABELS
from winpool.model.node import Node, NodeVersions

KNOWN = {OS_VERSION_LABEL: "2022", OS_REVISION_LABEL: "4052"}


def told_by(kernel: str) -> dict[str, str]:
    """Return the labels that a pass puts on a node that reports this kernelVersion."""
    node = a_node(versions=NodeVersions(kernel, "v1.36.3", "containerd://2.3.0"))
    [assessed] = assess(a_snapshot(a_pool(), [node]))
    assert assessed.diff.patch is not None
    return {key: value for key, value in assessed.diff.patch.labels.items() if key in OS_LABELS and value}


@pytest.mark.parametrize(
    ("kernel", "version", "revision"),
    [
        ("10.0.20348.4052", "2022", "4052"),
        ("10.0.26100.32995", "2025", "32995"),
        ("10.0.25398.1", "23H2", "1"),
        ("10.0.20348", "2022", None),
        ("10.0.22631.5335", None, "5335"),
        ("garbage", None, None),
        ("", None, None),
    ],
)
def test_they_are_read_from_what_the_node_reports(
    kernel: str, version: str | None, revision: str | None
) -> None:
    wanted = {OS_VERSION_LABEL: version, OS_REVISION_LABEL: revision}
    assert told_by(kernel) == {key: value for key, value in wanted.items() if value}


def test_a_machine_that_was_patched_is_no_drift() -> None:
    node = conformed(a_node(), wanting({"team": "a"}), Own(KNOWN))
    found = conform(node, wanted=wanting({"team": "a"}), own=Own({**KNOWN, OS_REVISION_LABEL: "4100"}))
    assert found.patch is not None
    assert found.patch.labels == {OS_REVISION_LABEL: "4100"}
    assert found.patch.annotations == {}, "they are not in the record: nobody else may put them there"
    assert found.drifted == ()


@pytest.mark.parametrize("key", OS_LABELS)
def test_one_that_somebody_took_off_or_forged_is_put_right(key: str) -> None:
    node = conformed(a_node(), wanting(), Own(KNOWN))
    for theirs in (None, "1"):
        changed = relabelled(node, **{key: theirs})
        assert conformed(changed, wanting(), Own(KNOWN)) == node


def test_one_that_is_not_known_any_more_does_not_stay() -> None:
    node = conformed(a_node(), wanting(), Own(KNOWN))
    assert conformed(node, wanting()).labels.keys().isdisjoint(OS_LABELS)


@given(nodes(), wishes(), os_labels())
def test_they_come_off_with_everything_else(before: Node, wanted: Wanted, labels: dict[str, str]) -> None:
    node = conformed(before, wanted, Own(labels))
    assert {key: node.labels.get(key) for key in OS_LABELS} == {key: labels.get(key) for key in OS_LABELS}
    assert released(node, uid=wanted.pool_uid, name=wanted.pool_name) == before


def test_a_pass_after_the_end_of_a_day_judges_anew_without_a_change_of_the_node() -> None:
    node = a_node(versions=NodeVersions("10.0.20348.4052", "v1.36.3", "containerd://2.3.0"))
    verdicts = []
    for now in (NOON.replace(year=2031, month=10, day=14), NOON.replace(year=2031, month=10, day=15)):
        [assessed] = assess(replace(a_snapshot(a_pool(), [node]), now=now))
        assert assessed.found.judgement is not None
        verdicts.append({reason.code for reason in assessed.found.judgement.reasons} & {"SupportEnded"})
    assert verdicts == [set(), {"SupportEnded"}]
