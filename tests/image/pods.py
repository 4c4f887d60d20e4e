"""A Pod of the operator as a container: what a kubelet makes of its template, and what it reports of it."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from image.building import Image
from image.container import Container
from image.running import pod_environment, projected
from testbed.cluster import Testbed

Object = dict[str, Any]

KNOWN: Final = {"serviceAccountToken", "configMap", "downwardAPI"}

RESTRICTED: Final = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
"""What the containers of these tests always have; a template that asks for less is not run."""


class Probe:
    """A probe by HTTP: when it is due, and what it has found, as a kubelet judges it."""

    def __init__(
        self, asked: Mapping[str, Any], *, address: str, ports: Mapping[str, int], first: bool
    ) -> None:
        target = asked["httpGet"]
        self._target = f"{address}:{ports.get(target['port'], target['port'])}{target['path']}"
        self._asked = asked
        self._due = time.monotonic()
        self._row = 0
        self.passes = first

    def look(self) -> None:
        """Ask, if it is time for that."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + self._asked.get("periodSeconds", 10)
        if self._ask() is self.passes:
            self._row = 0
            return
        self._row += 1
        asked = self._asked
        if self._row >= (
            asked.get("failureThreshold", 3) if self.passes else asked.get("successThreshold", 1)
        ):
            self.passes, self._row = not self.passes, 0

    def _ask(self) -> bool:
        seconds = self._asked.get("timeoutSeconds", 1)
        try:
            with urllib.request.urlopen(f"http://{self._target}", timeout=seconds):
                return True
        except OSError:  # no answer, or one of 400 and more
            return False


class RunningPod:
    """One Pod with one container, which runs from the beginning on.

    ``address`` is its own on the loopback interface.
    """

    def __init__(
        self, testbed: Testbed, pod: Object, *, image: Image, directory: Path, address: str, host: str
    ) -> None:
        self.name: str = pod["metadata"]["name"]
        self._testbed = testbed
        self._pod = pod
        self._address = address
        self._host = host
        [template] = pod["spec"]["containers"]
        self._template = template
        assert "command" not in template
        self.log_file = directory / f"{self.name}.log"
        self.container = self._make(image, directory)
        with self.log_file.open("ab") as output:
            self.container.start(output)
        self._started = _now()
        ports = {each["name"]: each["containerPort"] for each in template["ports"]}
        self._ready = Probe(template["readinessProbe"], address=address, ports=ports, first=False)
        self._alive = Probe(template["livenessProbe"], address=address, ports=ports, first=True)
        self._reported: bool | None = None

    def look(self) -> None:
        """Probe it, and report what has changed.

        Raises AssertionError where it has ended, or a kubelet would restart it.
        """
        assert self.container.poll() is None, f"{self.name} has ended: {self.log_file.read_text()[-2000:]}"
        self._alive.look()
        assert self._alive.passes, f"{self.name} does not answer its liveness probe"
        self._ready.look()
        if self._ready.passes is not self._reported:
            self._report(ready=self._ready.passes)

    def _make(self, image: Image, directory: Path) -> Container:
        spec, template = self._pod["spec"], self._template
        context = spec["securityContext"]
        asked = {key: template["securityContext"].get(key) for key in RESTRICTED}
        assert asked == RESTRICTED, asked
        assert image.config["User"] == f"{context['runAsUser']}:{context['runAsGroup']}"
        assert context["fsGroup"] == context["runAsGroup"]
        volumes = {each["name"]: each for each in spec["volumes"]}
        mounts: dict[bool, dict[str, Path]] = {True: {}, False: {}}
        for mount in template["volumeMounts"]:
            folder = self._volume(volumes[mount["name"]], directory / f"{self.name}-{mount['name']}")
            mounts[mount.get("readOnly", False)][mount["mountPath"]] = folder
        return Container(
            image,
            directory=directory,
            arguments=[*image.config["Entrypoint"], *template.get("args", image.config["Cmd"])],
            environment={
                **{each["name"]: self._value(each) for each in template["env"]},
                **pod_environment(self._testbed),
                # All containers share the network of the machine, where each has an address of its own.
                "WINPOOL_HOST": self._address,
            },
            mounts=mounts[True],
            writable=mounts[False],
            hostname=self.name,
        )

    def _value(self, variable: Object) -> str:
        """Return the value of an environment variable, as a kubelet does."""
        if "value" in variable:
            return str(variable["value"])
        assert variable["valueFrom"]["fieldRef"]["fieldPath"] == "spec.nodeName"
        return str(self._pod["spec"]["nodeName"])

    def _volume(self, volume: Object, folder: Path) -> Path:
        if "emptyDir" in volume:
            folder.mkdir()
            folder.chmod(0o777)
            return folder
        asked = volume["projected"]
        files: dict[str, str] = {}
        for source in asked["sources"]:
            [(kind, found)] = source.items()
            assert kind in KNOWN, kind
            files |= self._files(kind, found)
        group = self._pod["spec"]["securityContext"]["fsGroup"]
        return projected(folder, files, mode=asked["defaultMode"], group=group)

    def _files(self, kind: str, source: Object) -> dict[str, str]:
        """Return the files of one source of a projected volume."""
        metadata, api = self._pod["metadata"], self._testbed.api()
        namespace = f"/api/v1/namespaces/{metadata['namespace']}"
        if kind == "serviceAccountToken":
            account = self._pod["spec"]["serviceAccountName"]
            bound = {"apiVersion": "v1", "kind": "Pod", "name": self.name, "uid": metadata["uid"]}
            request = {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": source["expirationSeconds"], "boundObjectRef": bound},
            }
            granted = api.create(f"{namespace}/serviceaccounts/{account}/token", request)
            return {source["path"]: granted["status"]["token"]}
        if kind == "configMap":
            data = api.get(f"{namespace}/configmaps/{source['name']}")["data"]
            return {each["path"]: data[each["key"]] for each in source["items"]}
        [item] = source["items"]
        assert item["fieldRef"]["fieldPath"] == "metadata.namespace"
        return {item["path"]: metadata["namespace"]}

    def _report(self, *, ready: bool) -> None:
        scheduled = [each for each in self._pod["status"]["conditions"] if each["type"] == "PodScheduled"]
        said = {
            "PodReadyToStartContainers": True,
            "Initialized": True,
            "ContainersReady": ready,
            "Ready": ready,
        }
        conditions = [
            {"type": kind, "status": str(value), "lastTransitionTime": _now()} for kind, value in said.items()
        ]
        container = {
            "name": self._template["name"],
            "image": self._template["image"],
            "imageID": self._template["image"],
            "containerID": f"crun://{self.container.name}",
            "ready": ready,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": self._started}},
        }
        status = {
            "phase": "Running",
            "startTime": self._started,
            "hostIP": self._host,
            "podIP": self._address,
            "podIPs": [{"ip": self._address}],
            "conditions": [*scheduled, *conditions],
            "containerStatuses": [container],
        }
        path = f"/api/v1/namespaces/{self._pod['metadata']['namespace']}/pods/{self.name}/status"
        self._testbed.api().merge(path, {"status": status})
        self._reported = ready


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
