"""Explains a selector that matches no Windows node: which labels the nodes have that come nearest to it.

That is right where a pool starts from zero nodes, and what a mistake in a label looks like. Which of the two
it is only a person can say, so the pool stays Ready and the issue names what comes nearest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from heapq import nsmallest
from typing import Final

from winpool.api.fields import is_own
from winpool.api.selector import LabelRequirement, NodeSelector
from winpool.api.text import grouped

NEAREST: Final = 4
"""As many labels as a sentence bears."""

UNMET_TOLD: Final = 3
"""So many requirements are explained. Once these are met, the next pass explains the others."""

COMPARED: Final = 50
"""So many keys or values are compared for one requirement, the most frequent first. A cluster has some
dozens; whoever invents more on a node must not cost us more: a comparison takes a tenth of a millisecond."""

CONSIDERED: Final = 500
"""So many keys or values, the most frequent, are looked at for those to compare."""

CLIPPED: Final = 32
"""Characters that are compared. The cost of a comparison grows with the square of them."""

REMEMBERED: Final = 64
"""Results that are kept: passes of a pool that selects nothing ask the same again and again."""

CUTOFF: Final = 0.6
"""How alike two texts have to be, from 0 to 1. It is difflib's own default."""


def nearest(selector: NodeSelector, nodes: Sequence[Mapping[str, str]]) -> str:
    """Say what the nodes with these labels have in place of what the selector asks for.

    The nearest are those that meet the most of it. The text does not depend on the order of the nodes, nor,
    as long as no more than COMPARED differ, on how many are alike.
    """
    if not nodes:
        return "The cluster has no Windows nodes."
    asked = selector.requirements
    distances = [_distance(asked, labels) for labels in nodes]
    shortest = min(distances)
    near = [labels for labels, distance in zip(nodes, distances, strict=True) if distance == shortest]
    return " ".join(_instead(asked[place], near) for place in shortest[2][:UNMET_TOLD])


def _distance(
    asked: Sequence[LabelRequirement], labels: Mapping[str, str]
) -> tuple[int, int, tuple[int, ...]]:
    """Return how far a node is: how much it does not meet, how many keys it lacks, and what that is."""
    unmet = tuple([place for place, each in enumerate(asked) if not each.is_met_by(labels)])
    return len(unmet), sum(asked[place].key not in labels for place in unmet), unmet


def _instead(asked: LabelRequirement, near: Sequence[Mapping[str, str]]) -> str:
    """Say what the nearest nodes have in place of ``asked``, which none of them meets."""
    key = asked.key
    values = Counter(labels[key] for labels in near if key in labels)
    wanted_values = sorted(each for each in asked.values if each is not None)
    if asked.is_wanted is not bool(wanted_values):  # NotIn or DoesNotExist
        return f"It excludes {_listed(key, sorted(values))}, which the nearest Windows nodes have."
    wanted = f"It asks for {_listed(key, wanted_values) if wanted_values else f'the label {key}'}"
    if values:
        return f"{wanted}. The nearest Windows nodes have {_listed(key, _closest(wanted_values, values))}."
    keys = _alike(key, Counter(each for labels in near for each in labels))
    instead = f", but {', '.join(keys)}" if keys else ""
    return f"{wanted}. The nearest Windows nodes have no label {key}{instead}."


def _listed(key: str, values: Sequence[str]) -> str:
    """Write the first of these labels as kubectl does."""
    more = ", …" if len(values) > NEAREST else ""
    return ", ".join(f"{key}={value}" for value in values[:NEAREST]) + more


def _closest(wanted: Sequence[str], values: Counter[str]) -> list[str]:
    """Return some of ``values``, those first that are most like one that is wanted."""
    alike = _close_matches(tuple(wanted[:NEAREST]), _most_frequent(values))
    return list(dict.fromkeys((*alike, *nsmallest(NEAREST + 1, values))))


def _alike(key: str, keys: Counter[str]) -> list[str]:
    """Return those of ``keys`` whose name is like that of ``key``, whatever stands before the slash."""
    names = grouped((_name_of(each), each) for each in _most_frequent(keys) if not is_own(each))
    close = _close_matches((_name_of(key),), tuple(names))
    return [each for name in close for each in sorted(names[name])][:NEAREST]


def _most_frequent(texts: Counter[str]) -> tuple[str, ...]:
    return tuple(nsmallest(CONSIDERED, texts, key=lambda each: (-texts[each], each)))


@lru_cache(REMEMBERED)
def _close_matches(wanted: tuple[str, ...], texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of ``texts``, the most frequent first, that are like one that is wanted.

    Each that is wanted is compared with its share: half of them the most frequent, half of them those of the
    others that begin most like it.
    """
    share = COMPARED // len(wanted)
    frequent, others = texts[: share // 2], texts[share // 2 :]
    found: list[str] = []
    for each in wanted:
        begin_alike = sorted(others, key=lambda text: -_alike_from_the_start(each, text))
        chosen = (*frequent, *begin_alike[: share - len(frequent)])
        compared = grouped((text[:CLIPPED], text) for text in chosen)
        close = get_close_matches(each[:CLIPPED], compared, n=NEAREST, cutoff=CUTOFF)
        found += [text for clipped in close for text in compared[clipped]]
    return tuple(dict.fromkeys(found))


def _alike_from_the_start(one: str, other: str) -> int:
    """Return how many of the first characters are the same in both."""
    pairs = zip(one[:CLIPPED], other[:CLIPPED], strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other), CLIPPED))


def _name_of(key: str) -> str:
    return key.rpartition("/")[2]
