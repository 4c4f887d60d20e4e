"""What the cluster holds, read once a second by one thread for all who wait for something in it."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from harness.world import World

Object = dict[str, Any]

EVERY_SECONDS: Final = 1.0
"""Between two views. Dozens wait for minutes each: with lists of their own they would load the API server."""
PATIENCE_SECONDS: Final = 60.0
"""For the next view, on a machine that is busy: a guard, not an expectation."""


@dataclass(frozen=True, slots=True)
class View:
    """Nodes and pools of a world by their names, and all pods by their UIDs, read after ``began``."""

    began: float
    nodes: Mapping[str, Object]
    pools: Mapping[str, Object]
    pods: Mapping[str, Object]


class Sight:
    """Looks while it is open as a context; any number of threads may wait for its views."""

    def __init__(self, world: World, *, every_seconds: float = EVERY_SECONDS) -> None:
        self._world = world
        self._every_seconds = every_seconds
        self._changed = threading.Condition()
        self._view: View | None = None
        self._last_seen: dict[str, float] = {}
        self._problem: Exception | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._live, name="sight")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def next(self) -> View:
        """Return a view that shows all that was done before this call."""
        asked = time.monotonic()
        with self._changed:
            self._changed.wait_for(
                lambda: self._problem or (self._view and self._view.began >= asked), timeout=PATIENCE_SECONDS
            )
            if self._problem is not None:
                raise self._problem
            view = self._view
        assert view is not None, "no view in time"
        assert view.began >= asked, "no new view in time"
        return view

    def last_seen(self, pod_uid: str) -> float:
        """Return when a pod was certainly still there, by ``time.monotonic``: it went after that."""
        with self._changed:
            return self._last_seen[pod_uid]

    def _live(self) -> None:
        while not self._over.is_set():
            try:
                view = self._look()
            except Exception as error:  # noqa: BLE001 - whoever waits raises it
                with self._changed:
                    self._problem = error
                    self._changed.notify_all()
                return
            with self._changed:
                self._view = view
                self._last_seen |= dict.fromkeys(view.pods, view.began)
                self._changed.notify_all()
            self._over.wait(max(0.0, view.began + self._every_seconds - time.monotonic()))

    def _look(self) -> View:
        began = time.monotonic()
        pods = self._world.testbed.api().get("/api/v1/namespaces/default/pods")["items"]
        return View(
            began,
            nodes=self._world.nodes(),
            pools=self._world.pools(),
            pods={each["metadata"]["uid"]: each for each in pods},
        )
