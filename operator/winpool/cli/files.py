"""The texts of files, folders and what is piped in, as kubectl takes them with ``-f``."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator

_STDIN: Final = "-"
_SUFFIXES: Final = (".yaml", ".yml", ".json")
"""What kubectl, too, takes from a folder."""
_URL: Final = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://")


class UnreadableError(Exception):
    """A file that cannot be read; the text says which, why, and what to do."""


def texts(name: str, *, recursive: bool = False) -> Iterator[tuple[str, str]]:
    """Yield name and text of the file ``name``, of each manifest in that folder, or of stdin for ``-``.

    With ``recursive`` also of those in the folders below. Raises UnreadableError.
    """
    if name == _STDIN:
        yield "stdin", _decoded("stdin", sys.stdin.buffer.read())
        return
    if _URL.match(name):
        raise UnreadableError(f"{name}: URLs are not supported: download the file, or pipe it in with -f -")
    path = Path(name)
    try:
        for file in _of_folder(path, recursive=recursive) if path.is_dir() else [path]:
            yield str(file), _decoded(str(file), file.read_bytes())
    except OSError as error:
        raise UnreadableError(f"{error.filename}: {error.strerror}") from None


def _of_folder(folder: Path, *, recursive: bool) -> Iterator[Path]:
    for place, folders, names in os.walk(folder, onerror=_raise):
        folders[:] = sorted(folders) if recursive else []
        yield from (Path(place, each) for each in sorted(names) if Path(each).suffix in _SUFFIXES)


def _raise(error: OSError) -> NoReturn:
    raise error


def _decoded(name: str, content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnreadableError(f"{name}: not UTF-8 at byte {error.start + 1}") from None
