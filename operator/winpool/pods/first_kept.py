"""Keeps the first few names, for lists that people read."""

from __future__ import annotations

from bisect import bisect_left


def keep_first(names: list[str], name: str, *, limit: int) -> None:
    """Insert ``name`` in order into ``names``, each once, and keep the first ``limit``."""
    if len(names) == limit and name > names[-1]:
        return
    place = bisect_left(names, name)
    if place == len(names) or names[place] != name:
        names.insert(place, name)
        del names[limit:]
