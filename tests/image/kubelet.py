"""Linux nodes whose Pods are containers of an image that was built here. It plays kubelet for one Deployment.

It runs the template as the API server has it: the image by its name, arguments, variables, user, read-only
root, no capabilities, volumes with a token that is bound to the Pod. It asks the probes over HTTP in their
periods, and reports a Pod Ready only once its readiness probe has passed.

When a Pod is deleted, it ends the container by SIGTERM.

It pulls no image, restarts no container, and sets no cgroup limits and no seccomp profile. The
containers share the network of the machine: each listens on a loopback address of its own, which WINPOOL_HOST
tells it, and reaches the API server where that listens instead of through a Service.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from image.building import Image
from image.pods import RunningPod
from testbed.cluster import Testbed

HOSTS: Final = {"host-1": "127.0.1.1", "host-2": "127.0.1.2"}
"""Two, as two replicas need, by their addresses."""
LOOK_SECONDS: Final = 0.2
END_SECONDS: Final = 60.0
"""Guard: the operator ends within two seconds of SIGTERM."""


class Kubelet:
    """Registers the hosts, and runs what is scheduled to them; use it with ``with``.

    ``images`` are those that are on the hosts, by name. ``faults`` says what a kubelet would have to act on;
    after the first it does nothing more. ``ended`` has the exit codes of containers whose Pods were deleted.
    """

    def __init__(self, testbed: Testbed, *, images: Mapping[str, Image], directory: Path) -> None:
        self.faults: list[str] = []
        self.pods: dict[str, RunningPod] = {}
        self.ended: dict[str, int] = {}
        self._testbed = testbed
        self._images = images
        self._directory = directory
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        for name, address in HOSTS.items():
            self._testbed.api().create("/api/v1/nodes", a_host(name, address=address))
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()
        for pod in self.pods.values():
            pod.container.kill()

    def end_containers(self) -> dict[str, int]:
        """Send SIGTERM to all containers, and return their exit codes; nothing is probed any more."""
        self._stop()
        for pod in self.pods.values():
            pod.container.send_signal(signal.SIGTERM)
        return {pod.name: pod.container.wait(END_SECONDS) for pod in self.pods.values()}

    def _stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            try:
                self._look()
            except Exception as error:  # noqa: BLE001 - whatever it is, the test is to see it
                self.faults.append(f"{type(error).__name__}: {error}")
                return

    def _look(self) -> None:
        for pod in self._testbed.api().get("/api/v1/pods")["items"]:
            host = HOSTS.get(pod["spec"].get("nodeName", ""))
            uid = pod["metadata"]["uid"]
            if "deletionTimestamp" in pod["metadata"]:
                if uid in self.pods:
                    self._end(self.pods.pop(uid), pod)
            elif host is not None and uid not in self.pods:
                self._start(pod, host=host)
        for pod in self.pods.values():
            pod.look()

    def _end(self, running: RunningPod, pod: dict[str, Any]) -> None:
        running.container.send_signal(signal.SIGTERM)
        self.ended[running.name] = running.container.wait(END_SECONDS)
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        self._testbed.api().delete(path, gracePeriodSeconds="0")

    def _start(self, pod: dict[str, Any], *, host: str) -> None:
        [container] = pod["spec"]["containers"]
        image = self._images.get(container["image"])
        assert image is not None, f"no host has the image {container['image']}"
        self.pods[pod["metadata"]["uid"]] = RunningPod(
            self._testbed,
            pod,
            image=image,
            directory=self._directory,
            address=f"127.0.2.{len(self.pods) + len(self.ended) + 1}",
            host=host,
        )


def a_host(name: str, *, address: str) -> dict[str, Any]:
    """Return a Linux node as its kubelet registers it once it is Ready."""
    size = {"cpu": "2", "memory": "4Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/os": "linux", "kubernetes.io/hostname": name},
        },
        "status": {
            "capacity": size,
            "allocatable": size,
            "addresses": [{"type": "InternalIP", "address": address}],
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }
