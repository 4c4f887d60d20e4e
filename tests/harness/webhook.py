"""A validating webhook of the real API server, by which a test is asked about writes of a user.

The API server asks before anything is done, and waits for the answer. So a test sees each write with what it
names, and can keep it waiting or refuse it.
"""

from __future__ import annotations

import base64
import json
import secrets
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, Self

from harness.operator import USER
from harness.waiting import eventually
from testbed.cluster import Testbed
from testbed.pki import Pki

Object = dict[str, Any]

WEBHOOKS: Final = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


class Webhook:
    """Asked about writes of one user while it is open as a context.

    Args:
        testbed: whose API server.
        name: what the names of its objects begin with.
        operation: which writes: CREATE or UPDATE.
        resource: of which resource of the core group.
        admit: says whether a request of admission may go on. It may wait, for 30 s at most.
        probe: sends such a write as a dry run, to see whether the API server asks already. What becomes of
            it does not matter.
        at_end: called before the webhook is removed, to let go what waits.
        user: whose writes; the operator's by default.

    """

    def __init__(
        self,
        testbed: Testbed,
        *,
        name: str,
        operation: str,
        resource: str,
        admit: Callable[[Object], bool],
        probe: Callable[[], object],
        at_end: Callable[[], object] = lambda: None,
        user: str = USER,
    ) -> None:
        self._testbed = testbed
        self._name = f"{name}-{secrets.token_hex(3)}.example.com"
        self._operation = operation
        self._resource = resource
        self._admit = admit
        self._probe = probe
        self._at_end = at_end
        self._user = user
        self._probes = 0
        self.denial: Object = {}
        """What is said of what is denied: ``code``, ``reason`` and ``message`` of a meta/v1 Status."""

    def __enter__(self) -> Self:
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                request = asked["request"]
                is_admitted = webhook._is_admitted(request)
                denial = {} if is_admitted or not webhook.denial else {"status": webhook.denial}
                answer = {"uid": request["uid"], "allowed": is_admitted, **denial}
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
        self._testbed.api().create(WEBHOOKS, self._configuration())
        eventually(self._is_asked, what=f"the API server asks {self._name}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._at_end()
        self._testbed.api().delete(f"{WEBHOOKS}/{self._name}")
        eventually(lambda: not self._is_asked(), what=f"the API server asks {self._name} no more")
        self._server.shutdown()
        self._thread.join(timeout=10)
        self._server.server_close()

    def _is_admitted(self, request: Object) -> bool:
        if request.get("dryRun"):
            self._probes += 1
            return True
        return self._admit(request)

    def _is_asked(self) -> bool:
        before = self._probes
        self._probe()
        return self._probes > before

    def _configuration(self) -> Object:
        rule = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": [self._operation],
            "resources": [self._resource],
        }
        webhook = {
            "name": self._name,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "timeoutSeconds": 30,
            "rules": [rule],
            "matchConditions": [
                {
                    "name": "of-the-user",
                    "expression": f"request.dryRun || request.userInfo.username == '{self._user}'",
                }
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
