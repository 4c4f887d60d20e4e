"""The amounts in a family: drawn once for each run, so that no two machines of a family are alike.

==========================  ==========================================================
What is written             What is drawn
==========================  ==========================================================
``120``                     120
``2..10``                   a number in between
``200..20000 log``          a number in between, each order of magnitude as often
``5..8% ceiling``           a share of what can be committed at most, in bytes
``90% ram``                 a share of RAM
``2..4% left``              a share of what ``base`` leaves of the ceiling
``512Mi``, ``1..2Gi``       an amount of memory
``[8Gi, 16Gi]``             one of a list, then as above
==========================  ==========================================================

Everything else stands for itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, log
from random import Random
from typing import Any, Final

from testbed.memory.pages import GIB, MIB

_NUMBER: Final = r"(?P<{}>\d+(?:[.]\d+)?)"
_AMOUNT: Final = re.compile(
    _NUMBER.format("low")
    + r"(?:[.][.]"
    + _NUMBER.format("high")
    + r")?(?P<unit>Mi|Gi|% ceiling|% ram|% left)?(?P<log> log)?",
    re.ASCII,
)


class Size(int):
    """Bytes, unlike a plain number."""

    def __str__(self) -> str:
        """Return it as the workloads of the machine model read it."""
        return f"{self / MIB:.3f}Mi"


@dataclass(slots=True)
class Draw:
    """Draws amounts. ``wholes`` are the bytes that shares are of, by their names."""

    random: Random
    wholes: dict[str, int]

    def number(self, written: Any) -> float:
        """Draw a number or a size; raise ValueError for anything else."""
        found = self.value(written)
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise ValueError(f"{written!r} is no amount")  # noqa: TRY004 the text is what is wrong
        return found

    def whole(self, written: Any) -> int:
        """Draw a whole number, both ends of a range included."""
        if isinstance(written, str) and (found := _AMOUNT.fullmatch(written)) and found["high"]:
            return self.random.randint(int(found["low"]), int(found["high"]))
        return int(self.number(written))

    def value(self, written: Any) -> Any:
        """Draw what is written; what is no amount stands for itself."""
        if isinstance(written, list):
            return self.value(self.random.choice(written))
        if not isinstance(written, str) or (found := _AMOUNT.fullmatch(written)) is None:
            return written
        low = float(found["low"])
        number = low if found["high"] is None else self._between(low, float(found["high"]), found["log"])
        match found["unit"]:
            case None:
                return number
            case "Mi":
                return Size(number * MIB)
            case "Gi":
                return Size(number * GIB)
            case share:
                return Size(number / 100 * self.wholes[share.removeprefix("% ")])

    def values(self, written: Mapping[str, Any]) -> dict[str, Any]:
        """Draw each value of a map, sizes as text, and rates as whole numbers, as workloads want them."""
        drawn = {name: self.value(each) for name, each in written.items()}
        return {name: _as_written(name, each) for name, each in drawn.items()}

    def _between(self, low: float, high: float, is_log: str | None) -> float:
        if is_log:
            return exp(self.random.uniform(log(low), log(high)))
        return self.random.uniform(low, high)


def _as_written(name: str, value: Any) -> Any:
    if isinstance(value, Size):
        return str(value)
    return round(value) if name.endswith("PerSecond") and isinstance(value, float) else value
