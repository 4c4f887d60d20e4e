"""The operator out of the image, where a pod's ServiceAccount is mounted, as the world of a test has it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from harness.operator import LONG_SUPPORTED, Operator, Started
from image.building import Image
from image.container import Container
from testbed.cluster import Testbed
from testbed.tokens import NAMESPACE, SERVICE_ACCOUNT

SERVICE_ACCOUNT_FOLDER: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
ROWS: Final = "/etc/winpool/long-supported.yaml"
TOKEN_SECONDS: Final = 3600
"""A kubelet asks for as long, and asks again when most of it is over; no test takes so long."""


def service_account(testbed: Testbed, folder: Path) -> Path:
    """Fill a folder as a kubelet fills the volume of a projected ServiceAccount token, and return it."""
    granted = testbed.api().create(
        f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{SERVICE_ACCOUNT}/token",
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": TOKEN_SECONDS},
        },
    )
    return projected(
        folder,
        {"token": granted["status"]["token"], "ca.crt": testbed.ca_file.read_text(), "namespace": NAMESPACE},
    )


def projected(folder: Path, files: Mapping[str, str], *, mode: int = 0o644, group: int = 0) -> Path:
    """Fill a folder as a kubelet fills a projected volume: each file is a link into a folder beside it."""
    data = folder / "..data"
    data.mkdir(parents=True)
    for name, content in files.items():
        file = data / name
        file.write_text(content)
        file.chmod(mode)
        os.chown(file, 0, group)
        (folder / name).symlink_to(Path("..data") / name)
    return folder


def pod_environment(testbed: Testbed) -> dict[str, str]:
    """Return what a kubelet tells every container about the API server."""
    server = urlsplit(testbed.server)
    return {
        "KUBERNETES_SERVICE_HOST": str(server.hostname),
        "KUBERNETES_SERVICE_PORT": str(server.port),
    }


class ImageOperator(Operator):
    """The operator of the image in a container; it finds the API server as every pod does."""

    def __init__(
        self,
        image: Image,
        testbed: Testbed,
        *,
        directory: Path,
        account: Path,
        name: str = "image",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(
            kubeconfig=testbed.kubeconfig("winpool"),
            log_file=directory / f"{name}.log",
            environment=environment,
        )
        self._image = image
        self._testbed = testbed
        self._directory = directory
        self._account = account
        self._own = dict(environment or {})

    def _launch(self, environment: Mapping[str, str]) -> Started:
        own = {
            name: value
            for name, value in environment.items()
            if name.startswith("WINPOOL_") and name != "WINPOOL_KUBECONFIG"
        }
        container = Container(
            self._image,
            directory=self._directory,
            environment={
                **own,
                **self._own,
                **pod_environment(self._testbed),
                "WINPOOL_SUPPORT_MATRIX_FILE": ROWS,
            },
            mounts={SERVICE_ACCOUNT_FOLDER: self._account, ROWS: LONG_SUPPORTED},
        )
        with self.log_file.open("ab") as output:
            container.start(output)
        return container
