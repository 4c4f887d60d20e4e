"""A client of the API server that knows no better than HTTP, and the config maps that it writes."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Self

from testbed.cluster import Testbed

Object = dict[str, Any]

ROLE: Final = "fault-tester"
USER: Final = f"system:serviceaccount:faults:{ROLE}"
MAPS: Final = "/api/v1/namespaces/faults/configmaps"
GUARD_SECONDS: Final = 120.0
"""Against waiting for ever; every answer here comes within milliseconds."""
BROKEN: Final = (http.client.HTTPException, ConnectionError, ssl.SSLError)
"""What http.client raises where a connection is broken off."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as it came."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Object:
        parsed: Object = json.loads(self.body)
        return parsed


class Client:
    """One connection, kept alive, of somebody who knows no better than HTTP."""

    def __init__(self, server: str, *, tls: ssl.SSLContext, token: str) -> None:
        self._connection = http.client.HTTPSConnection(
            server.removeprefix("https://"), context=tls, timeout=GUARD_SECONDS
        )
        self._headers = {"Authorization": f"Bearer {token}", "User-Agent": "plain/1"}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    @property
    def local_port(self) -> int:
        """Port of our end: the same as long as the connection is."""
        port: int = self._connection.sock.getsockname()[1]
        return port

    def ask(
        self, method: str, path: str, *, body: Object | None = None, headers: dict[str, str] | None = None
    ) -> Answer:
        response = self._send(method, path, body=body, headers=headers or {})
        return Answer(response.status, response.headers, response.read())

    def get(self, path: str) -> Answer:
        return self.ask("GET", path)

    def patch(self, name: str, value: str) -> Answer:
        kind = {"Content-Type": "application/merge-patch+json"}
        return self.ask("PATCH", f"{MAPS}/{name}", body={"data": {"value": value}}, headers=kind)

    def create(self, name: str, **data: str) -> Answer:
        manifest = {"metadata": {"name": name}, "data": data}
        return self.ask("POST", MAPS, body=manifest, headers={"Content-Type": "application/json"})

    def watch(self, query: str = "") -> http.client.HTTPResponse:
        """Open a watch of our config maps; lines come by ``readline``."""
        response = self._send("GET", f"{MAPS}?watch=1{query}", body=None, headers={})
        assert response.status == 200
        return response

    def _send(
        self, method: str, path: str, *, body: Object | None, headers: dict[str, str]
    ) -> http.client.HTTPResponse:
        data = None if body is None else json.dumps(body)
        try:
            self._connection.request(method, path, body=data, headers={**self._headers, **headers})
            return self._connection.getresponse()
        except BROKEN:
            self._connection.close()  # and the next request makes it anew
            raise


MakeClient = Callable[[], Client]


def value_of(testbed: Testbed, name: str) -> str:
    path = "jsonpath={.data.value}"
    return testbed.kubectl("get", "configmap", name, "-n", "faults", "-o", path).stdout


def label(testbed: Testbed, name: str, text: str) -> None:
    testbed.kubectl("label", "configmap", name, "-n", "faults", f"step={text}", "--overwrite")


def read(watch: http.client.HTTPResponse) -> Object:
    """Return the next line of a watch, parsed."""
    line: Object = json.loads(watch.readline())
    return line


def step_of(seen: Object) -> tuple[str, str]:
    return seen["type"], seen["object"]["metadata"].get("labels", {}).get("step", "")
