"""helm, which renders, checks and installs the chart: ``python -m testbed.helm`` builds it.

Its module, ``helm/``, names it as a tool of a version that the pinned Go can compile. As in Helm's own
build, the linker writes into it which version it is, and which Kubernetes ``helm template`` and ``helm lint``
assume: without that they assume 1.20. The Kubernetes client is that of the control plane: a patch release
newer than Helm's own, for which the Go cache has much of what it needs.
"""

import sys
from pathlib import Path
from typing import Final

from testbed.gobuild import Program, ensure_program, print_path, required_version, tool
from testbed.progress import Report, say

GO_MOD: Final = Path(__file__).parent / "helm" / "go.mod"
MODULE: Final = "helm.sh/helm/v3"
PACKAGE: Final = f"{MODULE}/cmd/helm"
CLIENT: Final = "k8s.io/client-go"
"""Its version v0.N.P belongs to Kubernetes 1.N."""


def linker_flags() -> str:
    """Return what the linker writes into the binary: its version, and the Kubernetes it assumes."""
    minor = required_version(CLIENT, go_mod=GO_MOD).split(".")[1]
    written = {
        "internal/version.version": required_version(MODULE, go_mod=GO_MOD),
        **{
            f"pkg/{package}.k8sVersion{part}": value
            for package in ("chartutil", "lint/rules")
            for part, value in (("Major", "1"), ("Minor", minor))
        },
    }
    return " ".join(("-s -w", *(f"-X {MODULE}/{name}={value}" for name, value in written.items())))


def program() -> Program:
    """Return what to build."""
    return tool(
        "helm",
        go_mod=GO_MOD,
        module=MODULE,
        package=PACKAGE,
        minutes="two",
        space_gib=2,
        linker_flags=linker_flags(),
    )


def ensure_helm(*, cache: Path | None = None, report: Report = say) -> Path:
    """Return the binary of helm; build it where it is not there yet.

    Raises:
        TestbedError: no Go, no network, no space or a compile error; the text says which.

    """
    return ensure_program(program(), cache=cache, report=report)


if __name__ == "__main__":
    sys.exit(print_path(ensure_helm, name="helm"))
