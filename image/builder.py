"""``make image``: builds the image with docker, podman or buildah, whichever works on this machine.

It needs only the standard library, so that ``make image`` installs nothing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ROOT: Final = Path(__file__).parents[1]

TOOLS: Final = ("docker", "podman", "buildah")
"""In the order in which they are tried."""

PIP_SETTINGS: Final = (
    "PIP_CERT",
    "PIP_DEFAULT_TIMEOUT",
    "PIP_EXTRA_INDEX_URL",
    "PIP_INDEX_URL",
    "PIP_TRUSTED_HOST",
)
"""Environment variables that the first stage of the Dockerfile gets, where they are set."""

PROBE_SECONDS: Final = 30.0
"""A docker daemon that is still starting answers within a few seconds; one that hangs is no builder."""


class NoBuilderError(Exception):
    """None of the tools works here; the text says why, for each of them."""


def command(
    tool: str,
    *,
    name: str,
    version: str,
    revision: str,
    source: str,
    base: str = "",
    platform: str = "",
    environment: Mapping[str, str],
) -> list[str]:
    """Return the command that builds the image; the three tools understand the same one.

    Args:
        tool: one of ``TOOLS``.
        name: of the image, with its tag.
        version: for the label.
        revision: the commit, for the label.
        source: address of the repository, for the label.
        base: the image to build on; empty: the default of the Dockerfile.
        platform: as in ``linux/arm64``; empty: that of this machine.
        environment: where settings of pip may be.

    """
    arguments = [tool, "build", "--file", "Dockerfile", "--tag", name]
    arguments += ["--build-arg", f"VERSION={version}", "--build-arg", f"REVISION={revision}"]
    arguments += ["--build-arg", f"SOURCE={source}"]
    if base:
        arguments += ["--build-arg", f"BASE={base}"]
    if platform:
        arguments += ["--platform", platform]
    for setting in PIP_SETTINGS:
        if environment.get(setting):
            # Without the value, which the tool reads from its environment: it may have a password.
            arguments += ["--build-arg", setting]
    return [*arguments, "."]


def choose(probe: Callable[[str], str | None], *, tools: Sequence[str] = TOOLS) -> str:
    """Return the first tool that works. ``probe`` returns None for one that does, otherwise what is wrong.

    Raises NoBuilderError where none does.
    """
    faults: list[str] = []
    for tool in tools:
        fault = probe(tool)
        if fault is None:
            return tool
        faults.append(f"{tool}: {fault}")
    raise NoBuilderError(
        "no tool that builds images works here ("
        + "; ".join(faults)
        + "). Install docker, podman or buildah."
    )


def probe(tool: str) -> str | None:
    """Ask a tool about itself; return None where it works, otherwise what is wrong with it."""
    if shutil.which(tool) is None:
        return "not installed"
    try:
        done = subprocess.run(
            [tool, "info"], capture_output=True, text=True, timeout=PROBE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {PROBE_SECONDS:.0f} s"
    except OSError as error:
        return error.strerror or "it cannot be run"
    if done.returncode == 0:
        return None
    said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    return said[-1]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what decides which image is built."""
    parser.add_argument("--name", required=True, help="name of the image, with its tag")
    parser.add_argument("--version", required=True, help="version, for the label")
    parser.add_argument("--revision", required=True, help="commit, for the label")
    parser.add_argument("--source", required=True, help="address of the repository, for the label")
    parser.add_argument("--base", default="", help="image to build on; default: that of the Dockerfile")
    parser.add_argument("--platform", default="", help="as in linux/arm64; default: that of this machine")


def asked(tool: str, given: argparse.Namespace) -> list[str]:
    """Return the command for these options, with the settings of pip in the environment."""
    return command(
        tool,
        name=given.name,
        version=given.version,
        revision=given.revision,
        source=given.source,
        base=given.base,
        platform=given.platform,
        environment=os.environ,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Build; return the exit code of the tool, or 1 where there is none."""
    parser = argparse.ArgumentParser(prog="make image", description=__doc__)
    add_options(parser)
    given = parser.parse_args(arguments)
    try:
        tool = choose(probe)
    except NoBuilderError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"building {given.name} with {tool}\n")
    sys.stdout.flush()
    chosen = asked(tool, given)
    return subprocess.run(chosen, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
