"""A pool may name a data source that the operator's settings do not have: it is told which there are."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from harness.builders import a_node, a_pool, a_snapshot
from winpool.decide import decide
from winpool.model.pressure import KnownMemory

SOURCES = {
    "sources": [{"type": "Kubelet"}, {"type": "Prometheus", "prometheus": {"dataSource": "main"}}],
}


def accepted(known: frozenset[str] | None) -> tuple[str, str]:
    """Return status and message of Accepted."""
    pool = a_pool(more={"memoryPressure": SOURCES})
    snapshot = replace(a_snapshot(pool, [a_node("w1")]), memory=KnownMemory(data_sources=known))
    found = decide(snapshot).status.condition("Accepted")
    assert found is not None
    return found.status, found.message


@pytest.mark.parametrize("known", [frozenset({"main"}), frozenset({"main", "other"}), None])
def test_a_data_source_that_is_there_or_may_be_is_no_reason_to_refuse(known: frozenset[str] | None) -> None:
    assert accepted(known)[0] == "True"


def test_a_data_source_that_is_not_there_is_named_with_those_that_are() -> None:
    status, message = accepted(frozenset({"west", "east"}))
    assert status == "False"
    assert message == (
        "spec.memoryPressure.sources: the operator's settings have no data source main. They have east, "
        "west. Use one of those, or add it to the file of --data-sources-file."
    )


def test_without_any_data_source_there_is_none_to_use() -> None:
    _, message = accepted(frozenset())
    assert message.endswith("no data source main. Add it to the file of --data-sources-file.")
