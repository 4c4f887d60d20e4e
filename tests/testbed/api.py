"""Asks the API server over connections that are kept.

A kubectl for each question is a process of 88 MB that takes 0.1 s of CPU: too much for whoever asks ten
times a second. What people do is done by kubectl; what is waited for is asked here, and what tests put there
before they begin.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlencode

import msgspec
import urllib3
import yaml

from testbed.errors import TestbedError

Object = dict[str, Any]

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
KEPT: Final = 4
"""Connections, for as many threads as ask at the same time; a further one gets its own for one request."""
TIMEOUT_SECONDS: Final = 80.0
"""For one try. A guard only: two of them end before a test's own limit, as a kubectl does."""
TRIES_AGAIN: Final = 1
"""A connection that was kept is broken after the API server was killed; what a new one says, stands."""


class ApiError(TestbedError):
    """The API server said no; the text has the request and the reason, ``answer`` the whole Status."""

    def __init__(self, request: str, status: int, content: bytes) -> None:
        self.status = status
        self.answer = _status(content)
        super().__init__(f"{request}: {status} {self.answer['message']}")


class Api:
    """What the API server answers to one user, parsed.

    Many threads may ask at once. A request that may be repeated is, once, where its connection breaks.

    Args:
        kubeconfig: says where the API server is, and by which client certificate the user shows who he is.

    """

    def __init__(self, kubeconfig: Path) -> None:
        document = yaml.safe_load(kubeconfig.read_text())
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        self._pool = urllib3.connection_from_url(
            cluster["server"],
            maxsize=KEPT,
            ca_certs=cluster["certificate-authority"],
            cert_file=user["client-certificate"],
            key_file=user["client-key"],
            headers={"User-Agent": "testbed"},
            timeout=TIMEOUT_SECONDS,
            retries=urllib3.Retry(TRIES_AGAIN, redirect=False, raise_on_status=False),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()

    def get(self, path: str, **query: str) -> Object:
        """Read an object, or a list of them; ``query`` has such things as ``labelSelector``.

        Raises:
            ApiError: there is no such thing, or the user may not read it.
            TestbedError: the API server does not answer.

        """
        return self._ask("GET", path, query=query)

    def create(self, path: str, manifest: Mapping[str, Any], **query: str) -> Object:
        """Create an object of the collection at ``path`` and return it; raises like ``get``."""
        return self._ask("POST", path, query=query, body=manifest)

    def change(self, path: str, operations: Sequence[Mapping[str, Any]], **query: str) -> Object:
        """Carry out a JSON patch (RFC 6902) on an object and return what it is now; raises like ``get``."""
        return self._ask("PATCH", path, query=query, body=operations, kind=JSON_PATCH)

    def merge(self, path: str, patch: Mapping[str, Any], **query: str) -> Object:
        """Merge a patch into an object and return what it is now; raises like ``get``."""
        return self._ask("PATCH", path, query=query, body=patch, kind=MERGE_PATCH)

    def delete(self, path: str, **query: str) -> Object:
        """Ask for the deletion of an object, as kubectl does; raises like ``get``."""
        return self._ask("DELETE", path, query={"propagationPolicy": "Background", **query})

    def _ask(
        self, method: str, path: str, *, query: Mapping[str, str], body: object = None, kind: str = JSON
    ) -> Object:
        target = f"{path}?{urlencode(query)}" if query else path
        try:
            answer = self._pool.request(
                method,
                target,
                body=None if body is None else msgspec.json.encode(body),
                headers=None if body is None else {**self._pool.headers, "Content-Type": kind},
            )
        except urllib3.exceptions.HTTPError as error:
            raise TestbedError(f"{method} {target}: the API server does not answer: {error}") from error
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise ApiError(f"{method} {target}", answer.status, answer.data)
        parsed: Object = msgspec.json.decode(answer.data)
        return parsed


def _status(content: bytes) -> Object:
    """Return a Status as it was sent, or one that says what else the answer says."""
    try:
        status: Object = msgspec.json.decode(content)
        return {**status, "message": str(status["message"])}
    except (msgspec.DecodeError, KeyError, TypeError):
        return {"message": content.decode(errors="replace")[:1000]}
