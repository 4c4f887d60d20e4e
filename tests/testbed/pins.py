"""Which Kubernetes a testbed runs: the pins that its control plane is built from.

``controlplane/main.go`` is one for all. The go.mod and go.sum beside it pin the version that everything
here is made for; another minor has its own two in a folder named after it, such as ``controlplane/1.32``
for the oldest one that is supported.
One environment variable chooses, so that ``make``, pytest, the demo and ``python -m testbed`` agree.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from testbed.errors import TestbedError

VARIABLE: Final = "WINPOOL_KUBERNETES"
"""A minor, such as ``1.32``; unset or empty is the default one."""
MODULE_DIRECTORY: Final = Path(__file__).parent / "controlplane"
_KUBERNETES: Final = re.compile(r"^\s*k8s\.io/kubernetes (v\d+\.\d+\.\d+)$", re.MULTILINE)
_MINOR: Final = re.compile(r"1\.\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pins:
    """What one version of Kubernetes is built from."""

    module: Path
    """The folder of main.go, where ``go`` runs."""
    go_mod: Path

    @property
    def go_sum(self) -> Path:
        """Where ``go`` looks for it when it is given ``-modfile``."""
        return self.go_mod.with_suffix(".sum")

    @property
    def modfile(self) -> str:
        """The flag that makes ``go`` use these pins and not those beside main.go."""
        return f"-modfile={self.go_mod}"

    @property
    def sources(self) -> Mapping[str, Path]:
        """All that decides what is built, by the name it has in a module."""
        return {"go.mod": self.go_mod, "go.sum": self.go_sum, "main.go": self.module / "main.go"}

    @property
    def kubernetes(self) -> str:
        """The version of Kubernetes, such as ``v1.37.1``.

        Raises:
            TestbedError: go.mod does not require Kubernetes.

        """
        match = _KUBERNETES.search(self.go_mod.read_text())
        if match is None:
            raise TestbedError(f"{self.go_mod} does not require k8s.io/kubernetes")
        return match[1]


def minor_of(version: str) -> str:
    """Return ``1.37`` of ``v1.37.1``."""
    return version.removeprefix("v").rpartition(".")[0]


def default_pins(module: Path = MODULE_DIRECTORY) -> Pins:
    """Return the pins beside main.go."""
    return Pins(module=module, go_mod=module / "go.mod")


def pins_for(version: str, module: Path = MODULE_DIRECTORY) -> Pins:
    """Return where the pins of a version lie or would lie: each minor has one place."""
    standard, minor = default_pins(module), minor_of(version)
    if minor == minor_of(standard.kubernetes):
        return standard
    return Pins(module=module, go_mod=module / minor / "go.mod")


def chosen_pins(module: Path = MODULE_DIRECTORY, *, environment: Mapping[str, str] = os.environ) -> Pins:
    """Return the pins of the minor that the environment asks for.

    Raises:
        TestbedError: there are none; the text names those that exist and how to make others.

    """
    asked = environment.get(VARIABLE, "")
    if not asked:
        return default_pins(module)
    known = {minor_of(pins.kubernetes): pins for pins in all_pins(module)}
    if asked not in known:
        wanted = f"v{asked}.N" if _MINOR.fullmatch(asked) else "v1.N.P"
        raise TestbedError(
            f"{VARIABLE}={asked}: there are pins for {', '.join(known)}, each named by its minor alone; "
            f"make others with: python -m testbed.gomod --kubernetes {wanted}"
        )
    return known[asked]


def all_pins(module: Path = MODULE_DIRECTORY) -> tuple[Pins, ...]:
    """Return the pins of every version there are pins for, the default first."""
    others = sorted(module.glob("1.*/go.mod"))
    return (default_pins(module), *(Pins(module=module, go_mod=path) for path in others))
