"""helm, which renders, checks and installs the chart: ``python -m testbed.helm`` builds it.

Its module, ``helm/``, names it as a tool of a version that the pinned Go can compile. As in Helm's own
build, the linker writes into it which version it is, and which Kubernetes ``helm template`` and ``helm lint``
assume: without that they assume 1.20. The Kubernetes client is that of the control plane: a patch release
newer than Helm's own, for which the Go cache has much of what it needs.
"""

import re
import sys
from pathlib import Path
from typing import Final

from testbed.errors import TestbedError
from testbed.gobuild import Program, ensure_program, print_path
from testbed.progress import Report, say

MODULE_DIRECTORY: Final = Path(__file__).parent / "helm"
GO_MOD: Final = MODULE_DIRECTORY / "go.mod"
MODULE: Final = "helm.sh/helm/v3"
PACKAGE: Final = f"{MODULE}/cmd/helm"
CLIENT: Final = "k8s.io/client-go"
"""Its version v0.N.P belongs to Kubernetes 1.N."""


def required_version(module: str, *, go_mod: Path = GO_MOD) -> str:
    """Return the version of a module that the go.mod requires, such as ``v3.22.0``.

    Raises:
        TestbedError: it requires no such module.

    """
    found = re.search(rf"^\s*{re.escape(module)} (v\S+)", go_mod.read_text(), re.MULTILINE)
    if found is None:
        raise TestbedError(f"{go_mod} does not require {module}")
    return found[1]


def linker_flags() -> str:
    """Return what the linker writes into the binary: its version, and the Kubernetes it assumes."""
    minor = required_version(CLIENT).split(".")[1]
    written = {
        "internal/version.version": required_version(MODULE),
        **{
            f"pkg/{package}.k8sVersion{part}": value
            for package in ("chartutil", "lint/rules")
            for part, value in (("Major", "1"), ("Minor", minor))
        },
    }
    return " ".join(("-s -w", *(f"-X {MODULE}/{name}={value}" for name, value in written.items())))


def program() -> Program:
    """Return what to build."""
    return Program(
        name="helm",
        title="helm",
        full_title=f"helm {required_version(MODULE)}",
        minutes="two",
        space_gib=2,
        module=MODULE_DIRECTORY,
        sources={name: MODULE_DIRECTORY / name for name in ("go.mod", "go.sum")},
        package=PACKAGE,
        main=PACKAGE,
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
