"""``make bench-pressure-plots``: draws the first machine of each family, for the page on the bench.

A plot has what the machine uses where no one acts, and below it which pods a few contenders evict, and when.
The plots are part of the repository. A run fails if it draws anything else, or writes what it draws.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from math import ceil
from pathlib import Path
from shutil import copy
from typing import Any, Final

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.errors import BenchError
from bench.pressure.actors import LOOK_SECONDS
from bench.pressure.operator_node import VARIANTS, pressure_of
from bench.pressure.race import NO_ONE, Result, race
from bench.pressure.run import RESULTS, PressureOptions, chosen
from bench.pressure.scene import Family, Scene, scene_of
from bench.pressure.world import World
from bench.report import Report
from testbed.memory.reading import MemoryReading
from winpool.cli.memory_plot import MARKS, SHADES, Plot, days
from winpool.features.memory.replay import Change, ReplayedNode, What
from winpool.features.memory.settings import settings_of
from winpool.model.pressure import Axis, AxisPressure, Level, NodePressure, Reading

PLOTS: Final = Path(__file__).parents[3] / "docs" / "memory-benchmark"
CONTENDERS: Final = (NO_ONE, "kubelet hard", "kubelets", "exporter-first")
SEED: Final = 1
"""The first of those that the figures are made with."""
MISSED: Final = 3
"""The exit code where a plot of the repository is not what the run draws, as where a count is missed."""

_POINTS: Final = 600
"""Of a curve at most, about one for each pixel. Each is the reading with most commit since the one before."""
_EVICTIONS: Final = {True: ("#d55e00", "evicts a culprit"), False: ("#000000", "evicts an innocent pod")}
"""How the eviction of a culprit and that of another pod look."""


class _Picture(Plot):
    """The plot of a machine where no one acts, with the evictions of others below it."""

    def __init__(self, path: Path, scene: Scene, results: Sequence[Result]) -> None:
        super().__init__(str(path), settings_of(pressure_of(scene, VARIANTS[0], max_pods=3)))
        self._scene = scene
        self._results = results
        self._harmed: list[tuple[float, float]] = []
        """Seconds since the start: begin and end."""

    def watch(self, world: World) -> None:
        """Note what is used, and whether there is harm, until the end of the scene."""
        together = ceil(self._scene.seconds / LOOK_SECONDS / _POINTS)
        harmed, before, readings = 0, 0.0, list[MemoryReading]()
        while before < self._scene.seconds:
            world.step(min(before + LOOK_SECONDS, self._scene.seconds))
            if world.harm.seconds > harmed:
                begins = self._harmed.pop()[0] if self._harmed and self._harmed[-1][1] == before else before
                self._harmed.append((begins, world.now))
            harmed, before = world.harm.seconds, world.now
            readings.append(world.reading())
            if len(readings) == together:
                most = max(readings, key=lambda each: each.commit_total_bytes)
                self.add(most.time, [_as_node(most, self._scene)])
                readings = []

    def _figure(self, changes: Sequence[Change]) -> Figure:
        figure = Figure(figsize=(11, 5.4), layout="constrained")
        above, below = figure.subplots(2, sharex=True, height_ratios=(2, 1))
        self._draw(above, _title(self._scene), changes)
        above.set_ylim(0, 104)
        above.tick_params(bottom=False)
        self._draw_evictions(below)
        for axes in (above, below):
            for begins, ends in self._harmed:
                axes.axvspan(*days((begins, ends)), color=SHADES[Level.HARD], label="harm", zorder=0)
        below.set_xlim(*days((0, self._scene.seconds)))
        below.xaxis.set_major_formatter(lambda day, _: "{}:{:02}".format(*divmod(round(day * 1440), 60)))
        below.set_xlabel("hours and minutes since the start")
        labels: dict[str, Artist] = {}
        for axes in (above, below):
            handles, found = axes.get_legend_handles_labels()
            labels |= dict(zip(found, handles, strict=True))
        figure.legend(list(labels.values()), list(labels), loc="outside upper center", ncols=4)
        return figure

    def _draw_evictions(self, axes: Axes) -> None:
        _, mark, *_ = MARKS[What.WOULD_EVICT]
        evicted = [(each, row) for row, result in enumerate(self._results) for each in result.evicted]
        for is_culprit, (colour, label) in _EVICTIONS.items():
            places = [(each.at, row) for each, row in evicted if each.guest.is_culprit is is_culprit]
            if places:
                times, rows = zip(*places, strict=True)
                axes.scatter(days(times), rows, marker=mark, c=colour, s=50, label=label, zorder=3)
        for each, row in evicted:
            (day,) = days([each.at])
            axes.annotate(
                each.guest.name, (day, row), (0, -13), textcoords="offset points", ha="center", fontsize=6
            )
        names = [f"{each.contender}: {each.harm} s of harm" for each in self._results]
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.3, -0.5)
        axes.tick_params(left=False)


def _title(scene: Scene) -> str:
    return f"{scene.family.name}, where no one acts"


def _as_node(reading: MemoryReading, scene: Scene) -> ReplayedNode:
    ram = scene.hardware.ram_bytes
    ceiling = ram + scene.page_file_bytes
    known = {
        Axis.COMMIT: Reading(Axis.COMMIT, left=ceiling - reading.commit_total_bytes, whole=ceiling),
        Axis.PHYSICAL: Reading(Axis.PHYSICAL, left=reading.available_bytes, whole=ram),
    }
    axes = {axis: AxisPressure(axis, level=Level.NORMAL, reading=each) for axis, each in known.items()}
    return ReplayedNode(_title(scene), memory=NodePressure(axes=axes))


def draw(family: Family, path: Path) -> None:
    """Race the machine, and draw it into a file (SVG). The same machine is the same file."""
    scene = scene_of(family, SEED)
    picture = _Picture(path, scene, race(family, SEED, only=CONTENDERS))
    picture.watch(World(scene))
    # Points that change a curve by less than a pixel are left out, and the names of fonts that few have.
    with mpl.rc_context({"path.simplify_threshold": 1.0, "font.sans-serif": ["DejaVu Sans"]}):
        picture.write(())


def run_plots(names: Sequence[str], *, write: bool, report: Report) -> dict[str, Any]:
    """Draw these families, all if none are named; return which plots of the repository are not as drawn.

    ``write`` brings them up to date. Raises BenchError where a family is not known.
    """
    directory = RESULTS / "bench-pressure-plots"
    directory.mkdir(parents=True, exist_ok=True)
    wanted = chosen(PressureOptions(range(SEED, SEED + 1), names=names))
    stale = []
    for family in wanted:
        drawn, kept = directory / f"{family.name}.svg", PLOTS / f"{family.name}.svg"
        draw(family, drawn)
        if not kept.exists() or kept.read_bytes() != drawn.read_bytes():
            stale.append(family.name)
            if write:
                copy(drawn, kept)
        report.say(f"{family.name} is in {drawn}")
    return {"bench": "pressure_plots", "plots": len(wanted), "stale": stale}


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.pressure.plot", description=__doc__)
    parser.add_argument("--family", action="append", default=[], help="only this family, by its name")
    parser.add_argument("--write", action="store_true", help="write the plots that differ into docs")
    given = parser.parse_args(arguments)
    report = Report()
    try:
        figures = run_plots(given.family, write=given.write, report=report)
    except BenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    report.result(figures)
    if figures["stale"] and not given.write:
        names = " ".join(figures["stale"])
        print(
            f"missed: docs/memory-benchmark does not have what is drawn of {names}. "
            f'Write it: make bench-pressure-plots FAMILY="{names}" WRITE=1',
            file=sys.stderr,
        )
        return MISSED
    return 0


if __name__ == "__main__":
    sys.exit(main())
