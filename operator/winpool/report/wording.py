"""Texts of others, made fit to stand in an issue: as a sentence, and without the name of one node."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

NODE: Final = "NODE"
"""Stands in the place of a node's name."""

_UUID: Final = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE)


def sentence(text: str) -> str:
    """Return ``text`` with a capital letter at its begin and a full stop at its end."""
    text = text.strip()
    begun = text[:1].upper() + text[1:]
    return begun if begun.endswith((".", "!", "?", "…")) else f"{begun}."


def nameless(text: str, *, name: str) -> str:
    """Return ``text`` with ``NODE`` where it names the node ``name``, so that it is the same for all nodes.

    Identifiers that are made for one request go as well.
    """
    parts: list[str] = []
    at = 0
    # No regex: thousands of nodes may be refused, and each has a name of its own.
    while name and (found := text.find(name, at)) >= 0:
        end = found + len(name)
        is_part = text[found - 1 : found].isalnum() or text[end : end + 1].isalnum()
        parts += (text[at:found], name if is_part else NODE)
        at = end
    return _without_identifiers("".join((*parts, text[at:])))


@lru_cache(maxsize=64)
def _without_identifiers(text: str) -> str:
    return _UUID.sub("UID", text)
