"""Archives and checksums that are the same whenever they are made of the same files.

``python -m release.packing DIRECTORY`` writes the checksums of what is in it.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import shutil
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from release.install import ReleaseError

SUMS: Final = "SHA256SUMS"
_BESIDE: Final = (SUMS, f"{SUMS}.sigstore.json")


def packed(files: Mapping[str, bytes], *, seconds: int) -> bytes:
    """Return a tar.gz with these files, owned by root, all of them of one time (Unix time)."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = len(content), seconds, 0o644
            tar.addfile(member, io.BytesIO(content))
    return gzip.compress(archive.getvalue(), mtime=seconds)


def checksums(directory: Path) -> str:
    """Return the checksums of the files in a folder, as ``sha256sum --check`` reads them."""
    names = sorted(_files(directory) - {*_BESIDE})
    digests = {name: hashlib.sha256((directory / name).read_bytes()).hexdigest() for name in names}
    return "".join(f"{digest}  {name}\n" for name, digest in digests.items())


def require_checksums(directory: Path) -> None:
    """Raise ReleaseError if files of a release are not as their checksums say."""
    path = directory / SUMS
    if not path.exists():
        raise ReleaseError(f"{directory} has no {SUMS}: run make release")
    written, found = (dict.fromkeys(text.splitlines()) for text in (path.read_text(), checksums(directory)))
    differing = sorted({line.partition("  ")[2] for line in written.keys() ^ found.keys()})
    if differing:
        raise ReleaseError(
            f"{', '.join(differing)} in {directory} is not as make release left it: run it again"
        )


def require_replaceable(directory: Path) -> None:
    """Raise ReleaseError if a folder has files of someone else, which would become part of a release."""
    foreign = sorted(_files(directory) - _left(directory))
    if foreign:
        raise ReleaseError(
            f"{directory} has files that are of no release ({', '.join(foreign[:3])}): remove them, or "
            "choose another folder with DIST=…"
        )


def replace(directory: Path, made: Path) -> None:
    """Move the files of a new release into a folder, in place of those of an earlier one."""
    for name in _left(directory) & _files(directory):
        (directory / name).unlink()
    directory.mkdir(parents=True, exist_ok=True)
    for path in made.iterdir():
        shutil.move(path, directory / path.name)
    write(directory)


def write(directory: Path) -> None:
    """Write the checksums of the files in a folder."""
    (directory / SUMS).write_text(checksums(directory))


def _files(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir() if path.is_file()} if directory.exists() else set()


def _left(directory: Path) -> set[str]:
    """Return the names of files that an earlier release left in a folder, by its checksums."""
    path = directory / SUMS
    lines = path.read_text().splitlines() if path.exists() else []
    return {line.partition("  ")[2] for line in lines} | {*_BESIDE}


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point: write the checksums and print where they are."""
    parser = argparse.ArgumentParser(prog="python -m release.packing", description=__doc__)
    parser.add_argument("directory", type=Path)
    directory = parser.parse_args(arguments).directory
    write(directory)
    sys.stdout.write(f"{directory / SUMS}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
