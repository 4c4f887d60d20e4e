"""Texts of others, made fit to stand in an issue: as a sentence, and without the name of one node."""

from __future__ import annotations

import re
from functools import lru_cache
from string import ascii_lowercase, ascii_uppercase
from typing import Final

NODE: Final = "NODE"
"""Stands in the place of a node's name."""

_SMALL: Final = str.maketrans(ascii_uppercase, ascii_lowercase)
"""Of other alphabets some capitals are longer in small letters, and no name of a node has any."""

_UUID: Final = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE)


def sentence(text: str) -> str:
    """Return ``text`` with a capital letter at its begin and a full stop at its end."""
    text = text.strip()
    begun = text[:1].upper() + text[1:]
    return begun if begun.endswith((".", "!", "?", "…")) else f"{begun}."


def nameless(text: str, *, name: str) -> str:
    """Return ``text`` with ``NODE`` where it names the node ``name``, so that it is the same for all nodes.

    In capitals too, as Windows writes its host names, and by the first label of a name in a domain. Where
    that could be a word or a number of a sentence it stays. Identifiers that are made for one request go.
    """
    text = _without(text, name.lower())
    host = name.partition(".")[0].lower()
    if host != name.lower() and not host.isalpha() and not host.isdigit():
        text = _without(text, host)
    return _without_identifiers(text)


def _without(text: str, name: str) -> str:
    """Return ``text`` with ``NODE`` for each word ``name``, which is in small letters."""
    # No regex: thousands of nodes may be refused, and each has a name of its own.
    lowered = text.translate(_SMALL)
    parts: list[str] = []
    at = 0
    while name and (found := lowered.find(name, at)) >= 0:
        end = found + len(name)
        is_part = text[found - 1 : found].isalnum() or text[end : end + 1].isalnum()
        parts += (text[at:found], text[found:end] if is_part else NODE)
        at = end
    return "".join((*parts, text[at:]))


@lru_cache(maxsize=64)
def _without_identifiers(text: str) -> str:
    return _UUID.sub("UID", text)
