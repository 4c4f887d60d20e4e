"""Requests to the API server as somebody else: a kubelet, or who a token says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Self
from urllib.parse import quote

import urllib3

from testbed.cluster import Testbed
from testbed.winsim.identities import node_identity

Object = dict[str, Any]

MERGE_PATCH: Final = "application/merge-patch+json"
ANSWER_SECONDS: Final = 60.0
TRIES_AGAIN: Final = 1
"""A connection that was idle for long may have been closed by the API server; what a new one says, stands."""


class Caller:
    """One connection to the API server on which all requests are made by one identity; close it."""

    def __init__(
        self, testbed: Testbed, headers: Mapping[str, str], *, client: tuple[Any, Any] | None = None
    ) -> None:
        self._headers = dict(headers)
        certificate, key = client or (None, None)
        self._connection = urllib3.connection_from_url(
            testbed.server,
            maxsize=1,
            block=True,
            ca_certs=str(testbed.ca_file),
            cert_file=certificate and str(certificate),
            key_file=key and str(key),
            timeout=ANSWER_SECONDS,
            retries=urllib3.Retry(TRIES_AGAIN, redirect=False, status=0, allowed_methods=None),
        )

    @classmethod
    def named(cls, testbed: Testbed, user: str, *groups: str, extra: Mapping[str, str] | None = None) -> Self:
        """Return somebody that the front proxy vouches for, with at most one group."""
        more = {f"X-Remote-Extra-{quote(key, safe='')}": value for key, value in (extra or {}).items()}
        headers = {"X-Remote-User": user, "X-Remote-Group": ",".join(groups), **more}
        return cls(testbed, headers, client=testbed.front_proxy)

    @classmethod
    def kubelet(cls, testbed: Testbed, node: str) -> Self:
        """Return the kubelet of a node, as the simulated nodes are: Node authorizer, NodeRestriction."""
        return cls(testbed, node_identity(node).headers, client=testbed.front_proxy)

    @classmethod
    def bearer(cls, testbed: Testbed, token: str) -> Self:
        """Return whoever the token says."""
        return cls(testbed, {"Authorization": f"Bearer {token}"})

    def ask(
        self, method: str, path: str, body: Object | None = None, *, kind: str = "application/json"
    ) -> tuple[int, Object]:
        """Send a request; return status and answer."""
        answer = self._sent(method, path, body, kind)
        found: Object = answer.json()
        return answer.status, found

    def status(
        self, method: str, path: str, body: Object | None = None, *, kind: str = "application/json"
    ) -> int:
        """Send a request; return its status, whatever is answered."""
        return self._sent(method, path, body, kind).status

    def _sent(self, method: str, path: str, body: Object | None, kind: str) -> urllib3.BaseHTTPResponse:
        text = None if body is None else json.dumps(body)
        return self._connection.request(
            method, path, body=text, headers={**self._headers, "Content-Type": kind}
        )

    def patch(self, path: str, body: Object) -> tuple[int, Object]:
        """Send a merge patch."""
        return self.ask("PATCH", path, body, kind=MERGE_PATCH)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
