"""What tests on the cluster expect of Windows holds on any day: the operator gets rows that say so."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from harness.builders import SUPPORTED, a_node, a_pool, a_snapshot, with_cluster_rows
from harness.operator import LONG_SUPPORTED
from winpool.decide import decide
from winpool.support.matrix import built_in
from winpool.support.rows import Row, read_rows


@pytest.mark.parametrize(
    ("release", "build"),
    [("2019", "10.0.17763.1397"), ("2022", "10.0.20348.4052"), ("2025", "10.0.26100.32995")],
)
def test_a_release_that_ends_is_told_of_by_itself_and_not_with_the_rows_of_the_tests(
    release: str, build: str
) -> None:
    pool = a_pool(more={"os": {"version": release}})
    snapshot = a_snapshot(
        pool, [a_node(versions=replace(SUPPORTED, kernel=build))], now=datetime(2036, 1, 1, tzinfo=UTC)
    )
    rows = tuple(read_rows(LONG_SUPPORTED.read_text(), matrix=built_in()))

    def ends(cluster_rows: tuple[Row, ...]) -> list[str]:
        found = decide(with_cluster_rows(snapshot, *cluster_rows)).status.issues
        return [each.reason for each in found if each.reason.startswith("Support")]

    assert ends(()) == ["SupportEnded"]
    assert ends(rows) == []
