"""Stops the operator between two writes: the API server lets so many pass and holds the next ones.

A kill by the clock hits the middle of a burst by luck only, since many PATCHes are under way at once.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Final, Self

from harness.asking import CLUSTER_SCOPED
from harness.webhook import Webhook
from testbed.cluster import Testbed

NODES: Final = CLUSTER_SCOPED["nodes"]


class WriteGate:
    """While it is open as a context, ``passes`` writes to nodes by the operator pass; all others wait.

    What is held when the context ends is refused; what comes later passes.

    Args:
        testbed: whose API server.
        passes: how many writes pass.
        node: name of any node, to see by a dry run whether the API server asks already.

    """

    def __init__(self, testbed: Testbed, *, passes: int, node: str) -> None:
        self._testbed = testbed
        self._passes = passes
        self._node = node
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._webhook = Webhook(
            testbed,
            name="gate",
            operation="UPDATE",
            resource="nodes",
            admit=self._admit,
            probe=self._probe,
            at_end=self._over.set,
        )
        self.held: set[str] = set()
        """Nodes whose writes wait, or have waited."""

    def __enter__(self) -> Self:
        self._webhook.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._webhook.__exit__(kind, error, trace)

    def _admit(self, request: dict[str, Any]) -> bool:
        with self._lock:
            if self._over.is_set():
                return True
            if self._passes > 0:
                self._passes -= 1
                return True
            self.held.add(request["name"])
        self._over.wait()
        return False

    def _probe(self) -> None:
        probe = {"metadata": {"annotations": {"example.com/probe": "1"}}}
        self._testbed.api().merge(f"{NODES}/{self._node}", probe, dryRun="All")
