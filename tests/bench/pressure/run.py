"""``make bench-pressure``: races all families over their seeds, and writes one table for each family.

It also writes a table of the chief contenders as Markdown, so that no figure on a page is typed by hand.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from os.path import relpath
from pathlib import Path
from typing import Any, Final

from bench.errors import BenchError
from bench.pressure.figures import HEADER, as_figures, cells, healthy_share, page, rows_of
from bench.pressure.operator_node import VARIANTS
from bench.pressure.race import BESIDE, Result, race
from bench.pressure.scene import FAMILIES, Family, families
from bench.pressure.targets import targets_of
from bench.pressure.virtual import MAX_PODS
from bench.report import Report
from bench.targets import told

RIVALS_SEEDS: Final = 60
"""Of so many machines of a family, the first, all contenders are raced, and of the others winpool alone."""
RESULTS: Final = Path(".results")
"""Below the directory of the run; ``make bench-pressure WRITE=1`` copies what is there into the page."""


@dataclass(frozen=True, slots=True)
class PressureOptions:
    """What to race. ``seeds`` are first and last; no ``names`` are all families of the directory."""

    seeds: range
    names: Sequence[str] = ()
    directory: Path = FAMILIES
    max_pods: int = MAX_PODS
    contenders: Sequence[str] = ()


def run_pressure(options: PressureOptions, *, report: Report) -> dict[str, Any]:
    """Race, print the tables, write the page, and return the figures.

    Raises BenchError where a family is not known.
    """
    wanted = chosen(options)
    results = list(_races(wanted, options, report))
    rows = rows_of(wanted, results)
    for family in wanted:
        of_family = [row for row in rows if row.family is family]
        kind = "healthy" if family.healthy else f"harmful; an eviction helps: {family.helps}"
        report.table(f"{family.name} ({kind}). {family.about}", HEADER, [cells(row) for row in of_family])
    targets = targets_of(rows, max_pods=options.max_pods)
    report.targets(targets)
    share = healthy_share(wanted, results)
    report.say(f"{100 * share:.0f} % of the node-hours are of healthy families")
    limited = f"-{options.max_pods}" if options.max_pods != MAX_PODS else ""
    written = RESULTS / f"bench-pressure-{options.directory.name}{limited}.md"
    written.parent.mkdir(exist_ok=True)
    written.write_text(page(rows, command=_command(options), share=share))
    report.say(f"the table for docs/reference/memory-benchmark-figures.md is in {written}")
    return {
        "bench": "pressure",
        **as_figures(rows),
        "healthy_share": share,
        **{each.name: each.value for each in targets},
        **told(targets),
    }


def chosen(options: PressureOptions) -> list[Family]:
    """Return the families to race. Raises BenchError where one is not known."""
    known = families(options.directory)
    if missing := set(options.names) - {each.name for each in known}:
        raise BenchError(f"there is no family {', '.join(sorted(missing))} in {options.directory}")
    return [each for each in known if not options.names or each.name in options.names]


def _command(options: PressureOptions) -> str:
    """Return what a person types to write the same page; defaults of the Makefile are left out."""
    default = PressureOptions(options.seeds)
    given = {
        "SEEDS": str(len(options.seeds)),
        "FIRST_SEED": str(options.seeds.start) if options.seeds.start != 1 else "",
        "FAMILY": f'"{" ".join(options.names)}"' if options.names else "",
        "FAMILIES": relpath(options.directory) if options.directory != default.directory else "",
        "MAX_PODS": str(options.max_pods) if options.max_pods != default.max_pods else "",
        "WRITE": "1",
    }
    return " ".join(["make bench-pressure", *(f"{name}={text}" for name, text in given.items() if text)])


def _races(wanted: Sequence[Family], options: PressureOptions, report: Report) -> Iterator[Result]:
    """Yield the results as they come, from as many processes as there are cores."""
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        racing = [
            pool.submit(race, family, seed, max_pods=options.max_pods, only=_contenders(number, options))
            for family in sorted(wanted, key=lambda each: not each.healthy)
            for number, seed in enumerate(options.seeds)
        ]
        for number, each in enumerate(as_completed(racing), start=1):
            yield from each.result()
            if number % max(1, len(racing) // 20) == 0:
                report.say(f"{number} of {len(racing)} machines raced")


def _contenders(number: int, options: PressureOptions) -> Sequence[str]:
    """Return who is raced on the machine of that number of a family; nobody stands for all."""
    if options.contenders or number < RIVALS_SEEDS:
        return options.contenders
    return [name for each in VARIANTS for name in (each.name, each.name + BESIDE)]
