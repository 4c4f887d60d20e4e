"""Which failure of one node's patch ends the work for all."""

from __future__ import annotations

import pytest

from harness.builders import a_node
from winpool.cluster.errors import (
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    Permission,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from winpool.control.executor import INTERNAL_ERRORS, Outcome
from winpool.snapshot import NodePatch

PATCH = NodePatch(node=a_node(), labels={"a": "b"}, annotations={}, taints=None)
INTERNAL = Unavailable("500 failed calling webhook", status=500)


def by_rbac() -> Forbidden:
    error = Forbidden("403", status=403)
    error.permission = Permission(user="u", verb="patch", resource="nodes", group="", namespace=None)
    return error


@pytest.mark.parametrize(
    "error",
    [
        Conflict("409", status=409),
        NotFound("404", status=404),
        Invalid("422", status=422),
        Forbidden("403 denied by a policy", status=403),
        INTERNAL,
    ],
    ids=str,
)
def test_a_failure_of_one_node_stops_nobody_else(error: ApiError) -> None:
    assert not Outcome().concludes(error)


@pytest.mark.parametrize(
    "error",
    [
        by_rbac(),
        Unauthorized("401", status=401),
        TooManyRequests("429", status=429),
        Unavailable("503", status=503),
        Unavailable("no connection"),
    ],
    ids=str,
)
def test_a_failure_of_the_cluster_ends_the_work_for_all(error: ApiError) -> None:
    assert Outcome().concludes(error)


def test_several_internal_errors_and_no_success_are_of_the_cluster() -> None:
    outcome = Outcome()
    for _ in range(INTERNAL_ERRORS - 1):
        assert not outcome.concludes(INTERNAL)
        outcome.stopped.append((PATCH, INTERNAL))
    assert outcome.concludes(INTERNAL)


def test_internal_errors_beside_a_success_are_of_their_nodes() -> None:
    outcome = Outcome(written=[PATCH], stopped=[(PATCH, INTERNAL)] * 10)
    assert not outcome.concludes(INTERNAL)
