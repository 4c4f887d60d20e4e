"""The control plane as a program to build, see ``gobuild``.

What decides what it is: go.mod, go.sum, main.go and the linker flags. It is 134 MB and takes about five
minutes on two cores the first time.
"""

from pathlib import Path
from typing import Final

from testbed.gobuild import Program, ensure_program
from testbed.machine import require_linux
from testbed.paths import cache_directory
from testbed.pins import Pins, chosen_pins
from testbed.progress import Report, say

MODULE: Final = "winpool.dev/testbed/controlplane"
BINARY: Final = "controlplane"


def linker_flags(version: str) -> str:
    """Return the flags that make the binary small and let ``/version`` say what was built."""
    major, minor, _ = version.removeprefix("v").split(".")
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(["-s -w", *(f"-X {p}.{k}={v}" for p in packages for k, v in stamps.items())])


def control_plane(pins: Pins) -> Program:
    """Return the program of one version of Kubernetes."""
    return Program(
        name=BINARY,
        title="the control plane",
        full_title=f"the Kubernetes {pins.kubernetes} control plane",
        minutes="five",
        space_gib=5,
        module=pins.module,
        sources=pins.sources,
        package=".",
        main=MODULE,
        linker_flags=linker_flags(pins.kubernetes),
        options=(pins.modfile,),
    )


def key(pins: Pins) -> str:
    """Name of a build: a hash of all that decides what comes out of it."""
    return control_plane(pins).key


def binary_path(*, cache: Path | None = None, pins: Pins | None = None) -> Path:
    """Where the binary lies or will lie."""
    return control_plane(pins or chosen_pins()).binary(cache=cache or cache_directory())


def ensure_binary(*, cache: Path | None = None, pins: Pins | None = None, report: Report = say) -> Path:
    """Return the control plane binary; build it where it is not there yet.

    Args:
        cache: where binaries are kept; the shared cache by default.
        pins: what to build; the version that the environment asks for by default.
        report: told what happens, one line at a time.

    Raises:
        TestbedError: no Linux, no pins, no Go, no network, no space or a compile error; the text says which.

    """
    require_linux()
    return ensure_program(control_plane(pins or chosen_pins()), cache=cache, report=report)
