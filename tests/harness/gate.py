"""Stops the operator between two writes: the API server lets so many pass and holds the next ones.

A kill by the clock hits the middle of a burst by luck only, since many PATCHes are under way at once.
"""

from __future__ import annotations

import base64
import json
import secrets
import ssl
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, Self

from harness.asking import CLUSTER_SCOPED
from harness.operator import USER
from harness.waiting import eventually
from testbed.cluster import Testbed
from testbed.pki import Pki

Object = dict[str, Any]

NODES: Final = CLUSTER_SCOPED["nodes"]
WEBHOOKS: Final = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


class WriteGate:
    """While it is open as a context, ``passes`` writes to nodes by the operator pass; all others wait.

    It is a validating webhook of the real API server. What is held when the context ends is refused;
    what comes later passes.

    Args:
        testbed: whose API server.
        passes: how many writes pass.
        node: name of any node, to see by a dry run whether the API server asks already.

    """

    def __init__(self, testbed: Testbed, *, passes: int, node: str) -> None:
        self._testbed = testbed
        self._passes = passes
        self._node = node
        self._name = f"gate-{secrets.token_hex(3)}.example.com"
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._dry_runs = 0
        self.held: set[str] = set()
        """Nodes whose writes wait, or have waited."""

    def __enter__(self) -> Self:
        gate = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                answer = {"uid": asked["request"]["uid"], "allowed": gate._admit(asked["request"])}
                body = json.dumps({**asked, "request": None, "response": answer}).encode()
                with suppress(OSError):  # nobody waits any more: the operator was killed
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
                """Say nothing."""

        self._server = _Server(("127.0.0.1", 0), Handler)
        serving = Pki(self._testbed.layout.pki).serving
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(serving.certificate, serving.key)
        self._server.socket = tls.wrap_socket(
            self._server.socket,
            server_side=True,
            do_handshake_on_connect=False,  # each connection's own thread does it
        )
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self._testbed.kubectl("create", "-f", "-", stdin=json.dumps(self._configuration()))
        eventually(self._is_asked, what="the API server asks the gate")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._testbed.api().delete(f"{WEBHOOKS}/{self._name}")
        eventually(lambda: not self._is_asked(), what="the API server asks the gate no more")
        self._server.shutdown()
        self._thread.join(timeout=10)
        self._server.server_close()

    def _admit(self, request: Object) -> bool:
        with self._lock:
            if request.get("dryRun"):
                self._dry_runs += 1
                return True
            if self._over.is_set():
                return True
            if self._passes > 0:
                self._passes -= 1
                return True
            self.held.add(request["name"])
        self._over.wait()
        return False

    def _is_asked(self) -> bool:
        before = self._dry_runs
        probe = {"metadata": {"annotations": {"example.com/probe": "1"}}}
        self._testbed.api().merge(f"{NODES}/{self._node}", probe, dryRun="All")
        return self._dry_runs > before

    def _configuration(self) -> Object:
        webhook = {
            "name": self._name,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "timeoutSeconds": 30,
            "rules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes"]}
            ],
            "matchConditions": [
                {"name": "ours", "expression": f"request.dryRun || request.userInfo.username == '{USER}'"}
            ],
            "clientConfig": {
                "url": f"https://127.0.0.1:{self._server.server_address[1]}/",
                "caBundle": base64.b64encode(self._testbed.ca_file.read_bytes()).decode(),
            },
        }
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": self._name},
            "webhooks": [webhook],
        }


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # so that closing it waits for its threads
