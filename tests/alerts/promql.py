"""What an expression of PromQL asks for: names of metrics, and the labels asked of each.

No parser. Prometheus itself reads every expression when the cases run; this is to compare names with the
table of metrics, and has to understand only what our own expressions use.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_KEYWORDS: Final = frozenset({"and", "or", "unless", "bool", "offset"})
_LABEL_LIST: Final = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_SELECTOR: Final = re.compile(r"(?<![\w.:])([a-zA-Z_:][\w:]*)\s*(?:\{([^}]*)\})?(?!\s*\(|[\w:])")
_MATCHER: Final = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"')


@dataclass(frozen=True, slots=True)
class Selector:
    """A metric that an expression asks for, with the values of labels that it asks for."""

    metric: str
    matchers: tuple[tuple[str, str], ...] = ()


def selectors(expression: str) -> Iterator[Selector]:
    """Yield every metric of the expression, with its matchers."""
    for name, matchers in _SELECTOR.findall(_LABEL_LIST.sub("", expression)):
        if name not in _KEYWORDS:
            yield Selector(name, tuple(_MATCHER.findall(matchers)))


def grouping_labels(expression: str) -> frozenset[str]:
    """Return the labels that the expression groups or joins by."""
    lists = _LABEL_LIST.findall(expression)
    return frozenset(label.strip() for labels in lists for label in labels.split(",") if label.strip())
