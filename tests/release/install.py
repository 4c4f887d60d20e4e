"""Writes install.yaml, all of winpool as one file: ``python -m release.install DIRECTORY``.

It is what ``kubectl apply -k deploy`` applies, rendered by the kubectl of the testbed. A release publishes
it, so that an installation needs no checkout.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import yaml

from testbed.build import ensure_binary
from testbed.errors import TestbedError
from winpool import __version__

ROOT: Final = Path(__file__).parents[2]
DEPLOY: Final = ROOT / "deploy"
FILE: Final = "install.yaml"
RENDER_SECONDS: Final = 180.0
"""It takes a second; the rest is for a machine under full load, as for any kubectl of the testbed."""


class ReleaseError(Exception):
    """There is nothing that may be published; the text says what is wrong and what to do."""


def kustomized(folder: Path) -> str:
    """Return what kubectl makes of a kustomization.

    Raises:
        ReleaseError: it cannot be rendered.
        TestbedError: there is no kubectl, and it cannot be built.

    """
    done = subprocess.run(
        ["kubectl", "kustomize", str(folder)],
        executable=ensure_binary(),
        capture_output=True,
        text=True,
        timeout=RENDER_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise ReleaseError(f"kubectl kustomize {folder} failed:\n{done.stderr}")
    return done.stdout


def render() -> str:
    """Return all of ``deploy``, with a line on top that has the version; raises like ``kustomized``.

    A ReleaseError also says that it runs an image of another version than this one.
    """
    rendered = kustomized(DEPLOY)
    require_version(rendered)
    return f"# winpool {__version__}: kubectl apply -f {FILE}\n{rendered}"


def require_version(rendered: str) -> None:
    """Raise ReleaseError if the Deployment runs the image of another version than the code has."""
    images = [
        container["image"]
        for document in yaml.safe_load_all(rendered)
        if document["kind"] == "Deployment"
        for container in document["spec"]["template"]["spec"]["containers"]
    ]
    wrong = [image for image in images if not image.partition("@")[0].endswith(f":{__version__}")]
    if wrong or not images:
        raise ReleaseError(
            f"the Deployment runs {', '.join(wrong) or 'no image'}, and this is winpool {__version__}: "
            "set newTag in deploy/operator/kustomization.yaml"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point: write the file into a folder and print its path; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m release.install", description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path)
    path = parser.parse_args(arguments).directory / FILE
    try:
        content = render()
    except (ReleaseError, TestbedError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
