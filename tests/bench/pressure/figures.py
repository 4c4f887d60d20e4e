"""The figures of many races: for each family and contender, means with their 95 % intervals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, sqrt
from statistics import fmean, stdev
from typing import Any, Final

from bench.pressure.race import Result
from bench.pressure.scene import Family

Z_95: Final = 1.96


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean of ``count`` numbers; ``half`` is half of its 95 % interval."""

    value: float
    half: float
    count: int

    def __str__(self) -> str:
        """Write it as a table shows it."""
        if not self.count:
            return "-"
        digits = 0 if abs(self.value) >= 10 else 2
        return (
            f"{self.value:.{digits}f} ± {self.half:.{digits}f}" if self.half else f"{self.value:.{digits}f}"
        )


def mean_of(numbers: Iterable[float]) -> Mean:
    """Return the mean of what is a number."""
    found = [float(each) for each in numbers if not isnan(each)]
    if not found:
        return Mean(0.0, 0.0, 0)
    half = Z_95 * stdev(found) / sqrt(len(found)) if len(found) > 1 else 0.0
    return Mean(fmean(found), half, len(found))


@dataclass(frozen=True, slots=True)
class Row:
    """One contender in one family, over all seeds."""

    family: Family
    contender: str
    results: Sequence[Result]

    def mean(self, of: Callable[[Result], float]) -> Mean:
        """Return the mean of a number of each run."""
        return mean_of(map(of, self.results))

    @property
    def evicting_runs(self) -> int:
        """In how many runs it evicted."""
        return sum(each.evictions > 0 for each in self.results)

    @property
    def stale(self) -> int:
        """How many evictions of all runs were decided on measurements that were too old."""
        return sum(each.stale for each in self.results)

    @property
    def false_unattributed_runs(self) -> int:
        """In how many runs it said that memory belongs to no pod though nothing outside of pods had grown."""
        return sum(each.unattributed > 0 for each in self.results)


def rows_of(families: Sequence[Family], results: Iterable[Result]) -> list[Row]:
    """Return a row for each family and contender, in the order in which they came."""
    known = {each.name: each for each in families}
    found: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for each in results:
        found[each.family, each.contender].append(each)
    order = {name: number for number, name in enumerate(known)}
    return [
        Row(known[family], contender, sorted(runs, key=lambda run: run.seed))
        for (family, contender), runs in sorted(found.items(), key=lambda item: order[item[0][0]])
    ]


HEADER: Final = (
    "Contender",
    "Thrashing, s",
    "Denied, s",
    "Evictions",
    "Innocent",
    "Runs with evictions",
    "Lead, s",
    "Flips an hour",
    "False Unattributed",
    "Against a budget",
    "Stale",
)


def cells(row: Row) -> list[str]:
    """Return the cells of a row of the table."""
    return [
        row.contender,
        str(row.mean(lambda each: each.thrashing)),
        str(row.mean(lambda each: each.denied)),
        str(row.mean(lambda each: each.evictions)),
        str(row.mean(lambda each: each.innocent)),
        f"{row.evicting_runs} of {len(row.results)}",
        str(row.mean(lambda each: each.lead)),
        str(row.mean(lambda each: 3600 * each.flips / each.seconds)),
        str(row.false_unattributed_runs),
        str(row.mean(lambda each: each.violations)),
        str(row.stale),
    ]


def healthy_share(families: Sequence[Family], results: Iterable[Result]) -> float:
    """Return which part of all node-hours is of healthy families."""
    healthy = {each.name for each in families if each.healthy}
    seconds = {(each.family, each.seed): each.seconds for each in results}
    whole = sum(seconds.values())
    return sum(each for (family, _), each in seconds.items() if family in healthy) / whole if whole else 0.0


def as_figures(rows: Sequence[Row]) -> Mapping[str, Any]:
    """Return the means as one flat object, to compare runs by name."""
    found: dict[str, Any] = {}
    for row in rows:
        name = f"{row.family.name}_{row.contender}".lower()
        key = "".join(each if each.isalnum() else "_" for each in name.replace(" + ", "_and_"))
        found[f"{key}_harm_seconds"] = row.mean(lambda each: each.harm).value
        found[f"{key}_evictions"] = row.mean(lambda each: each.evictions).value
        found[f"{key}_innocent"] = row.mean(lambda each: each.innocent).value
        found[f"{key}_stale"] = row.stale
    return found
