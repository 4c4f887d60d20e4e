"""A witness of every eviction that the operator asks for, who can also keep it waiting or refuse it.

The audit log has no bodies of requests, and so neither the UID nor the grace that an eviction names. This is
a validating webhook of the real API server: it is asked before anything is done to the pod.
"""

from __future__ import annotations

import base64
import json
import secrets
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, Self

from harness.asking import CLUSTER_SCOPED
from harness.gate import WEBHOOKS
from harness.nodes import annotations_of
from harness.operator import USER
from harness.waiting import eventually
from testbed.api import ApiError
from testbed.cluster import Testbed
from testbed.pki import Pki
from winpool.api.keys import MEMORY_ANNOTATION

Object = dict[str, Any]

NODES: Final = CLUSTER_SCOPED["nodes"]
PROBE: Final = "no-such-pod"


@dataclass(frozen=True, slots=True)
class Eviction:
    """One request, and what stood in the cluster at that moment.

    ``uid`` and ``grace`` are those that the request names, None where it names none; ``pod_uid`` is that of
    the pod of this name. ``intents`` is the annotation ``winpool.dev/memory`` of the pod's node, empty for
    none. ``ending`` are the UIDs of the pods of that node that have been told to end.
    """

    namespace: str
    pod: str
    pod_uid: str
    node: str
    uid: str | None
    grace: int | None
    intents: str
    ending: frozenset[str]


class Evictions:
    """Sees all evictions by the operator while it is open as a context.

    Args:
        testbed: whose API server.
        admit: says whether an eviction may go on; it may wait, for 30 s at most. All may by default.

    """

    def __init__(self, testbed: Testbed, *, admit: Callable[[Eviction], bool] = lambda _: True) -> None:
        self._testbed = testbed
        self._admit = admit
        self._name = f"evictions-{secrets.token_hex(3)}.example.com"
        self._probes = 0
        self.seen: list[Eviction] = []
        """All, in the order in which they were asked for, also those that were refused."""
        self.admitted: list[Eviction] = []

    def of(self, *nodes: str) -> list[Eviction]:
        """Return those of pods of these nodes."""
        return [each for each in self.seen if each.node in nodes]

    def __enter__(self) -> Self:
        witness = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                request = asked["request"]
                answer = {"uid": request["uid"], "allowed": witness._take(request)}
                body = json.dumps({**asked, "request": None, "response": answer}).encode()
                with suppress(OSError):  # nobody waits any more: the operator was killed
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
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
        eventually(self._is_asked, what="the API server asks about evictions")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._testbed.api().delete(f"{WEBHOOKS}/{self._name}")
        eventually(lambda: not self._is_asked(), what="the API server asks about evictions no more")
        self._server.shutdown()
        self._thread.join(timeout=10)
        self._server.server_close()

    def _take(self, request: Object) -> bool:
        if request.get("dryRun"):
            self._probes += request["name"] == PROBE
            return True
        eviction = self._read(request)
        self.seen.append(eviction)
        if not self._admit(eviction):
            return False
        self.admitted.append(eviction)
        return True

    def _read(self, request: Object) -> Eviction:
        options = request["object"].get("deleteOptions") or {}
        api, where = self._testbed.api(), f"/api/v1/namespaces/{request['namespace']}/pods/{request['name']}"
        try:
            pod = api.get(where)
        except ApiError:
            pod = {"metadata": {"uid": ""}, "spec": {}}
        node = str(pod["spec"].get("nodeName", ""))
        intents = annotations_of(api.get(f"{NODES}/{node}")).get(MEMORY_ANNOTATION, "") if node else ""
        return Eviction(
            namespace=request["namespace"],
            pod=request["name"],
            pod_uid=pod["metadata"]["uid"],
            node=node,
            uid=(options.get("preconditions") or {}).get("uid"),
            grace=options.get("gracePeriodSeconds"),
            intents=intents,
            ending=self._ending(node) if node else frozenset(),
        )

    def _ending(self, node: str) -> frozenset[str]:
        found = self._testbed.api().get("/api/v1/pods", fieldSelector=f"spec.nodeName={node}")["items"]
        return frozenset(each["metadata"]["uid"] for each in found if "deletionTimestamp" in each["metadata"])

    def _is_asked(self) -> bool:
        before = self._probes
        about = {"name": PROBE, "namespace": "default"}
        probe = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": about}
        with suppress(ApiError):  # there is no such pod, which is found out after the webhook was asked
            self._testbed.api().create(
                f"/api/v1/namespaces/default/pods/{PROBE}/eviction", probe, dryRun="All"
            )
        return self._probes > before

    def _configuration(self) -> Object:
        rule = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["pods/eviction"],
        }
        webhook = {
            "name": self._name,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "timeoutSeconds": 30,
            "rules": [rule],
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
