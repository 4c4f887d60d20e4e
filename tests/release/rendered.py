"""Writes what ``make lint-manifests`` checks: ``python -m release.rendered DIRECTORY``.

A file for each kustomization that a person applies: ``deploy``, and each overlay. An overlay has objects and
fields that ``deploy`` has not.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from release.install import FOLDERS, ReleaseError, kustomized
from testbed.errors import TestbedError


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point: write the files in place of those of an earlier run; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m release.rendered", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("directory", type=Path)
    directory = parser.parse_args(arguments).directory
    try:
        files = {f"{folder.name}.yaml": kustomized(folder) for folder in FOLDERS}
    except (ReleaseError, TestbedError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    directory.mkdir(parents=True, exist_ok=True)
    for path in directory.glob("*.yaml"):
        path.unlink()
    for name, content in files.items():
        (directory / name).write_text(content)
        sys.stdout.write(f"{directory / name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
