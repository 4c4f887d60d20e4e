"""``make bench-pressure-sweep``: races again with each number that decides a quarter lower, and higher.

Most of these numbers are constants, and no pool sets them. The sweep sets them on the modules that use them
for the time of a race, and restores them. Parameters of the product for this alone would be options that no
one needs.

A share that is used is changed by what it leaves: 90 % becomes 87.5 and 92.5 %. A small whole number is
changed by one. Evictions are sums of all races, and harm is the mean of the races in harmful families.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from types import ModuleType
from typing import Any, Final

from bench.errors import BenchError
from bench.pressure.operator_node import VARIANTS
from bench.pressure.race import Result, race_by
from bench.pressure.run import PressureOptions, chosen
from bench.pressure.scene import FAMILIES, Family
from bench.report import Report
from winpool.api import memory_pressure
from winpool.api.quantity import bytes_of
from winpool.features.memory import detector, levels, settings, victims

FACTORS: Final = {"lower": 0.75, "higher": 1.25}
PROCESSES: Final = 2
NOT_OURS: Final = ("SYSTEM_PRIORITY",)
"""Numbers of Kubernetes."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number that decides: a constant of a ``module``, a map of such, or a ``field`` of a model there."""

    module: str
    name: str
    field: str = ""

    def __str__(self) -> str:
        """Return its name in tables, and in lower_snake_case that in figures."""
        return f"{self.name.lower()}_{self.field}" if self.field else self.name

    @property
    def value(self) -> Any:
        """What it is now."""
        found = getattr(sys.modules[self.module], self.name)
        return getattr(found, self.field) if self.field else found

    @contextmanager
    def scaled(self, factor: float) -> Iterator[None]:
        """Have it be so many times as large, wherever it is used."""
        before = getattr(sys.modules[self.module], self.name)
        after: Any = _scaled(self.field, self.value, factor)
        if self.field:
            after = before.model_copy(update={self.field: after})
        users = _users(self.name, id(before))
        for each in users:
            setattr(each, self.name, after)
        try:
            yield
        finally:
            for each in users:
                setattr(each, self.name, before)


@cache
def _users(name: str, value: int) -> list[ModuleType]:
    """Return the modules of the product that have this value by this name; ``value`` is its id."""
    product = [module for each, module in sys.modules.items() if each.startswith("winpool.")]
    return [each for each in product if id(vars(each).get(name)) == value]


def _scaled(field: str, value: Any, factor: float) -> Any:
    if isinstance(value, Mapping):
        return {key: _scaled(field, each, factor) for key, each in value.items()}
    if isinstance(value, str):
        return round(bytes_of(value) * factor)
    if field.endswith("used_percent"):
        return 100 - (100 - value) * (2 - factor)
    if field or isinstance(value, float):
        return value * factor
    return round(value * factor) if round(value * factor) != value else value + (1 if factor > 1 else -1)


def numbers() -> list[Number]:
    """Return all that the sweep changes: what a pool can set, and each constant of what decides."""
    fields = [
        Number(settings.__name__, name, field)
        for name in ("COMMIT", "PHYSICAL")
        for field in type(getattr(settings, name)).model_fields
    ]
    constants = [
        Number(module.__name__, name)
        for module in (levels, victims, detector, settings)
        for name in module.__annotations__
        if name not in NOT_OURS and isinstance(getattr(module, name), int | float | Mapping)
    ]
    return [*fields, Number(memory_pressure.__name__, "DEFAULT_SOFT_GRACE_SECONDS"), *constants]


@dataclass(frozen=True, slots=True)
class Change:
    """A number that is changed; none for the defaults."""

    number: Number | None = None
    way: str = ""

    @property
    def value(self) -> str:
        """The value that it becomes, for people."""
        if self.number is None:
            return ""
        with self.number.scaled(FACTORS[self.way]):
            value = self.number.value
        values = value.values() if isinstance(value, Mapping) else [value]
        return ", ".join(f"{each:.10g}" for each in values)

    def in_force(self) -> AbstractContextManager[None]:
        """Have the number changed for a while."""
        return self.number.scaled(FACTORS[self.way]) if self.number else nullcontext()


FIGURES: Final = ("false_evictions", "harm_seconds", "innocent")


def figures_of(results: Sequence[Result], healthy: frozenset[str]) -> tuple[float, ...]:
    """Return the ``FIGURES`` of all races with one change; ``healthy`` are the names of such families."""
    harmful = [each for each in results if each.family not in healthy]
    return (
        sum(each.evictions for each in results if each.family in healthy),
        fmean(each.harm for each in harmful) if harmful else 0.0,
        sum(each.innocent for each in harmful),
    )


def run_sweep(options: PressureOptions, *, report: Report) -> dict[str, Any]:
    """Race with each number changed, print the table, and return the figures.

    Raises BenchError where a family is not known.
    """
    families = chosen(options)
    healthy = frozenset(each.name for each in families if each.healthy)
    changes = [Change(), *(Change(each, way) for each in numbers() for way in FACTORS)]
    races = _races(changes, families, options, report)
    found = {change: figures_of(races[change], healthy) for change in changes}
    defaults = found[changes[0]]
    rows = [
        (
            "defaults" if each.number is None else str(each.number),
            each.value,
            *_against(found[each], defaults),
        )
        for each in changes
    ]
    report.table(
        "With each number changed alone, and against the defaults",
        ("Number", "Value", "False evictions", "Harm, s", "Innocent"),
        rows,
    )
    return {
        "bench": "pressure_sweep",
        **{
            "_".join([str(each.number or "defaults").lower(), *([each.way] if each.way else []), name]): value
            for each in changes
            for name, value in zip(FIGURES, found[each], strict=True)
        },
    }


def _against(found: Sequence[float], defaults: Sequence[float]) -> list[str]:
    return [
        f"{value:.4g} ({value - default:+.3g})" if value != default else f"{value:.4g}"
        for value, default in zip(found, defaults, strict=True)
    ]


def _races(
    changes: Sequence[Change], families: Sequence[Family], options: PressureOptions, report: Report
) -> Mapping[Change, Sequence[Result]]:
    found: dict[Change, list[Result]] = defaultdict(list)
    with ProcessPoolExecutor(max_workers=PROCESSES) as pool:
        racing = [
            pool.submit(_race, changes, family, seed, options.contenders)
            for seed in options.seeds
            for family in sorted(families, key=lambda each: not each.healthy)
        ]
        for number, each in enumerate(as_completed(racing), start=1):
            for change, results in zip(changes, each.result(), strict=True):
                found[change] += results
            report.say(f"{number} of {len(racing)} machines raced with {len(changes)} sets of numbers")
    return found


def _race(
    changes: Sequence[Change], family: Family, seed: int, contenders: Sequence[str]
) -> list[list[Result]]:
    return race_by([each.in_force for each in changes], family, seed, only=contenders)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the sweep as the command line says; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.pressure.sweep", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2, help="how many machines of each family")
    parser.add_argument("--first-seed", type=int, default=1000, help="those of design begin at 1000")
    parser.add_argument("--families", type=Path, default=FAMILIES)
    parser.add_argument("--family", action="append", default=[], help="only this family, by its name")
    parser.add_argument("--contender", action="append", choices=[each.name for each in VARIANTS])
    given = parser.parse_args(arguments)
    options = PressureOptions(
        seeds=range(given.first_seed, given.first_seed + given.seeds),
        names=given.family,
        directory=given.families,
        contenders=given.contender or ("kubelets", "exporter-first"),
    )
    report = Report()
    try:
        figures = run_sweep(options, report=report)
    except BenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    report.result(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
