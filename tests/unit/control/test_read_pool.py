"""A pool as the API server gives it, and what becomes of one that cannot be read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from harness.builders import A_SPEC, a_body
from winpool.api.v1alpha1 import Mode
from winpool.control.relist.pools import read_pool


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
