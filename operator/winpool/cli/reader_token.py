"""The token with which /memory is read: of a ServiceAccount that may do nothing else.

The credentials of a person are never sent to the operator: it would get all rights of that person, and a
client certificate cannot be sent at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from winpool.api.keys import NAMESPACE
from winpool.cli.reasons import GARBLED, NotAskedError, reason_of
from winpool.kube.credentials import bearer
from winpool.kube.errors import ApiError, NotFound
from winpool.kube.request import Request
from winpool.kube.wire import BROKEN

if TYPE_CHECKING:
    from winpool.kube.client import Transport

READER: Final = "winpool-memory-reader"
"""The ServiceAccount, and the ClusterRole that permits it to get /memory."""

TOKEN_SECONDS: Final = 600
"""The shortest life that the API server gives a token. A watch gets a new one when it is over."""

_REQUEST: Final = Request(
    verb="create",
    resource="serviceaccounts/token",
    name=READER,
    path=f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{READER}/token",
    body=msgspec.json.encode(
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": TOKEN_SECONDS},
        }
    ),
)

_NO_READER: Final = (
    f"the operator requires a token, and there is no ServiceAccount {READER} in {NAMESPACE} to get one for: "
    "kubectl apply -k deploy creates it; or give a token with --token-file"
)


class _Status(msgspec.Struct):
    token: str


class _TokenRequest(msgspec.Struct):
    status: _Status


class ReaderToken:
    """Gets a token when the operator has asked for one: not every operator does.

    It is an ``Authorization`` of ``cluster.tokens``.
    """

    def __init__(self, transport: Transport) -> None:
        """Make one that asks the API server by ``transport``."""
        self._transport = transport
        self._header: str | None = None
        self._is_needed = False

    async def header(self, *, within: float | None = None) -> str | None:  # noqa: ARG002 - a request has its own limit
        """Return the header; None until the operator has answered that it requires one.

        Raises NotAskedError where there is no token.
        """
        if self._is_needed:
            self._header = await self._new()
            self._is_needed = False
        return self._header

    def reject(self, header: str | None) -> None:
        """Get a new token for the next request: this one has ended, or there was none."""
        if header == self._header:
            self._is_needed = True

    async def close(self) -> None:
        """Do nothing: the transport is not ours."""

    async def _new(self) -> str:
        try:
            answer = await self._transport.request(_REQUEST)
            found = msgspec.json.decode(answer, type=_TokenRequest).status.token
            return bearer(found, source="the answer to a TokenRequest")
        except NotFound:
            raise NotAskedError(_NO_READER) from None
        except ApiError as error:
            raise NotAskedError(f"the operator requires a token: {reason_of(error)}") from error
        except BROKEN:  # its own words could quote the token
            raise NotAskedError(GARBLED) from None
