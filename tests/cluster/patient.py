"""A kubelet that watches its own Node and forges its record the moment it learns the name of a guard."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

import yaml

from cluster.forging import guard_of
from harness.world import World
from winpool.api.keys import APPLIED_ANNOTATION

Object = dict[str, Any]

EVERY_SECONDS: Final = 0.01
"""Between two looks; an API server takes a policy up within seconds."""
TIMEOUT_SECONDS: Final = 10.0
"""For each request: a guard only."""
MERGE_PATCH: Final = {"Content-Type": "application/merge-patch+json"}


class PatientKubelet:
    """Asks in a thread of its own, with the certificate of the kubelet, while it is open.

    Args:
        world: whose cluster.
        node: whose kubelet.
        forge: makes the record that it writes, of the name of the guard.

    """

    def __init__(self, world: World, node: str, *, forge: Callable[[str], str]) -> None:
        self.tries = 0
        """How often it has written, or was refused."""
        self._path = f"/api/v1/nodes/{node}"
        self._forge = forge
        self._kubeconfig = world.testbed.user_kubeconfig(f"system:node:{node}", groups=["system:nodes"])
        self._over = threading.Event()
        self._failures: list[BaseException] = []

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._work)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(timeout=60)
        assert self._failures == []

    def _work(self) -> None:
        try:
            with _Connection(self._kubeconfig) as server:
                while not self._over.wait(EVERY_SECONDS):
                    self._try(server)
        except BaseException as error:  # noqa: BLE001 - raised again by __exit__, in the thread of the test
            self._failures.append(error)

    def _try(self, server: _Connection) -> None:
        _, node = server.ask("GET", self._path)
        has_record = APPLIED_ANNOTATION in node["metadata"].get("annotations", {})
        if has_record and (guard := guard_of(node)):
            patch = {"metadata": {"annotations": {APPLIED_ANNOTATION: self._forge(guard)}}}
            code, _ = server.ask("PATCH", self._path, patch)
            assert code in {200, 403}, code
            self.tries += 1


class _Connection:
    """A connection that is kept, since a new kubectl for each look would come too late."""

    def __init__(self, kubeconfig: Path) -> None:
        parsed = yaml.safe_load(kubeconfig.read_text())
        cluster, user = parsed["clusters"][0]["cluster"], parsed["users"][0]["user"]
        context = ssl.create_default_context(cafile=cluster["certificate-authority"])
        context.load_cert_chain(user["client-certificate"], user["client-key"])
        server = urlsplit(cluster["server"])
        assert server.hostname
        self._http = http.client.HTTPSConnection(
            server.hostname, server.port, context=context, timeout=TIMEOUT_SECONDS
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def ask(self, method: str, path: str, body: Object | None = None) -> tuple[int, Object]:
        """Return the status and the answer."""
        content = json.dumps(body) if body else None
        self._http.request(method, path, content, MERGE_PATCH if body else {})
        with self._http.getresponse() as answer:
            return answer.status, json.loads(answer.read())
