"""The texts of files, folders and what is piped in, as kubectl takes them with ``-f``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_STDIN: Final = "-"
_SUFFIXES: Final = (".yaml", ".yml", ".json")
"""What kubectl, too, takes from a folder."""


class UnreadableError(Exception):
    """A file that cannot be read; the text says which and why."""


def texts(name: str) -> Iterator[tuple[str, str]]:
    """Yield name and text of the file ``name``, of each manifest in that folder, or of stdin for ``-``.

    Raises UnreadableError.
    """
    if name == _STDIN:
        yield "stdin", _decoded("stdin", sys.stdin.buffer.read())
        return
    path = Path(name)
    try:
        files = (
            sorted(each for each in path.iterdir() if each.suffix in _SUFFIXES) if path.is_dir() else [path]
        )
        for file in files:
            yield str(file), _decoded(str(file), file.read_bytes())
    except OSError as error:
        raise UnreadableError(f"{error.filename}: {error.strerror}") from None


def _decoded(name: str, content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnreadableError(f"{name}: not UTF-8 at byte {error.start + 1}") from None
