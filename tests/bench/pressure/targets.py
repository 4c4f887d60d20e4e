"""What is wanted of winpool on the machines of a run: each figure is the worst of its variants and families.

Evictions of healthy machines and the harm of others depend on which machines are drawn, so missing these is
told, and no failure. What must never be is a failure in any run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Final, TypeAlias

from bench.pressure.figures import Row, evictions, flips_an_hour, harm, innocent, mean_of
from bench.pressure.operator_node import VARIANTS, Variant
from bench.pressure.race import BESIDE, KUBELETS, NO_ONE, ORACLE, Result
from bench.targets import Target, at_most, exactly, of_the_machine

Rows: TypeAlias = Mapping[tuple[str, str], Row]
"""By family and contender."""

EVICTABLE: Final = ("slow-leak", "fast-leak", "commit-hog", "leak-among-mates", "page-storm")
"""Families whose culprit may be evicted, and is seen by all, or by those with an exporter."""
SMALL: Final = "small-growers"
"""It is one of them where ten pods of a node may be evicted."""
ENOUGH_PODS: Final = 10
FIRST: Final = ("slow-leak", "fast-leak", "commit-hog", "page-storm")
"""Here, an operator with an exporter is to be clearly before an armed kubelet."""

HEALTHY_RUNS: Final = 0.01
INNOCENT: Final = 0.05
WORSE_SECONDS: Final = 1.0
"""Not worse: with 95 % certainty the mean difference of harm is at most so much."""
OF_NO_ONE: Final = 0.25
OF_ORACLE: Final = 1.2
FLIPS_AN_HOUR: Final = 2.0
OF_KUBELET: Final = 0.5


def targets_of(rows: Sequence[Row], *, max_pods: int) -> list[Target]:
    """Return what is wanted of ``rows``; a figure is not measured without its families or contenders."""
    found = {(row.family.name, row.contender): row for row in rows}
    alone = [row for row in rows if row.contender in _BY_NAME]
    beside = [row for row in rows if row.contender.removesuffix(BESIDE) in _BY_NAME.keys() - {row.contender}]
    seen = [row for row in alone if _is_seen(row, max_pods=max_pods)]
    others = [row for row in alone if not _is_seen_by(row) and not row.family.healthy]
    exporters = [row for row in seen if _has_exporter(row)]
    first = [row for row in beside if row.family.name in FIRST and _has_exporter(row)]
    healthy = [[row for row in alone if row.family.healthy and row.contender == name] for name in _BY_NAME]
    return [
        _wanted("healthy_evicting_runs", map(_evicting_share, filter(None, healthy)), HEALTHY_RUNS),
        _wanted("innocent", (row.mean(innocent).value for row in seen), INNOCENT),
        _wanted("harm_above_kubelets_seconds", _above(seen, found, KUBELETS), WORSE_SECONDS),
        _wanted("harm_of_no_one", _ratios(exporters, found, NO_ONE, harm), OF_NO_ONE),
        _wanted("evictions_of_oracle", _ratios(seen, found, ORACLE, evictions), OF_ORACLE),
        _wanted("innocent_where_no_eviction_helps", (row.mean(innocent).value for row in others), 0),
        _wanted("flips_an_hour", (row.mean(flips_an_hour).value for row in alone), FLIPS_AN_HOUR),
        _wanted("beside_harm_above_kubelet_seconds", _above(beside, found, KUBELETS[:1]), WORSE_SECONDS),
        _wanted("beside_innocent_above_kubelet", _more_innocent(beside, found), 0),
        _wanted("beside_harm_of_kubelet", _ratios(first, found, KUBELETS[0], harm), OF_KUBELET),
        exactly("false_unattributed_runs", sum(row.false_unattributed_runs for row in alone), 0),
        exactly("against_a_budget", sum(each.violations for row in alone for each in row.results), 0),
        exactly("stale", sum(row.stale for row in rows), 0),
    ]


_BY_NAME: Final[Mapping[str, Variant]] = {each.name: each for each in VARIANTS}


def _wanted(name: str, values: Iterable[float], limit: float) -> Target:
    return of_the_machine(at_most(name, max(values, default=None), limit))


def _has_exporter(row: Row) -> bool:
    return len(_BY_NAME[row.contender.removesuffix(BESIDE)].sources) > 1


def _is_seen_by(row: Row) -> bool:
    """Whether the variant can see whose eviction ends the harm."""
    return row.family.helps == "all" or (row.family.helps == "exporter" and _has_exporter(row))


def _is_seen(row: Row, *, max_pods: int) -> bool:
    names = (*EVICTABLE, SMALL) if max_pods >= ENOUGH_PODS else EVICTABLE
    return row.family.name in names and _is_seen_by(row)


def _evicting_share(rows: Sequence[Row]) -> float:
    return sum(row.evicting_runs for row in rows) / sum(len(row.results) for row in rows)


def _above(rows: Iterable[Row], found: Rows, rivals: Sequence[str]) -> Iterator[float]:
    """Yield the upper end of how much more harm than the better rival, machine by machine."""
    for row in rows:
        better = min(
            (rival for name in rivals if (rival := found.get((row.family.name, name)))),
            key=lambda rival: rival.harm,
            default=None,
        )
        if better is not None:
            of_seed = {each.seed: each.harm for each in better.results}
            pairs = (each.harm - of_seed[each.seed] for each in row.results if each.seed in of_seed)
            difference = mean_of(pairs)
            yield difference.value + difference.half


def _ratios(rows: Iterable[Row], found: Rows, rival: str, of: Callable[[Result], float]) -> Iterator[float]:
    for row in rows:
        other = found.get((row.family.name, rival))
        if other is None:
            continue
        ours, theirs = row.mean(of).value, other.mean(of).value
        yield ours / theirs if theirs else inf if ours else 0.0


def _more_innocent(rows: Iterable[Row], found: Rows) -> Iterator[float]:
    for row in rows:
        kubelet = found.get((row.family.name, KUBELETS[0]))
        if kubelet is not None:
            yield row.mean(innocent).value - kubelet.mean(innocent).value
