"""The links of a page, as the site has them.

The pages are read on a Git host too, where a link may lead to any file of the repository. On the site it
leads to the page of that file, or to the file in the repository if it is no page.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

DOCS: Final = PurePosixPath("docs")
"""The folder that becomes the site."""
ELSEWHERE: Final = {
    "docs/README.md": "docs/index.md",
    "README.md": "docs/project/readme.md",
    "CONTRIBUTING.md": "docs/project/contributing.md",
    "CHANGELOG.md": "docs/project/changelog.md",
    "SECURITY.md": "docs/project/security.md",
    "CODE_OF_CONDUCT.md": "docs/project/conduct.md",
}
"""Pages that the site has under another name: it has what is in its folder, and begins with its index."""
SHOWN: Final = {".md", ".svg"}
"""What the site has of its folder. The rest, such as examples of manifests, is shown by the repository."""

_CODE_OR_LINK: Final = re.compile(
    r"^```.*?^```|(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`)|\]\((?P<target>[^)#\s]+)(?P<anchor>#[^)\s]+)?\)",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """The files beside the site."""

    root: Path
    files: str
    """The address of the folder ``root``, as the version of the site has it."""

    def linked(self, text: str, *, source: PurePosixPath) -> str:
        """Return the text of the file ``source`` with its relative links as the site has them.

        What leads to no file stays as it is: the build reports it.
        """
        page = PurePosixPath(ELSEWHERE.get(str(source), source))

        def replaced(found: re.Match[str]) -> str:
            target = found["target"]
            if target is None or ":" in target:
                return found[0]
            return f"]({self._address(target, source=source, page=page)}{found['anchor'] or ''})"

        return _CODE_OR_LINK.sub(replaced, text)

    def _address(self, target: str, *, source: PurePosixPath, page: PurePosixPath) -> str:
        named = os.path.normpath(source.parent / target)
        path = PurePosixPath(ELSEWHERE.get(named, named))
        if path.is_relative_to(DOCS) and path.suffix in SHOWN:
            return os.path.relpath(path, page.parent)
        return f"{self.files}/{path}" if (self.root / path).exists() else target
