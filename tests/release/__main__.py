"""``make release``: writes what a release publishes and what needs no registry.

The Makefile adds the bill of materials and the checksums.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from release.addresses import Addresses
from release.chart import chart_files
from release.install import ROOT, ReleaseError, manifests
from release.layout import FOLDER, digest_of
from release.notes import notes
from release.packing import packed, replace, require_replaceable
from release.ready import Checkout, faults, require_digest
from testbed.errors import TestbedError
from testbed.patience import patiently
from winpool import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; return the exit code."""
    parser = argparse.ArgumentParser(prog="make release", description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--image", default="", help="registry and name; default: IMAGE of deploy/release.env")
    parser.add_argument("--digest", default="", help="of an image that is pushed: sha256:…")
    parser.add_argument(
        "--local", action="store_true", help="for this machine: what is missing is only named"
    )
    given = parser.parse_args(arguments)
    try:
        write(given.directory, image=given.image, digest=given.digest, local=given.local)
    except (ReleaseError, TestbedError, ValueError) as error:
        sys.stderr.write(f"make release: {error}\n")
        return 1
    return 0


def write(directory: Path, *, image: str, digest: str, local: bool) -> None:
    """Write the files into a folder, in place of those of an earlier run.

    Raises:
        ReleaseError: the commit may not become a release, or the manifests are wrong.
        TestbedError: there is no kubectl, and it cannot be built.
        ValueError: ``digest`` is none.

    """
    digest = require_digest(digest) or digest_of(directory / FOLDER, __version__)
    checkout, addresses = Checkout.read(ROOT), Addresses.read()
    addresses = dataclasses.replace(addresses, image=image or addresses.image)
    changelog = (ROOT / "CHANGELOG.md").read_text()
    missing = faults(checkout, addresses=addresses, changelog=changelog, digest=digest)
    if missing and not local:
        raise ReleaseError(
            "\n  ".join(("nothing was written.", *missing, "To try it on this machine: make release LOCAL=1"))
        )
    require_replaceable(directory)
    with patiently(partial(print, flush=True)) as voice, tempfile.TemporaryDirectory() as name:
        voice.say("Rendering the manifests and the chart")
        texts = {
            **manifests(image=addresses.image, digest=digest),
            "notes.md": notes(changelog, version=__version__, digest=digest, addresses=addresses),
        }
        chart = packed(chart_files(image=addresses.image, digest=digest), seconds=checkout.seconds)
        made = Path(name)
        for file, text in texts.items():
            (made / file).write_text(text)
        (made / f"winpool-{__version__}.tgz").write_bytes(chart)
        build_plugin(made, seconds=checkout.seconds, report=voice.say)
        replace(directory, made)
    sys.stdout.write("".join(f"{path}\n" for path in sorted(directory.iterdir()) if path.is_file()))
    for sentence in missing:
        sys.stdout.write(f"not for others: {sentence}\n")


def build_plugin(directory: Path, *, seconds: int, report: Callable[[str], None]) -> None:
    """Write the wheel, the archives of the plugin and the manifest for krew, with all files of one time.

    ``report`` gets each step.

    Raises:
        ReleaseError: they cannot be made; the text has the reason.

    """
    with (
        tempfile.TemporaryFile("w+") as said,
        subprocess.Popen(
            [sys.executable, "-m", "release.plugin", str(directory)],
            env={**os.environ, "SOURCE_DATE_EPOCH": str(seconds)},
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            report(line.rstrip())
        if process.wait() != 0:
            said.seek(0)
            raise ReleaseError(f"the plugin cannot be made: {said.read().strip()}")


if __name__ == "__main__":
    sys.exit(main())
