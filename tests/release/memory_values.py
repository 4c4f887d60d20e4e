"""The values of the Helm chart about memory pressure: what ``deploy/components/memory`` brings."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import yaml

from release.shapes import SECRET_NAME, text
from release.value import Value

COMPONENT: Final = Path(__file__).parents[2] / "deploy" / "components" / "memory"


def memory_values() -> tuple[Value, ...]:
    """Return the values, in the order of ``values.yaml``."""
    return (
        Value(
            path="memory.enabled",
            default=False,
            schema={"type": "boolean"},
            text="Whether to give the operator what pools with memoryPressure need: the rights to set a "
            "condition of nodes and to evict pods, an account whose token kubelets are shown, and egress to "
            "kubelets. The other values of memory have no effect without it.",
        ),
        Value(
            path="memory.kubeletCAFile",
            default=_ca_file(),
            schema=text("^(/.+)?$"),
            text="File in the container with the CAs of the certificates of kubelets. The default is the CA "
            "of the cluster, which signs those of kubelets with serverTLSBootstrap. Empty: the CAs of the "
            "system.",
        ),
        Value(
            path="memory.kubeletInsecureTLS",
            default=False,
            schema={"type": "boolean"},
            text="Whether not to verify the certificates of kubelets. Everyone on the network path to a "
            "kubelet can then read the token that is sent to it, and make up samples of memory.",
        ),
        Value(
            path="memory.dataSourcesSecretName",
            default="",
            schema=SECRET_NAME,
            text="Secret in the namespace winpool-system with the file data-sources.yaml, which names the "
            "Prometheus servers that pools may read from. It is mounted at /etc/winpool/data-sources, with "
            "the CA files and token files that the Secret has. Empty: none.",
        ),
    )


def _ca_file() -> str:
    """Return what the component sets."""
    (patch,) = yaml.safe_load((COMPONENT / "kustomization.yaml").read_text())["patches"]
    (added,) = yaml.safe_load(patch["patch"])
    return str(added["value"]["value"])
