"""The figures of many races: for each family and contender, means with their 95 % intervals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isnan, sqrt
from statistics import fmean, stdev
from typing import Any, Final

from bench.pressure.race import BESIDE, NO_ONE, ORACLE, Result
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
        digits = 0 if abs(self.value) >= 10 or not self.value else 2
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
    def harm(self) -> float:
        """The mean seconds of harm."""
        return self.mean(harm).value

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


def harm(result: Result) -> float:
    """Return the seconds of harm of a run."""
    return result.harm


def evictions(result: Result) -> float:
    """Return how many pods were evicted."""
    return result.evictions


def innocent(result: Result) -> float:
    """Return how many of them were not the cause."""
    return result.innocent


def flips_an_hour(result: Result) -> float:
    """Return how often the signal on the node has changed, in an hour."""
    return 3600 * result.flips / result.seconds


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
        str(row.mean(evictions)),
        str(row.mean(innocent)),
        f"{row.evicting_runs} of {len(row.results)}",
        str(row.mean(lambda each: each.lead)),
        str(row.mean(flips_an_hour)),
        str(row.false_unattributed_runs),
        str(row.mean(lambda each: each.violations)),
        str(row.stale),
    ]


CHIEF: Final = (
    NO_ONE,
    "kubelet hard",
    "kubelet soft",
    "RAM line",
    "kubelets",
    "kubelets" + BESIDE,
    "exporter-first",
    ORACLE,
)
"""The contenders on the page. All are too many for a table that people read."""
RIVALS: Final = CHIEF[:4]
OPERATORS: Final = CHIEF[4:7]


def page(rows: Sequence[Row], *, command: str, share: float) -> str:
    """Return the Markdown that a run writes for the page on the bench.

    ``share`` is that of the node-hours of healthy families. A cell of the operator is bold where it loses: it
    evicts in a healthy family, or one of its rivals leaves less harm.
    """
    seeds = sorted({each.seed for row in rows for each in row.results})
    shown = [name for name in CHIEF if any(row.contender == name for row in rows)]
    families = list({row.family.name: row.family for row in rows}.values())
    found = {(row.family.name, row.contender): row for row in rows}
    fewest = min(len(row.results) for row in rows)
    of_rivals = f", {fewest} of them with the rivals of winpool" if fewest < len(seeds) else ""
    lines = [
        f"Written by `{command}`: {len(seeds)} machines of each family, seeds {seeds[0]} to {seeds[-1]}"
        f"{of_rivals}. "
        f"{100 * share:.0f} % of the node-hours are of healthy families. "
        f"Evictions by winpool on stale or unknown data: {sum(row.stale for row in rows)}.",
    ]
    for title, is_healthy in (("Harmful family", False), ("Healthy family", True)):
        chosen = [each for each in families if each.healthy is is_healthy]
        if chosen:
            lines += ["", _line([title, *shown]), _line(["---"] * (len(shown) + 1))]
        for family in sorted(chosen, key=lambda each: each.name):
            of_family = {name: found[family.name, name] for name in shown}
            lines.append(_line([f"`{family.name}`", *_cells_on_page(of_family)]))
    return "\n".join(lines) + "\n"


def _cells_on_page(of_family: Mapping[str, Row]) -> Iterator[str]:
    """Yield a cell for each contender: seconds of harm, evictions, and innocent ones of them."""
    least = min((row.harm for name, row in of_family.items() if name in RIVALS), default=inf)
    for name, row in of_family.items():
        evicted, guiltless = (row.mean(of).value for of in (evictions, innocent))
        cell = f"{row.mean(harm)} / {evicted:.2g} / {guiltless:.2g}"
        loses = row.harm > least or (row.family.healthy and evicted > 0)
        yield f"**{cell}**" if name in OPERATORS and loses else cell


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


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
        found[f"{key}_harm_seconds"] = row.harm
        found[f"{key}_evictions"] = row.mean(evictions).value
        found[f"{key}_innocent"] = row.mean(innocent).value
        found[f"{key}_stale"] = row.stale
    return found
