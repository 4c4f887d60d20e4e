"""Collects the licences of what the virtual environment of the image has, with an overview of them.

The Dockerfile runs it: ``python3 image/licenses.py /opt/winpool /licenses``, after ``slim.py``, so that what
was removed is not named. ``release.plugin`` runs it for the archives of the plugin. It needs only the
standard library. A distribution whose wheel brings no text of its licence fails the build: a copy of the
image would not have what the licence asks for.
"""

from __future__ import annotations

import re
import shutil
import sys
from email.parser import HeaderParser
from pathlib import Path
from typing import TYPE_CHECKING, Final

from slim import SITE, USAGE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from email.message import Message

OLDER: Final = ("LICEN[CS]E*", "COPYING*", "NOTICE*", "AUTHORS*")
"""Where wheels from before PEP 639 have the files, which are in the folder ``licenses`` since then."""

OVERVIEW: Final = "README.txt"

HEAD: Final = """\
The licences of these packages, as they bring them.
The base of an image has its own: that of Debian in /usr/share/doc/*/copyright.

"""


class LicenceError(Exception):
    """A distribution lacks the text of its licence; the message names each of them."""


def collect(venv: Path, to: Path) -> None:
    """Copy the texts of each distribution in ``venv`` to ``to/<name>``, and write the overview beside them.

    Raises LicenceError, before anything is written, where a text is missing.
    """
    found = {}
    faults = []
    for info in venv.glob(f"{SITE}/*.dist-info"):
        metadata = HeaderParser().parsestr((info / "METADATA").read_text(encoding="utf-8"))
        name = re.sub(r"[-_.]+", "-", metadata["Name"]).lower()
        found[name] = (metadata, _texts(info))
        faults += [f"{name}: {fault}" for fault in _faults(*found[name])]
    if faults or not found:
        raise LicenceError("\n".join(sorted(faults)) or f"{venv} has no distributions")
    lines = []
    for name, (metadata, texts) in sorted(found.items()):
        for file, source in texts.items():
            target = to / name / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        files = ", ".join(f"{name}/{file}" for file in texts)
        lines.append(f"{name} {metadata['Version']}: {_licence(metadata)} ({files})\n")
    (to / OVERVIEW).write_text(HEAD + "".join(lines), encoding="utf-8")


def _texts(info: Path) -> dict[str, Path]:
    """Return the files that ``info`` has about the licence, by their names as in ``License-File``."""
    folder = info / "licenses"
    found = [(str(path.relative_to(folder)), path) for path in folder.rglob("*")]
    found += [(path.name, path) for pattern in OLDER for path in info.glob(pattern)]
    return {name: path for name, path in sorted(found) if path.is_file()}


def _faults(metadata: Message, texts: Mapping[str, Path]) -> list[str]:
    missing = [name for name in metadata.get_all("License-File", []) if name not in texts]
    if missing:
        return [f"METADATA names {', '.join(missing)}, which is not there"]
    if not any(re.match(r"LICEN[CS]E|COPYING", path.name) for path in texts.values()):
        return ["there is no text of its licence. Use a version that has it, or another package"]
    return []


def _licence(metadata: Message) -> str:
    """Return the licence as METADATA has it: an expression, a word, or a classifier."""
    classifiers = [
        each.rpartition("::")[2].strip()
        for each in metadata.get_all("Classifier", [])
        if each.startswith("License ::")
    ]
    return metadata["License-Expression"] or metadata["License"] or ", ".join(classifiers)


def main(arguments: Sequence[str]) -> int:
    """Collect from the environment that is named into the folder that is named; return the exit code."""
    if len(arguments) != 2:
        sys.stderr.write("usage: licenses.py VIRTUAL_ENVIRONMENT FOLDER\n")
        return USAGE
    try:
        collect(Path(arguments[0]), Path(arguments[1]))
    except LicenceError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
