"""Lengths of time as people write them: ``5s``, ``1m30s``, ``250ms``, or a number of seconds."""

import re
from typing import Annotated, Any, Final

from pydantic import PlainValidator

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_WHOLE: Final = re.compile(rf"(?:{_PART.pattern})+")


def parse_duration(given: Any) -> float:
    """Return seconds.

    Raises:
        ValueError: it is no length of time; the text says what is allowed.

    """
    if isinstance(given, int | float) and not isinstance(given, bool) and given >= 0:
        return float(given)
    if isinstance(given, str) and _WHOLE.fullmatch(given):
        return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(given))
    raise ValueError(f"{given!r} is not a length of time such as 5s, 1m30s, 250ms, or a number of seconds")


Seconds = Annotated[float, PlainValidator(parse_duration)]
"""A field of a model that holds a length of time."""
