"""The fields of a workload as people write them.

Sizes are a small part of Kubernetes' quantities, with a unit, so that a slip is refused. The official client
has a parser for all of them, and brings an HTTP client with it.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, PlainValidator

from testbed.memory.pages import GIB, KIB, MIB, TIB

_SIZE: Final = re.compile(r"([0-9]{1,10}(?:[.][0-9]{1,3})?)(Ki|Mi|Gi|Ti)", re.ASCII)
_UNITS: Final = {"Ki": KIB, "Mi": MIB, "Gi": GIB, "Ti": TIB}
_MOST: Final = 16 * TIB
"""Larger than any machine; what is above it is a slip of the unit, and makes numbers no reader could hold."""

_DAYS: Final = 24 * 60 * 60
_MOST_SECONDS: Final = 365 * _DAYS
_LEAST_USE_SECONDS: Final = 0.1
"""Faster than that no program goes through its memory, and at 0 nothing could be divided by it."""


def parse_size(given: Any) -> int:
    """Return the bytes of a size such as ``200Mi`` or ``1.5Gi``.

    Raises:
        ValueError: it is no such size; the text says what is allowed.

    """
    found = _SIZE.fullmatch(given) if isinstance(given, str) else None
    if found is None:
        raise ValueError(
            f"{_short(given)} is not a size: write a number with Ki, Mi, Gi or Ti, such as 200Mi"
        )
    size = int(Fraction(found[1]) * _UNITS[found[2]])
    if size > _MOST:
        raise ValueError(f"{given!r} is more than 16Ti")
    return size


def _number(given: Any) -> Any:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise ValueError(f"{_short(given)} is not a number")  # noqa: TRY004 pydantic reports ValueErrors
    return given


def _short(given: Any) -> str:
    """Return what was given, as far as a message has room for it."""
    text = repr(given)
    return text if len(text) <= 40 else f"{text[:40]}…"


Size = Annotated[int, PlainValidator(parse_size)]
Percent = Annotated[float, BeforeValidator(_number), Field(ge=0, le=100)]
Seconds = Annotated[float, BeforeValidator(_number), Field(ge=0, le=_MOST_SECONDS)]
Duration = Annotated[float, BeforeValidator(_number), Field(gt=0, le=_MOST_SECONDS)]
UseSeconds = Annotated[float, BeforeValidator(_number), Field(ge=_LEAST_USE_SECONDS, le=_MOST_SECONDS)]
PerSecond = Annotated[int, BeforeValidator(_number), Field(ge=0, le=1_000_000)]
