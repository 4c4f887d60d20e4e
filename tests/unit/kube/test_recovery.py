"""After which trouble the reflector lists anew, and after which it goes on."""

from __future__ import annotations

import pytest

from winpool.kube.errors import (
    ApiError,
    CredentialsError,
    Forbidden,
    Gone,
    NotFound,
    StreamCut,
    StreamGarbled,
    StreamSilent,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from winpool.kube.watch import Recovery, recovery_after

GO_ON = Recovery(relist=False)
LIST = Recovery(relist=True)
LIST_AT_ONCE = Recovery(relist=True, pause=False)


@pytest.mark.parametrize(
    ("error", "first", "again"),
    [
        (Gone("410", status=410), LIST_AT_ONCE, LIST),
        (StreamSilent("silent"), LIST, LIST),
        (TooLarge("4 MiB"), LIST, LIST),
        (StreamCut("cut"), GO_ON, GO_ON),
        (StreamGarbled("garbage"), GO_ON, LIST),
        (Unavailable("refused"), GO_ON, GO_ON),
        (Unavailable("503", status=503), GO_ON, GO_ON),
        (TooManyRequests("429", status=429), GO_ON, GO_ON),
        (Unauthorized("401", status=401), GO_ON, GO_ON),
        (Forbidden("403", status=403), GO_ON, GO_ON),
        (CredentialsError("no token"), GO_ON, GO_ON),
        (NotFound("404", status=404), GO_ON, GO_ON),
    ],
)
def test_what_is_done(error: ApiError, first: Recovery, again: Recovery) -> None:
    assert recovery_after(error, progressed=True, expired_before=True) == first
    assert recovery_after(error, progressed=False, expired_before=True) == again


def test_the_first_410_after_an_outage_does_not_wait() -> None:
    assert recovery_after(Gone("410"), progressed=False, expired_before=False) == LIST_AT_ONCE
