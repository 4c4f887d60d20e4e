"""A plain client of the API server for what the bench itself asks, under a name of its own."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

from bench.errors import BenchError
from testbed.cluster import Testbed

USER: Final = "winpool-bench"
"""Who the bench is in the audit log: neither the operator nor the loader."""

MERGE_PATCH: Final = "application/merge-patch+json"
SECONDS: Final = 60.0
"""For one answer: what the API server itself allows for a request."""

IDLE_SECONDS: Final = 60.0
"""A connection that nothing was asked on for so long is opened anew: after 90 s the API server closes it, and
the next request would find out only by failing."""

_NOT_FOUND: Final = 404
_FAILED_FROM: Final = 300

Object = dict[str, Any]


class Api:
    """One connection, kept open: far cheaper than a kubectl, so that looking disturbs little."""

    def __init__(self, testbed: Testbed) -> None:
        certificate, key = testbed.front_proxy
        context = ssl.create_default_context(cafile=str(testbed.ca_file))
        context.load_cert_chain(certificate, key)
        server = urlsplit(testbed.server)
        assert server.hostname is not None
        self._connection = http.client.HTTPSConnection(
            server.hostname, server.port, context=context, timeout=SECONDS
        )
        self._asked_at = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def get(self, path: str) -> bytes:
        """Return the body of an answer."""
        return self._request("GET", path) or b""

    def find(self, path: str) -> Object | None:
        """Return an object, or None where there is none."""
        body = self._request("GET", path, absent=True)
        return None if body is None else _parsed(body)

    def create(self, path: str, body: Object) -> Object:
        """Create an object and return it as it stands."""
        return _parsed(self._request("POST", path, body=body) or b"{}")

    def patch(self, path: str, body: Object) -> Object:
        """Merge-patch an object and return it as it stands."""
        return _parsed(self._request("PATCH", path, body=body, content_type=MERGE_PATCH) or b"{}")

    def delete(self, path: str) -> None:
        """Delete an object."""
        self._request("DELETE", path)

    def _request(
        self,
        method: str,
        path: str,
        *,
        body: Object | None = None,
        content_type: str = "application/json",
        absent: bool = False,
    ) -> bytes | None:
        headers = {
            "X-Remote-User": USER,
            "X-Remote-Group": "system:masters",
            "Accept": "application/json",
            "Content-Type": content_type,
        }
        data = None if body is None else json.dumps(body).encode()
        if time.monotonic() - self._asked_at > IDLE_SECONDS:
            self._connection.close()  # the request opens it anew
        self._asked_at = time.monotonic()
        try:
            self._connection.request(method, path, body=data, headers=headers)
            answer = self._connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()  # the next request opens it anew
            raise BenchError(f"{method} {path}: the API server does not answer: {error}") from error
        if absent and answer.status == _NOT_FOUND:
            return None
        if answer.status >= _FAILED_FROM:
            raise BenchError(f"{method} {path}: {answer.status} {content[:500].decode(errors='replace')}")
        return content


def _parsed(body: bytes) -> Object:
    parsed: Object = json.loads(body)
    return parsed
