"""An independent witness: a kubectl watch of nodes, under another identity than the operator's."""

from __future__ import annotations

import json
import subprocess
import threading
from types import TracebackType
from typing import Any, Self

from harness.waiting import eventually
from testbed.cluster import Testbed


class NodeWatcher:
    """Records every state of every node that the API server reports while it is open."""

    def __init__(self, testbed: Testbed, *, selector: str) -> None:
        self._command = [
            str(testbed.kubectl_path), "--kubeconfig", str(testbed.kubeconfig("admin")),
            "get", "nodes", "-l", selector, "--watch", "--output-watch-events", "-o", "json",
        ]  # fmt: skip
        self.states: dict[str, list[dict[str, Any]]] = {}
        """The objects of each node, in the order in which they were reported; the first is the start."""
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

    def changes(self, *path: str) -> dict[str, int]:
        """Return how often the value at ``path`` (such as "metadata", "labels") changed, by node."""
        with self._lock:
            return {
                name: sum(_at(a, path) != _at(b, path) for a, b in zip(seen, seen[1:], strict=False))
                for name, seen in self.states.items()
            }

    def _read(self) -> None:
        decoder, text = json.JSONDecoder(), ""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            text += line
            if line.rstrip() != "}":  # kubectl prints one indented object after the other
                continue
            event, _ = decoder.raw_decode(text)
            text = ""
            node = event["object"]
            with self._lock:
                self.states.setdefault(node["metadata"]["name"], []).append(node)


def _at(node: dict[str, Any], path: tuple[str, ...]) -> object:
    value: Any = node
    for key in path:
        value = value.get(key, {})
    return value
