"""``make bench-pressure``: races all families over their seeds, and writes one table for each family."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.errors import BenchError
from bench.pressure.figures import HEADER, as_figures, cells, healthy_share, rows_of
from bench.pressure.race import Result, race
from bench.pressure.scene import FAMILIES, Family, families
from bench.report import Report


@dataclass(frozen=True, slots=True)
class PressureOptions:
    """What to race. ``seeds`` are first and last; no ``names`` are all families of the directory."""

    seeds: range
    names: Sequence[str] = ()
    directory: Path = FAMILIES
    max_pods: int = 3
    contenders: Sequence[str] = ()


def run_pressure(options: PressureOptions, *, report: Report) -> dict[str, Any]:
    """Race, print the tables, and return the figures. Raises BenchError where a family is not known."""
    known = families(options.directory)
    if missing := set(options.names) - {each.name for each in known}:
        raise BenchError(f"there is no family {', '.join(sorted(missing))} in {options.directory}")
    chosen = [each for each in known if not options.names or each.name in options.names]
    results = list(_races(chosen, options, report))
    rows = rows_of(chosen, results)
    for family in chosen:
        of_family = [row for row in rows if row.family is family]
        kind = "healthy" if family.healthy else f"harmful; an eviction helps: {family.helps}"
        report.table(f"{family.name} ({kind}). {family.about}", HEADER, [cells(row) for row in of_family])
    share = healthy_share(chosen, results)
    report.say(f"{100 * share:.0f} % of the node-hours are of healthy families")
    return {"bench": "pressure", **as_figures(rows), "healthy_share": share}


def _races(chosen: Sequence[Family], options: PressureOptions, report: Report) -> Iterator[Result]:
    """Yield the results as they come, from as many processes as there are cores."""
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        racing = [
            pool.submit(race, family, seed, max_pods=options.max_pods, only=options.contenders)
            for family in sorted(chosen, key=lambda each: not each.healthy)
            for seed in options.seeds
        ]
        for number, each in enumerate(as_completed(racing), start=1):
            yield from each.result()
            if number % max(1, len(racing) // 20) == 0:
                report.say(f"{number} of {len(racing)} machines raced")
