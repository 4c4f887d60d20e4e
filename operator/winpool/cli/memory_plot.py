"""Draws what a replay has seen: commit and RAM of each node, the lines, and what would have been done.

It needs matplotlib, of the extra ``plot``.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

import matplotlib as mpl
from matplotlib.figure import Figure

from winpool.api.text import printable
from winpool.cli.counts import counted
from winpool.cli.parsing import UsageError
from winpool.features.memory.levels import lines
from winpool.features.memory.replay import Change, ReplayedNode, What
from winpool.model.pressure import Axis, Level

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from winpool.features.memory.settings import DetectorSettings

NODES_DRAWN: Final = 10
"""Those with most changes: more are a picture that no one reads."""

_COLOURS: Final = {Axis.COMMIT: "#0072b2", Axis.PHYSICAL: "#e69f00"}
"""Of the palette of Okabe and Ito, which all eyes can tell apart."""
_NAMES: Final = {Axis.COMMIT: "committed, of the ceiling", Axis.PHYSICAL: "RAM in use"}
MARKS: Final = {
    What.WOULD_SIGNAL: (106, "^", "#000000", "would be signalled"),
    What.WOULD_CLEAR: (106, "v", "#999999", "would be cleared"),
    What.WOULD_EVICT: (116, "X", "#d55e00", "would evict"),
}
"""Where they are, above 100 %, and how they look."""
SHADES: Final = {Level.WARNING: "#fff7d6", Level.SOFT: "#ffe0b3", Level.HARD: "#ffc2b3"}


class _Curves:
    """What a node used of each axis, in percent, by the time in seconds since 1970, and its levels."""

    def __init__(self) -> None:
        self.used: dict[Axis, tuple[array[float], array[float]]] = {
            axis: (array("d"), array("d")) for axis in Axis
        }
        self.whole: dict[Axis, float] = {}
        self.levels: list[tuple[float, Level]] = []
        self.last_at = 0.0


class Plot:
    """The picture of a replay, which is written into the file ``name`` as SVG."""

    def __init__(self, name: str, settings: DetectorSettings) -> None:
        self._name = name
        self._settings = settings
        self._curves: dict[str, _Curves] = {}

    def add(self, at: float, nodes: Iterable[ReplayedNode]) -> None:
        """Note what is known of these nodes ``at`` a time."""
        for node in nodes:
            curves = self._curves.setdefault(node.name, _Curves())
            curves.last_at = at
            for axis, each in node.memory.axes.items():
                if each.level is not None and each.reading is not None:
                    times, used = curves.used[axis]
                    times.append(at)
                    used.append(100 * each.reading.used / each.reading.whole)
                    curves.whole[axis] = each.reading.whole
            if not curves.levels or curves.levels[-1][1] is not node.level:
                curves.levels.append((at, node.level))

    def write(self, changes: Sequence[Change]) -> None:
        """Write the picture. Raises UsageError where the file cannot be written."""
        # Text stays text, and the same replay is the same file.
        with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "winpool", "date.converter": "concise"}):
            try:
                self._figure(changes).savefig(self._name, format="svg", metadata={"Date": None})
            except OSError as error:
                raise UsageError(f"{self._name}: {error.strerror}") from None

    def _figure(self, changes: Sequence[Change]) -> Figure:
        counts = dict.fromkeys(self._curves, 0)
        for change in changes:
            counts[change.node] += 1
        names = sorted(counts, key=lambda name: (-counts[name], name))[:NODES_DRAWN]
        figure = Figure(figsize=(11, 1.2 + 2.6 * len(names)), layout="constrained")
        handles: dict[str, Artist] = {}
        below = figure.subplots(len(names), squeeze=False, sharex=True)[:, 0]
        for axes, name in zip(below, names, strict=True):
            self._draw(axes, name, [each for each in changes if each.node == name])
            found, labels = axes.get_legend_handles_labels()
            handles |= dict(zip(labels, found, strict=True))
        figure.legend(list(handles.values()), list(handles), loc="outside upper center", ncols=4)
        if len(names) < len(counts):
            figure.supxlabel(f"{counted(len(counts) - len(names), 'node')} with fewer changes not drawn")
        return figure

    def _draw(self, axes: Axes, name: str, changes: Sequence[Change]) -> None:
        curves = self._curves[name]
        axes.set_title(_plain(name), loc="left", fontsize="medium")
        axes.set_ylim(0, 124)
        axes.set_yticks(range(0, 101, 20))
        axes.set_ylabel("%")
        axes.xaxis_date("UTC")
        for axis, (times, used) in curves.used.items():
            if times:
                axes.plot(days(times), used, color=_COLOURS[axis], label=_NAMES[axis], linewidth=1.4)
        self._lines(axes, curves.whole)
        ends = [at for at, _ in curves.levels[1:]] + [curves.last_at]
        for (at, level), end in zip(curves.levels, ends, strict=True):
            if level in SHADES:
                axes.axvspan(*days([at, end]), color=SHADES[level], label=level.name.capitalize(), zorder=0)
        for what, (height, mark, colour, label) in MARKS.items():
            moments = days(each.at.timestamp() for each in changes if each.what is what)
            if moments:
                heights = [height] * len(moments)
                axes.scatter(moments, heights, marker=mark, c=colour, s=60, label=label, zorder=3)
        for each in changes:
            if each.pod:
                (day,) = days([each.at.timestamp()])
                place = (day, MARKS[each.what][0])
                axes.annotate(_plain(each.pod), place, (7, -3), textcoords="offset points", fontsize="small")

    def _lines(self, axes: Axes, wholes: Mapping[Axis, float]) -> None:
        for axis, whole in wholes.items():
            for level, left in lines(axis, whole, self._settings).items():
                if level in (Level.SOFT, Level.HARD):
                    style = "dashed" if level is Level.SOFT else "dotted"
                    used, label = 100 - 100 * left / whole, f"{level.name.capitalize()} of {axis}"
                    axes.axhline(used, color=_COLOURS[axis], linestyle=style, linewidth=0.9, label=label)


def days(times: Iterable[float]) -> list[float]:
    """Return seconds since 1970 as days, which is how matplotlib counts."""
    return [at / 86_400 for at in times]


def _plain(text: str) -> str:
    """Return a text without what matplotlib takes for mathematics."""
    return printable(text).replace("$", r"\$")
