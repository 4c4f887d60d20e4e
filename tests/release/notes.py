"""The notes of a release: its section of CHANGELOG.md, and how to install it."""

from __future__ import annotations

import re
from typing import Final

from release.addresses import Addresses

UNRELEASED: Final = "Unreleased"
_RELATIVE: Final = re.compile(r"\]\((?![a-z]+://|#)([^)\s]+)\)")


def has_section(changelog: str, version: str) -> bool:
    """Return whether the changelog says anything under the heading ``## VERSION``, with or without a date."""
    return bool(section(changelog, version))


def section(changelog: str, version: str) -> str:
    """Return what stands under the heading of a version; empty, where there is none."""
    found = re.search(
        rf"^## {re.escape(version)}(?: [^\n]*)?\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL
    )
    return found[1].strip() if found else ""


def notes(changelog: str, *, version: str, digest: str, addresses: Addresses) -> str:
    """Return the notes. Where the version has no section yet, they are what is not released.

    Links into the repository lead to the files of that version, since the notes are read elsewhere.
    """
    text = section(changelog, version) or section(changelog, UNRELEASED)
    linked = _RELATIVE.sub(rf"]({addresses.repository}/blob/v{version}/\1)", text)
    image = f"{addresses.image}:{version}{f'@{digest}' if digest else ''}"
    return (
        f"# winpool {version}\n\n"
        f"Image: `{image}`\n\n"
        f"[How to verify and install it]({addresses.docs}/{version}/install.html)\n\n"
        f"{linked}\n"
    )
