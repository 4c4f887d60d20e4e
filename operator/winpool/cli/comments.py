"""Finds the comments in manifests that are for winpool, such as ``# winpool.dev/audit-ignore: W13: a cache``.

YAML drops comments. They are looked for in the text, and those inside of strings are left out. All of it is
done once for each line, since a file may consist of comments.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections import deque
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import yaml

from winpool.api.keys import GROUP

if TYPE_CHECKING:
    from collections.abc import Iterator

_COMMENT: Final = re.compile(rf"(?<![^ \t\n])#[ \t]*({re.escape(GROUP)}/[\w-]+):?([^\r\n]*)")
_NOTHING: Final = re.compile(r"[ \t]*(?:---[ \t]*)?(?:#.*)?\r?")
"""A line without a field."""


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment: its key, its text, its line, and the line of the field that it is about.

    That is the field in the same line, or the first one after it. ``position`` is that in the text.
    """

    key: str
    text: str
    line: int
    about: int
    position: int


def comments_in(text: str) -> deque[Comment]:
    """Return the comments for winpool in the text of a file, in their order."""
    found = list(_COMMENT.finditer(text))
    lines = text.split("\n") if found else []
    own = len(lines) - 1
    end, comments = len(text), deque[Comment]()
    for each in reversed(found):
        own, end = own - text.count("\n", each.start(), end), each.start()
        about = own
        while about < len(lines) and _NOTHING.fullmatch(lines[about]):
            about += 1
            if comments and 1 + about == comments[0].line:
                about = comments[0].about - 1
                break
        comments.appendleft(Comment(each[1], each[2].strip(), 1 + own, 1 + about, end))
    return comments


def taken(comments: deque[Comment], node: yaml.Node) -> list[Comment]:
    """Take the comments off that are before the end of a document; return those about a field of it.

    Those in its strings are none. Those at its end that are about the next document are left for that one.
    """
    found = []
    while comments and comments[0].position < node.end_mark.index:
        found.append(comments.popleft())
    strings = list(_strings(node, set())) if found else []
    found = [each for each in found if not _is_inside(each.position, strings)]
    last = node.end_mark.line + bool(node.end_mark.column)  # at column 0 the next document begins
    end = bisect(found, last, key=attrgetter("about"))
    comments.extendleft(reversed(found[end:]))
    return found[:end]


def _is_inside(position: int, strings: list[tuple[int, int]]) -> bool:
    place = bisect(strings, (position + 1,)) - 1
    return place >= 0 and position < strings[place][1]


def _strings(node: yaml.Node, seen: set[int]) -> Iterator[tuple[int, int]]:
    """Yield where the strings below ``node`` begin and end, in their order; each once."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.ScalarNode):
        yield node.start_mark.index, node.end_mark.index
        return
    for each in node.value:
        for inner in each if isinstance(each, tuple) else (each,):
            yield from _strings(inner, seen)
