"""The form of what people read: full sentences, each once in a status."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from winpool.api.status import WindowsNodePoolStatus

_FIELDS: Final = ("spec.", "nodeSelector", "nodeInfo.", "metadata.", "system:", "containerd ", "registry.")
"""What a sentence may begin with in place of a capital or a number: names."""

_OF_OTHERS: Final = frozenset({"WriteRefused", "PodListFailing"})
"""Issues that quote the API server, which joins its words as it likes."""

_END: Final = re.compile(r"(?<=[.]) (?=[A-Z0-9])")
_COMMAND: Final = re.compile(r": kubectl \S.*$")


def is_told_in_sentences(text: str) -> bool:
    """Whether a text begins as a sentence does, and ends as one: with a full stop, or with a command."""
    begins = text[:1].isupper() or text[:1].isdigit() or text.startswith(_FIELDS)
    return begins and (text.endswith((".", "…")) or _COMMAND.search(text) is not None)


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, without those that only refer to what says more."""
    return [each for each in _END.split(text) if not each.startswith(("See the condition", "See the issue"))]


def faults_of(status: WindowsNodePoolStatus) -> Iterator[str]:
    """Yield what is not well said in a status."""
    yield from faults_of_texts(each.message for each in status.conditions)
    yield from faults_of_texts(text for each in status.issues for text in (each.message, each.fix))
    yield from (
        f"parts are joined by ';': {text}"
        for text in (
            *(each.message for each in status.conditions if each.type != "Accepted"),
            *(each.message for each in status.issues if each.reason not in _OF_OTHERS),
        )
        if "; " in text
    )
    counts = Counter(each for condition in status.conditions for each in sentences(condition.message))
    # Issues of one reason may have more than one cause, of which a part is the same.
    counts.update(
        {(each.reason, said): said for each in status.issues for said in sentences(each.message)}.values()
    )
    yield from (f"told {number} times: {each}" for each, number in counts.items() if number > 1)


def faults_of_texts(texts: Iterable[str]) -> Iterator[str]:
    """Yield those texts that are no sentences."""
    yield from (f"no sentence: {text}" for text in texts if not is_told_in_sentences(text))
