"""The pool of a run: what both contenders put on every node."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

from bench.api import Api
from bench.errors import BenchError
from harness.wishes import Wanted
from winpool.api.keys import API_VERSION, KIND
from winpool.kube.pools import POOLS_PATH
from winpool.ownership.trust import RecordTrust

NAME: Final = "bench"
SELECTOR: Final = {"node.kubernetes.io/windows-build": "10.0.20348"}
"""A label that kubelets on Windows set themselves, so that no node needs another write to be selected."""
LABELS: Final = {"team": "payments", "example.com/cost-center": "4711", "example.com/tier": "batch"}
TAINTS: Final = ({"key": "os", "value": "windows", "effect": "NoSchedule"},)
RIGHTS: Final = RecordTrust(guard="0123456789abcdef")
"""The loader writes records as long as the operator's, which name the guard."""
EDITED_LABEL: Final = "example.com/tier"

POLL_SECONDS: Final = 0.2
"""Between two looks at the pool: 1 % of a core for API server and bench together."""

Object = dict[str, Any]


def manifest() -> Object:
    """Return the pool as it is applied: three labels and a taint, as comparable tools were tried with."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": NAME},
        "spec": {
            "nodeSelector": {"matchLabels": SELECTOR},
            "os": {"version": "2022"},
            "labels": LABELS,
            "taints": list(TAINTS),
        },
    }


def wanted(*, uid: str) -> Wanted:
    """Return the same for a pool of that UID, in the words of the operator's own contract."""
    return Wanted(
        pool_name=NAME,
        pool_uid=uid,
        labels=LABELS,
        taints={(taint["key"], taint["effect"]): taint["value"] for taint in TAINTS},
        rights=RIGHTS,
    )


class BenchPool:
    """The pool on the API server."""

    path: Final = f"{POOLS_PATH}/{quote(NAME)}"

    def __init__(self, api: Api, *, nodes: int, alive: Callable[[], None]) -> None:
        self._api = api
        self._nodes = nodes
        self._alive = alive
        # Five nodes a second: a busy machine and a slow operator are measured, not called broken.
        self._patience = 60.0 + nodes / 5

    def create(self) -> None:
        """Create the pool."""
        self._api.create(POOLS_PATH, manifest())

    def edit(self, value: str) -> None:
        """Give one label another value: every node needs one write."""
        self._api.patch(self.path, {"spec": {"labels": {EDITED_LABEL: value}}})

    def delete(self) -> None:
        """Delete the pool, and return when it is gone, with all that it had put on nodes."""
        self._api.delete(self.path)
        self._wait(lambda: self._api.find(self.path) is None, what="the pool to be gone")

    def wait_converged(self) -> None:
        """Return when the status tells of this spec, and that all nodes are as it says."""
        self._wait(self._is_converged, what="the pool to report all nodes up to date")

    def _is_converged(self) -> bool:
        pool = self._api.find(self.path) or {}
        status = pool.get("status", {})
        conditions = {each["type"]: each["status"] for each in status.get("conditions", ())}
        return (
            status.get("observedGeneration") == pool.get("metadata", {}).get("generation")
            and conditions.get("NodesUpToDate") == "True"
            and status.get("nodes") == status.get("upToDateNodes") == self._nodes
        )

    def _wait(self, check: Callable[[], bool], *, what: str) -> None:
        deadline = time.monotonic() + self._patience
        while not check():
            self._alive()
            if time.monotonic() > deadline:
                raise BenchError(f"waited {self._patience:.0f} s in vain for {what}")
            time.sleep(POLL_SECONDS)
