"""Whether a request to a kubelet is admitted, as far as the faults of the node let it be asked."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from testbed.winsim.endpoint.access import api_verb, subresources
from testbed.winsim.endpoint.faults import is_kind
from testbed.winsim.endpoint.reviews import RefusedError, User, forbidden
from testbed.winsim.nodestatus import minor_of

if TYPE_CHECKING:
    from aiohttp import web

    from testbed.winsim.endpoint.faults import Fault
    from testbed.winsim.endpoint.reviews import Reviews
    from testbed.winsim.machines import Machine

_BEARER: Final = "bearer "
_AUTHENTICATED: Final = "system:authenticated"


async def admit(request: web.BaseRequest, *, machine: Machine, fault: Fault | None, reviews: Reviews) -> None:
    """Return where the one who asks may do so.

    Raises:
        RefusedError: he may not, or it cannot be found out; with the words of a kubelet.

    """
    if is_kind(fault, "unauthorized"):
        raise RefusedError(HTTPStatus.UNAUTHORIZED, "Unauthorized")
    asked = subresources(request.path, minor=minor_of(machine))
    verb = api_verb(request.method)
    if is_kind(fault, "forbidden"):
        raise forbidden("somebody", verb=verb, subresources=asked)
    given = request.headers.get("Authorization", "")
    token = given[len(_BEARER) :].strip() if given.lower().startswith(_BEARER) else None
    user = _by_certificate(request)
    await reviews.admit(machine.name, user=user, token=token, verb=verb, subresources=asked)


def _by_certificate(request: web.BaseRequest) -> User | None:
    """Return who shows a client certificate: the common name is the user, the organizations are the groups.

    As ``CommonNameUserConversion`` in ``apiserver/pkg/authentication/request/x509`` at v1.37.1.
    """
    shown = request.get_extra_info("peercert") or {}
    named = [pair for part in shown.get("subject", ()) for pair in part]
    names = [value for key, value in named if key == "commonName"]
    groups = [value for key, value in named if key == "organizationName"]
    return User(username=names[0], groups=(*groups, _AUTHENTICATED)) if names else None
