"""From nothing to ``kubectl get wnp``: the commands of the README, with the operator out of the image.

The testbed has no kubelet, so ``image/kubelet.py`` plays one for the two hosts of the operator, and says what
it leaves out. Above all, nothing is pulled from a registry, and NetworkPolicy and Service have no effect. All
else is what a reader has: the commands as they are written, kubectl, a real control plane, the template of
the Deployment, and containers of the image that ``make image`` builds.
"""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path
from typing import Final

from cluster.test_documents import typed
from harness.documents import ROOT, outside_make, sections_of
from harness.election import LEASE
from harness.waiting import HopelessError, eventually
from image.building import Image
from image.conftest import Measured
from image.kubelet import HOSTS, Kubelet
from image.test_contents import entries, megabytes
from testbed.cluster import Testbed
from testbed.options import Options
from winpool.api.keys import POOL_LABEL

NODES: Final = 12
"""As in what the README shows."""
SHOWN: Final = "kubectl get wnp"
GUARD_SECONDS: Final = 240.0

HEARTBEATS: Final = Options(node_monitor_grace_seconds=86_400)
"""The hosts renew no Lease, and nobody asks for one in the time of a test."""


def reader_of(testbed: Testbed) -> dict[str, str]:
    """Return the environment of a reader: kubectl, the plugin, and the cluster as admin."""
    environment = {**os.environ, **testbed.environment}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    return outside_make(environment)


def header_in_the_readme(text: str) -> str:
    """Return the header of the table that the README shows."""
    [header] = re.findall(r"^NAME .*$", text, re.MULTILINE)
    return str(header)


def test_the_commands_of_the_readme_lead_from_nothing_to_a_pool_that_is_up_to_date(
    image: Image, tmp_path: Path, measured: Measured
) -> None:
    text = (ROOT / "README.md").read_text()
    commands = sections_of(text)["Use it"]
    assert commands[0] == "kubectl apply -k deploy"
    assert SHOWN in commands
    with (
        Testbed.up(directory=tmp_path / "testbed", windows=NODES, options=HEARTBEATS) as testbed,
        Kubelet(testbed, images={image.name: image}, directory=tmp_path / "hosts") as kubelet,
    ):
        testbed.kubectl("label", "nodes", "-l", "kubernetes.io/os=windows", "agentpool=win22")
        reader = reader_of(testbed)

        def shows_the_pool() -> list[str] | None:
            if kubelet.faults:
                raise HopelessError(kubelet.faults[0])
            lines = typed(SHOWN, reader).stdout.splitlines()
            return lines if len(lines) > 1 and "UpToDate" in lines[1] else None

        began = time.monotonic()
        for command in commands:
            done = typed(command, reader)
            assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}{kubelet.faults}"
            if "rollout status" in command:
                measured(f"README, from the first command until both replicas are Ready: {since(began)}")
            if command == SHOWN:
                lines = eventually(shows_the_pool, what="the pool UpToDate", seconds=GUARD_SECONDS) or []
                measured(f"README, from the first command until `{SHOWN}` shows UpToDate: {since(began)}")
                assert lines[0].split() == header_in_the_readme(text).split()
                assert lines[1].split()[:6] == ["win-2022", "2022", *[str(NODES)] * 3, "UpToDate"]

        carrying = testbed.api().get("/api/v1/nodes", labelSelector=POOL_LABEL)["items"]
        assert len(carrying) == NODES
        assert not {each["metadata"]["name"] for each in carrying} & HOSTS.keys()
        names = {pod.name for pod in kubelet.pods.values()}
        assert len(names) == 2
        holder = testbed.api().get(LEASE)["spec"]["holderIdentity"]
        assert holder.rpartition("_")[0] in names, "one of the two Pods leads"
        assert kubelet.faults == []
        assert set(kubelet.end_containers().values()) == {0}

    venv = sum(status.st_size for _, status in entries(image.venv))
    whole = sum(status.st_size for _, status in entries(image.rootfs))
    measured(f"README, what runs: an image of {megabytes(whole)}, its virtual environment {megabytes(venv)}")


def since(began: float) -> str:
    return f"{time.monotonic() - began:.1f} s"
