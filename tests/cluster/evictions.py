"""A witness of every eviction that the operator asks for, who can also keep it waiting or refuse it.

The audit log has no bodies of requests, and so neither the UID nor the grace that an eviction names. This is
a validating webhook of the real API server: it is asked before anything is done to the pod.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from harness.asking import CLUSTER_SCOPED
from harness.nodes import annotations_of
from harness.webhook import Webhook
from testbed.api import ApiError
from testbed.cluster import Testbed
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
        self._webhook = Webhook(
            testbed,
            name="evictions",
            operation="CREATE",
            resource="pods/eviction",
            admit=self._take,
            probe=lambda: evict_nothing(testbed),
        )
        self.seen: list[Eviction] = []
        """All, in the order in which they were asked for, also those that were refused."""
        self.admitted: list[Eviction] = []

    def of(self, *nodes: str) -> list[Eviction]:
        """Return those of pods of these nodes."""
        return [each for each in self.seen if each.node in nodes]

    def __enter__(self) -> Self:
        self._webhook.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._webhook.__exit__(kind, error, trace)

    def _take(self, request: Object) -> bool:
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


def evict_nothing(testbed: Testbed) -> str:
    """Ask to evict a pod that is not there, which is found out after admission; return what is said."""
    about = {"name": PROBE, "namespace": "default"}
    probe = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": about}
    try:
        testbed.api().create(f"/api/v1/namespaces/default/pods/{PROBE}/eviction", probe, dryRun="All")
    except ApiError as error:
        return str(error)
    return ""
