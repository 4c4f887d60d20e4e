"""Which failure of one node's patch ends the work for all."""

from __future__ import annotations

import pytest

from harness.builders import a_node
from winpool.controllers.writes import INTERNAL_ERRORS, Outcome, is_of_one_object
from winpool.kube.errors import (
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
from winpool.model.node import NodePatch

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
    assert is_of_one_object(error)


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
    assert not is_of_one_object(error)


def test_many_internal_errors_and_no_success_halt_the_pass() -> None:
    assert not Outcome(internal_errors=INTERNAL_ERRORS - 1).is_halted
    assert Outcome(internal_errors=INTERNAL_ERRORS).is_halted


def test_internal_errors_beside_a_success_do_not() -> None:
    assert not Outcome(done=[PATCH], internal_errors=10 * INTERNAL_ERRORS).is_halted
