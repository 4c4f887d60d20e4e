"""A pool as the API server gives it, and what becomes of one that cannot be read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.builders import A_SPEC, NOON, a_body, a_snapshot
from winpool.api.spec import Mode
from winpool.decide import decide
from winpool.model.pool import read_pool


def test_a_pool_is_read_as_the_api_server_gives_it() -> None:
    body = a_body(version=7, generation=3, finalizers=["winpool.dev/release-nodes"])
    pool = read_pool(body | {"status": {"observedGeneration": 2, "nodes": 4}})
    assert (pool.name, pool.uid, pool.resource_version, pool.generation) == ("pool", "uid-of-pool", "7", 3)
    assert pool.created == datetime(2026, 11, 1, 12, tzinfo=UTC)
    assert (pool.deleting, pool.finalizers) == (False, ("winpool.dev/release-nodes",))
    assert pool.spec is not None
    assert (pool.spec.mode, pool.spec.os.version, pool.refusal) == (Mode.ACTIVE, "2022", "")
    assert (pool.status.observed_generation, pool.status.nodes) == (2, 4)
    assert pool.written_status == {"observedGeneration": 2, "nodes": 4}


def test_a_pool_under_deletion_is_read_as_such() -> None:
    assert read_pool(a_body(deletionTimestamp="2026-11-01T13:00:00Z")).deleting


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ({}, "spec.nodeSelector"),
        (A_SPEC | {"os": {"version": "XP"}}, "spec.os.version"),
        (A_SPEC | {"labels": {"kubernetes.io/os": "linux"}}, "spec.labels"),
        (A_SPEC | {"taints": [{"key": "a", "effect": "NoRun"}]}, "spec.taints[0].effect"),
        (A_SPEC | {"nodeSelector": {}}, "spec.nodeSelector"),
        (A_SPEC | {"mode": "Berserk"}, "spec.mode"),
        (A_SPEC | {"labels": ["team"]}, "spec.labels"),
        (None, "spec"),
        ("spec", "spec"),
    ],
)
def test_a_spec_that_cannot_be_read_becomes_a_refusal_that_names_the_field(spec: Any, word: str) -> None:
    pool = read_pool(a_body(version=7, finalizers=["winpool.dev/release-nodes"]) | {"spec": spec})
    assert pool.spec is None
    assert word in pool.refusal
    assert (pool.name, pool.uid, pool.resource_version) == ("pool", "uid-of-pool", "7")
    assert pool.finalizers == ("winpool.dev/release-nodes",)


@pytest.mark.parametrize("status", [None, {}, {"observedGeneration": "x"}, {"conditions": 3}, "broken", []])
def test_a_status_that_cannot_be_read_counts_as_not_yet_written(status: Any) -> None:
    pool = read_pool(a_body() | {"status": status})
    assert pool.spec is not None
    assert pool.status.observed_generation == -1


MOMENTS = st.datetimes().map(datetime.isoformat) | st.just("9999-12-31T23:59:59")
CONDITION = {"type": "Ready", "status": "True", "observedGeneration": 1, "reason": "R", "message": ""}
OFFSETS = st.sampled_from(["Z", "+14:00", "-14:00", "+00:00"])


@given(time=MOMENTS, offset=OFFSETS)
@example(time="0001-01-01T00:00:00", offset="+14:00")
@example(time="9999-12-31T23:59:59", offset="-14:00")
def test_whatever_time_stands_in_a_status_the_pool_is_read_and_can_be_decided(time: str, offset: str) -> None:
    said = f"{time}{offset}"
    issue = {"reason": "PodListFailing", "since": said, "nodeCount": 1, "message": "m", "fix": "f"}
    condition = CONDITION | {"lastTransitionTime": said}
    status = {"observedGeneration": 1, "issues": [issue], "conditions": [condition]}
    pool = read_pool(a_body() | {"status": status})
    assert pool.spec is not None
    assert not pool.refusal
    assert not pool.status_problem or "must be a time" in pool.status_problem
    found = decide(a_snapshot(pool, [])).status
    assert all(each.since <= NOON for each in found.issues)
    assert not read_pool(a_body() | {"status": found.to_object()}).status_problem


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_status_with_a_time_that_has_no_form_in_utc_cannot_be_read(time: str) -> None:
    issue = {"reason": "PodListFailing", "since": time, "nodeCount": 1, "message": "m", "fix": "f"}
    pool = read_pool(a_body() | {"status": {"issues": [issue]}})
    assert pool.spec is not None
    assert "status.issues[0].since" in pool.status_problem


def test_the_first_year_is_written_with_four_digits() -> None:
    written = {"conditions": [CONDITION | {"lastTransitionTime": "0001-01-01T00:00:00Z"}]}
    [found] = read_pool(a_body() | {"status": written}).status.to_object()["conditions"]
    assert found["lastTransitionTime"] == "0001-01-01T00:00:00Z"
