"""Amounts of memory: what a spec may say, what nodes report, and how people read it.

Two grammars. ``Memory`` is what a pool may declare: the few forms that people write, so that a slip is
refused. ``bytes_of`` reads whatever Kubernetes writes: ``16776756Ki``, ``1e3``, ``128974848000m``.

The official client has a parser (``kubernetes.utils.quantity``), but this is a pure feature: its package
brings a whole HTTP client, for a quarter of a second and 35 MiB. It also takes for numbers what the API
server refuses, such as ``1_000``, ``NaN`` and ``1K``. A test holds the two together.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, Final

import msgspec
from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from winpool.api.model import Rule

INT_OR_STRING: Final = "x-kubernetes-int-or-string"

KIB: Final = 2**10
MIB: Final = 2**20
GIB: Final = 2**30
TIB: Final = 2**40

MAX_MEMORY: Final = 16 * TIB
"""Half of the largest machines that clouds rent out, and more than half of a node is refused in any case:
what is above it is a slip of the unit."""

MAX_QUANTITY: Final = 2**63 - 1
"""What Kubernetes makes of every number that is larger.
https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/"""

_MEMORY_PATTERN: Final = "^[0-9]{1,20}(([.][0-9]{1,3})?(Ki|Mi|Gi|Ti|k|M|G|T))?$"
"""Parts of a byte are not there to be had, so a fraction needs a unit. Twenty digits are a number of
64 bits; what is longer is a slip, and costs the API server time."""


_QUANTITY: Final = re.compile(
    r"(?P<number>[+-]?(?:[0-9]{1,40}(?:[.][0-9]{0,40})?|[.][0-9]{1,40}))"
    r"(?:(?P<unit>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]{1,3}))?",
    re.ASCII,
)
"""The grammar of Kubernetes, bounded in length: nobody writes more digits, but anybody may write to a node's
status who can be a kubelet."""

_UNITS: Final = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    **{unit: Fraction(1000**power) for power, unit in enumerate("kMGTPE", start=1)},
    **{f"{unit}i": Fraction(1024**power) for power, unit in enumerate("KMGTPE", start=1)},
}

_REMEMBERED: Final = 4096
"""Texts that are not read again. Nodes of one kind report the same few amounts, and report them often."""


def bytes_of(quantity: int | str) -> int:
    """Return the whole bytes of a quantity as any part of Kubernetes writes it.

    Parts of a byte are rounded away from zero and what does not fit 64 bits is cut to
    ``MAX_QUANTITY``, as Kubernetes does. Raises ValueError where it is no quantity.
    """
    return quantity if isinstance(quantity, int) else _read(quantity)


def milli_of(quantity: int | str) -> int:
    """Return the thousandths of a quantity, such as those of a core: 250 for ``250m``, 2000 for ``2``.

    Rounded and cut as by ``bytes_of``. Raises ValueError where it is no quantity.
    """
    return _read(str(quantity), 1000)


@lru_cache(maxsize=_REMEMBERED)
def _read(quantity: str, parts: int = 1) -> int:
    found = _QUANTITY.fullmatch(quantity)
    if found is None:
        raise ValueError(
            f"{quantity[:64]!r} is not a quantity: write a number, with or without a unit such as Mi or Gi"
        )
    amount = (
        Fraction(found["number"]) * _UNITS[found["unit"] or ""] * Fraction(10) ** int(found["exponent"] or 0)
    )
    size = min(math.ceil(abs(amount * parts)), MAX_QUANTITY)
    return size if amount >= 0 else -size


def is_memory(value: int | str) -> bool:
    """Whether a spec may declare ``value`` as an amount of memory: the twin of the rule in CEL."""
    if isinstance(value, str) and not re.fullmatch(_MEMORY_PATTERN, value, re.ASCII):
        return False
    return 0 <= bytes_of(value) <= MAX_MEMORY


def exact(amount: int) -> str:
    """Return ``amount`` bytes to the byte, in the largest unit that needs no more than three decimals.

    The form in which two amounts are compared: what looks equal is equal.
    """
    for size, unit in _FOR_PEOPLE:
        thousandths, rest = divmod(abs(amount) * 1000, size)
        if abs(amount) >= size and not rest:
            return f"{_decimal(amount, thousandths)}{unit}"
    return str(amount)


def rounded(amount: int) -> str:
    """Return ``amount`` bytes with one decimal, in the unit that people use for it."""
    for size, unit in _FOR_PEOPLE:
        if abs(amount) >= size:
            return f"{_decimal(amount, (abs(amount) * 10 + size // 2) // size * 100)}{unit}"
    return str(amount)


_FOR_PEOPLE: Final = ((TIB, "Ti"), (GIB, "Gi"), (MIB, "Mi"), (KIB, "Ki"))
"""The largest first."""


def _decimal(amount: int, thousandths: int) -> str:
    whole, fraction = divmod(thousandths, 1000)
    sign = "-" if amount < 0 else ""
    return f"{sign}{whole}.{fraction:03}".rstrip("0").removesuffix(".")


class IntOrString(msgspec.Struct, frozen=True):
    """Lets a field be a whole number or a text, as Kubernetes' IntOrString and Quantity are.

    A structural schema has no unions but this one, which goes by a name of its own.
    """

    expected: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        # Strict, since 2.0 and True are neither for an API server.
        return core_schema.union_schema(
            [core_schema.int_schema(strict=True), core_schema.str_schema(strict=True)],
            custom_error_type="int_or_string_type",
            custom_error_message=self.expected,
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {INT_OR_STRING: True}


_FORMS: Final = "in bytes or with Ki, Mi, Gi or Ti, such as '512Mi' or '2Gi'"
_FRACTIONS: Final = "a number with a fraction needs a unit and quotes, such as '2.5Gi'"
_SENTENCE: Final = f"must be from 0 to 16Ti, {_FORMS}"
_POSITIVE_SENTENCE: Final = f"must be above 0 and at most 16Ti, {_FORMS}"
_IN_RANGE: Final = (
    f"(type(self) == int ? self >= 0 : string(self).matches('{_MEMORY_PATTERN}')) && "
    f"quantity(string(self)).compareTo(quantity('{MAX_MEMORY // TIB}Ti')) <= 0"
)

Memory = Annotated[
    int | str, IntOrString(f"{_SENTENCE}; {_FRACTIONS}"), Rule(_IN_RANGE, _SENTENCE, is_memory)
]
"""An amount of memory in a spec, as a whole number of bytes or as a text with a unit; ``bytes_of`` reads it.

The units of ten (k, M, G and T) are taken too; the sentence names those that people mean."""

PositiveMemory = Annotated[
    int | str,
    IntOrString(f"{_POSITIVE_SENTENCE}; {_FRACTIONS}"),
    Rule(
        f"{_IN_RANGE} && quantity(string(self)).isGreaterThan(quantity('0'))",
        _POSITIVE_SENTENCE,
        lambda value: is_memory(value) and bytes_of(value) > 0,
    ),
]
"""An amount of memory that cannot be 0."""
