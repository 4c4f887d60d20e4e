"""Which nodes a verb is for: a number, a part, names, or all; drawn by a seed, so that it can be repeated.

Pure.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Annotated, Any, Final

from pydantic import PlainValidator

ALL: Final = "all"
_PERCENT: Final = re.compile(r"(\d{1,3}(?:\.\d+)?)%")
_NAME: Final = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?")
_ALLOWED: Final = "a number of nodes (3), a part of them (10%), a name, a list of names, or all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What was asked for; exactly one of the fields is set, none of them means all."""

    count: int | None = None
    percent: float | None = None
    names: tuple[str, ...] | None = None


def parse_selection(given: Any) -> Selection:
    """Read a selection as people and JSON write it.

    Raises:
        ValueError: it is none; the text says what is allowed.

    """
    if isinstance(given, Selection):
        return given
    if isinstance(given, int) and not isinstance(given, bool) and given > 0:
        return Selection(count=given)
    if isinstance(given, str):
        return _parse_text(given)
    if isinstance(given, Sequence) and given and all(isinstance(name, str) for name in given):
        return Selection(names=tuple(_name(name) for name in given))
    raise ValueError(f"{given!r} is not {_ALLOWED}")


def _parse_text(text: str) -> Selection:
    if text == ALL:
        return Selection()
    if text.isdecimal() and int(text) > 0:
        return Selection(count=int(text))
    if found := _PERCENT.fullmatch(text):
        percent = float(found[1])
        if not 0 < percent <= 100:
            raise ValueError(f"{text} is not a part of the nodes: more than 0%, at most 100%")
        return Selection(percent=percent)
    return Selection(names=(_name(text),))


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(f"{text!r} is not {_ALLOWED}")
    return text


Nodes = Annotated[Selection, PlainValidator(parse_selection)]
"""A field of a model that holds a selection."""


def choose(candidates: Sequence[str], *, selection: Selection, seed: object) -> tuple[str, ...]:
    """Draw from the candidates, whose order does not matter; the result is sorted.

    A part is rounded down, but is one node at least where there is any. Names are taken as they are:
    whoever names a node means it, candidate or not.

    Raises:
        ValueError: more nodes are asked for than there are candidates.

    """
    if selection.names is not None:
        return tuple(sorted(set(selection.names)))
    pool = sorted(candidates)
    wanted = len(pool)
    if selection.count is not None:
        wanted = selection.count
    elif selection.percent is not None:
        wanted = min(len(pool), max(1, int(len(pool) * selection.percent / 100)))
    if wanted > len(pool):
        raise ValueError(f"{wanted} nodes are asked for, and there are {len(pool)} to choose from")
    return tuple(sorted(Random(str(seed)).sample(pool, wanted)))
