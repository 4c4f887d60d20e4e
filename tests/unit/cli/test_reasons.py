"""Why the API server did not give what was asked for, and what to do: no code of HTTP by itself."""

from __future__ import annotations

import pytest

from winpool.cli.reasons import is_about, reason_of
from winpool.kube.errors import ApiError, CredentialsError, NotFound, TooManyRequests, Unavailable, error_of


def answered(status: int, body: str, *, request: str = "get windowsnodepools win") -> ApiError:
    return error_of(status=status, body=body.encode(), request=request)


MISSING = answered(
    404,
    '{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,'
    '"message":"windowsnodepools.winpool.dev \\"win\\" not found"}',
)
NO_KIND = answered(404, "404 page not found\n")
FORBIDDEN = answered(
    403,
    '{"kind":"Status","status":"Failure","reason":"Forbidden","code":403,"message":"windowsnodepools.'
    'winpool.dev \\"win\\" is forbidden: User \\"jane\\" cannot get resource \\"windowsnodepools\\" in '
    'API group \\"winpool.dev\\" at the cluster scope"}',
)


def test_a_missing_pool_is_told_from_a_missing_kind() -> None:
    assert isinstance(MISSING, NotFound)
    assert is_about(MISSING, "win")
    assert isinstance(NO_KIND, NotFound)
    assert not is_about(NO_KIND, "win")
    assert not is_about(MISSING, "wi")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (NO_KIND, "install the CRD with kubectl apply -k crds"),
        (FORBIDDEN, "jane may not get windowsnodepools.winpool.dev"),
        (FORBIDDEN, 'resources: ["windowsnodepools"]'),
        (answered(401, ""), "credentials"),
        (Unavailable("list nodes: cannot connect to 10.0.0.1:6443: refused"), "cannot be reached"),
        (Unavailable("list nodes: cannot connect to 10.0.0.1:6443: refused"), "connect to 10.0.0.1:6443"),
        (TooManyRequests("list nodes: 429 try again later"), "try again later"),
        (CredentialsError("no credentials: give --kubeconfig"), "no credentials: give --kubeconfig"),
    ],
)
def test_the_reason_says_what_is_wrong(error: ApiError, said: str) -> None:
    told = reason_of(error)
    assert said in told
    assert "404" not in told
    assert "\n" not in told


def test_what_was_asked_of_the_server_is_left_out_since_nobody_typed_it() -> None:
    for request in ("get windowsnodepools win", "list nodes", "create windowsnodepools"):
        told = reason_of(answered(500, "etcd is down", request=request))
        assert request not in told
        assert "etcd is down" in told
