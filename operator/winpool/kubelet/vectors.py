"""Reading the answer of Prometheus to an instant query: one number for each node.

https://prometheus.io/docs/prometheus/latest/querying/api/#instant-queries
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, Final

import msgspec

from winpool.kubelet.amounts import number_in
from winpool.kubelet.outcome import Outcome, PollError
from winpool.kubelet.summary import BROKEN

_Node = Annotated[str, msgspec.Meta(max_length=253)]
"""The value of the label that names the node."""

_Number = Annotated[str, msgspec.Meta(max_length=64)]
"""A number as text. Prometheus writes at most 24 characters."""

MOST_SERIES: Final = 20_000
"""Series of an answer: four times the nodes that Kubernetes supports in a cluster. An answer of the greatest
length has room for half a million, which take a third of a second and 80 MB to decode."""

_SERIES: Final = b'"metric"'
"""What each series of an answer has, written so by Prometheus. In a text the quotes have backslashes."""

_LABELS: Final = 64
"""Decoders that are kept, one for each label that a pool names. A pool names one or two."""


class Point(msgspec.Struct, frozen=True, gc=False):
    """The value of one node, and the time for which Prometheus has computed it, in seconds since 1970."""

    value: float
    at: float


@lru_cache(maxsize=_LABELS)
def _decoder(label: str) -> msgspec.json.Decoder[Any]:
    """Return a decoder that reads of each series only the label that names the node, and the value.

    A series has some three hundred bytes of labels, of which this one is needed.
    """
    labels = msgspec.defstruct("Labels", [("node", _Node | None, None)], rename={"node": label}, gc=False)
    series = msgspec.defstruct(
        "Series", [("metric", labels), ("value", tuple[float, _Number] | None, None)], gc=False
    )
    most = Annotated[list[series], msgspec.Meta(max_length=MOST_SERIES)]  # type: ignore[valid-type]
    data = msgspec.defstruct("Data", [("result", most)], tag_field="resultType", tag="vector")
    answer = msgspec.defstruct("Answer", [("data", data)], tag_field="status", tag="success")
    return msgspec.json.Decoder(answer)


def parse_vector(body: bytes | bytearray, *, label: str) -> dict[str, Point]:
    """Return the value of each node, by the series label that names it.

    A node that has no finite value, or more than one series, is not in it: which of two is right cannot be
    known.

    Raises PollError: TOO_LARGE for too many series, UNREADABLE for what is no answer with a vector.
    """
    if body.count(_SERIES) > MOST_SERIES:
        raise PollError(Outcome.TOO_LARGE, f"the answer has more than {MOST_SERIES} series")
    try:
        told = _decoder(label).decode(body)
    except BROKEN:
        raise PollError(Outcome.UNREADABLE, "the answer is not a vector of Prometheus") from None
    found: dict[str, Point | None] = {}
    for series in told.data.result:
        node = series.metric.node
        if node:
            found[node] = None if node in found else _point(series.value)
    return {node: point for node, point in found.items() if point is not None}


def _point(told: tuple[float, str] | None) -> Point | None:
    number = None if told is None else number_in(told[1])
    return None if told is None or number is None else Point(number, told[0])
