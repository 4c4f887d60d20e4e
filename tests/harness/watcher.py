"""An independent witness: a kubectl watch, under another identity than the operator's."""

from __future__ import annotations

import itertools
import json
import subprocess
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self

from harness.waiting import eventually
from testbed.cluster import Testbed

Object = dict[str, Any]


class Watcher:
    """Records every state of every object that the API server reports while it is open.

    Args:
        testbed: whose API server.
        what: arguments of ``kubectl get`` that name the objects, all of one kind.

    """

    def __init__(self, testbed: Testbed, *what: str) -> None:
        self._command = [
            str(testbed.kubectl_path), "--kubeconfig", str(testbed.kubeconfig("admin")),
            "get", *what, "--watch", "--output-watch-events", "-o", "json",
        ]  # fmt: skip
        self.states: dict[str, list[Object]] = {}
        """The objects by name, in the order in which they were reported; the first is the start."""
        self.deletions: set[tuple[str, int]] = set()
        """Names of objects that were deleted, and their version by then."""
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        eventually(lambda: self.states, what="the watch has begun")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(timeout=10)
        self._thread.join(timeout=10)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def catch_up(self, objects: Iterable[Object]) -> None:
        """Return when every one of these objects, read just now, or a later state of it was reported."""
        wanted = {each["metadata"]["name"]: version_of(each) for each in objects}

        def reported() -> bool:
            with self._lock:
                return all(
                    name in self.states and version_of(self.states[name][-1]) >= version
                    for name, version in wanted.items()
                )

        eventually(reported, what="the watch has caught up")

    def changes(self, *path: str) -> dict[str, int]:
        """Return how often the value at ``path`` (such as "metadata", "labels") changed, by name."""
        return self.changes_of(lambda seen: _at(seen, path))

    def changes_of(self, part: Callable[[Object], object]) -> dict[str, int]:
        """Return how often what ``part`` reads of an object changed, by name."""
        with self._lock:
            return {
                name: sum(part(a) != part(b) for a, b in itertools.pairwise(seen))
                for name, seen in self.states.items()
            }

    def at(self, name: str, version: int) -> Object:
        """Return the object as it was when the cluster was at ``version`` (see ``version_of``)."""
        with self._lock:
            return [each for each in self.states[name] if version_of(each) <= version][-1]

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:  # one event a line
            event = json.loads(line)
            seen: Object = event["object"]
            with self._lock:
                if event["type"] == "DELETED":
                    self.deletions.add((seen["metadata"]["name"], version_of(seen)))
                self.states.setdefault(seen["metadata"]["name"], []).append(seen)


def version_of(seen: Object) -> int:
    """Return when this state was stored, in a count that all kinds share.

    resourceVersion is the revision of the one etcd that holds all objects, so two states of objects of
    different kinds can be told apart by age. That is true of the testbed, not of every API server.
    """
    return int(seen["metadata"]["resourceVersion"])


def _at(value: Any, path: tuple[str, ...]) -> object:
    for key in path:
        value = value.get(key, {})
    return value
