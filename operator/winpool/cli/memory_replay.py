"""Says when the operator would have acted on recorded memory: ``kubectl winpool memory replay``."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from itertools import groupby
from statistics import median_low
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec

from winpool.api.spec import WindowsNodePoolSpec
from winpool.cli.console import Ink, Look, Paper, write
from winpool.cli.counts import counted
from winpool.cli.manifests import pools_in, without_nulls
from winpool.cli.parsing import EndError, Exit, RefusedError, add_output, note, note_offline
from winpool.cli.recording import MOST_SAMPLES, Series, read_file, span_of, written
from winpool.features.memory.replay import Change, Faults, Recorded, Replay, What
from winpool.features.memory.settings import EVIDENCE_APART_SECONDS, EVIDENCE_SECONDS, settings_of
from winpool.kubelet.exporter import DEFAULT_MATCHERS, faults_of
from winpool.kubelet.schedule import HOT_INTERVAL

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Iterator, Sequence

    from winpool.api.memory_pressure import MemoryPressure
    from winpool.cli.memory_plot import Plot

DESCRIPTION: Final = f"""\
Say when the operator would have signalled or evicted what, by recorded samples.

It runs the operator's own decisions on samples of the past, as if the mode of
the pool were Evict. The samples are in a file (its form: "Replay recorded
memory" in the docs), or in a Prometheus that scrapes windows_exporter. All
nodes of the recording count as the nodes of the pool.

History has neither owners nor PodDisruptionBudgets, and it continues as it
was. So the answer is which pod would have been chosen, once for each time
that a node came under pressure. At most {MOST_SAMPLES} samples are replayed.
It changes nothing, and needs no cluster."""

EXITS: Final = {
    Exit.YES: "the samples were replayed, whatever came of it",
    Exit.UNKNOWN: "there is no sample to replay, or there are too many, there is no valid pool, or "
    "Prometheus cannot be asked",
    Exit.USAGE: "the command line is wrong, or a file cannot be opened",
}

EXAMPLES: Final = (
    ("kubectl winpool memory replay --pool pool.yaml --samples samples.jsonl", "a file of samples"),
    (
        "kubectl winpool memory replay --pool p.yaml --prometheus http://localhost:9090",
        "the last 24 hours in Prometheus",
    ),
    (
        "kubectl winpool memory replay --pool p.yaml --samples s.jsonl --plot m.svg",
        "a picture too; it needs: pip install 'winpool[plot]'",
    ),
)

_SINCE: Final = "24h"

_TOLD_EVERY: Final = 50_000
"""Samples of a file between two lines of progress: some ten seconds."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes on its command line."""
    parser.add_argument(
        "--pool", metavar="FILE", required=True, help="Replay for the pool in this manifest, or - for stdin."
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--samples", metavar="FILE", help="Read samples from this file, one JSON a line.")
    source.add_argument(
        "--prometheus",
        type=_prometheus_url,
        metavar="URL",
        help="Read samples from this Prometheus, for the first source of that type in the pool.",
    )
    parser.add_argument(
        "--since",
        type=_span,
        default=_SINCE,
        metavar="SPAN",
        help=f"Read the last 90m, 24h or 7d from Prometheus. Default: {_SINCE}.",
    )
    parser.add_argument(
        "--matcher",
        type=_matcher,
        action="append",
        metavar="LABEL=VALUE",
        help="Read only series with this label, as the operator's data source does. Can be repeated. "
        "Default: job=windows-exporter.",
    )
    parser.add_argument("--ca-file", metavar="FILE", help="Verify Prometheus by this CA (PEM).")
    parser.add_argument("--token-file", metavar="FILE", help="Send Prometheus the bearer token in this file.")
    parser.add_argument("--plot", metavar="FILE", help="Write a picture into this file (SVG).")
    add_output(parser)


def _prometheus_url(text: str) -> str:
    try:
        url = urlsplit(text)
        is_url = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        is_url = False
    if not is_url or "@" in url.netloc or url.query or url.fragment:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not the address of a Prometheus: write https://HOST:PORT, and no password"
        )
    return text


def _span(text: str) -> float:
    try:
        return span_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _matcher(text: str) -> tuple[str, str]:
    label, _, value = text.partition("=")
    if faults := faults_of({label: value}):
        raise argparse.ArgumentTypeError(faults[0])
    return label, value


def run(given: argparse.Namespace) -> int:
    """Replay the samples; return the exit code."""
    note_offline(given, why="no cluster is contacted")
    name, pressure = _pool_in(given.pool)
    plot = _plot(given.plot, pressure)
    faults = Faults()
    replay = Replay(pressure, faults)
    changes: list[Change] = []
    for at, samples in groupby(_samples(given, pressure, faults), key=lambda each: each.at):
        together = list(samples)
        changes += replay.take(at, together)
        if plot is not None:
            plot.add(at, [replay.nodes[each.node] for each in together if each.node in replay.nodes])
    if not replay.taken:
        where = given.samples or "Prometheus, in that time and with these matchers,"
        raise RefusedError(f"{where} has no sample that the pool reads", *faults.sentences())
    report = Report(
        pool=name,
        mode=pressure.mode,
        first=datetime.fromtimestamp(replay.first_at, UTC),
        last=datetime.fromtimestamp(replay.last_at, UTC),
        samples=replay.taken,
        nodes=len(replay.nodes),
        changes=changes,
        notes=[*_costs(replay), *faults.sentences()],
    )
    if plot is not None:
        plot.write(changes)
        note(f"written: {given.plot}")
    write(given.output, lambda: msgspec.to_builtins(report), lambda look: _text(report, look))
    return Exit.YES


def _plot(name: str | None, pressure: MemoryPressure) -> Plot | None:
    """Return what draws the picture; it is imported here, since the library is optional, and slow to load."""
    if name is None:
        return None
    try:
        from winpool.cli.memory_plot import Plot
    except ImportError:
        raise EndError("--plot needs matplotlib: install it with pip install 'winpool[plot]'") from None
    return Plot(name, settings_of(pressure))


def _pool_in(name: str) -> tuple[str, MemoryPressure]:
    """Return name and memoryPressure of the one pool in a file. Raises UsageError and RefusedError."""
    found = pools_in([name], recursive=False)
    if found.faults:
        raise RefusedError(*found.faults)
    if len(found.pools) != 1:
        raise RefusedError(f"{name} has {counted(len(found.pools), 'pool')}: give a file with one")
    (pool,) = found.pools
    spec = WindowsNodePoolSpec.model_validate(without_nulls(pool.content["spec"]))
    if spec.memory_pressure is None:
        raise RefusedError(
            pool.at(pool.line, "spec.memoryPressure not set: add it, with pageFile and sources")
        )
    return pool.name, spec.memory_pressure


def _samples(given: argparse.Namespace, pressure: MemoryPressure, faults: Faults) -> Iterable[Recorded]:
    if given.samples is not None:
        return _counted(read_file(given.samples, faults=faults))
    source = next((each for each in pressure.sources if each.prometheus is not None), None)
    if source is None or source.prometheus is None:
        raise RefusedError(
            "the pool reads no Prometheus: add {type: Prometheus, prometheus: {dataSource: main}} to "
            "spec.memoryPressure.sources in a copy of the file"
        )
    series = Series(
        url=given.prometheus,
        source=source.name,
        label=source.prometheus.node_label,
        matchers=dict(given.matcher) if given.matcher else DEFAULT_MATCHERS,
        ca_file=given.ca_file,
        token_file=given.token_file,
    )
    return series.samples(given.since, faults=faults, progress=note)


def _counted(samples: Sequence[Recorded]) -> Iterator[Recorded]:
    """Yield the samples, and say how far it is where that takes more than some seconds."""
    for number, each in enumerate(samples):
        if number and number % _TOLD_EVERY == 0:
            note(f"replayed {100 * number // len(samples)} %, until {written(each.at)}")
        yield each


class Report(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What ``-o json`` prints. ``first`` and ``last`` are the times of samples."""

    pool: str
    mode: str
    first: datetime
    last: datetime
    samples: int
    nodes: int
    changes: list[Change]
    notes: list[str]


def _costs(replay: Replay) -> Iterator[str]:
    """Yield how far apart the samples of each source are, and what that costs."""
    for source, distances in replay.distances.items():
        usual = _median(distances)
        said = f"Samples of {source} are usually {usual} s apart"
        if usual > EVIDENCE_SECONDS:
            yield (
                f"{said}. An eviction needs two that are no older than {EVIDENCE_SECONDS:.0f} s, so these "
                f"alone never show that one is right, and each level is reached up to {usual} s late. The "
                f"operator asks the kubelet of a node under pressure every {HOT_INTERVAL:.0f} s. Have "
                "windows_exporter scraped every 30 s or less."
            )
        else:
            apart = max(usual, round(EVIDENCE_APART_SECONDS))
            yield f"{said}: each level is reached up to {usual} s late, and Hard acts {apart} s after that."


def _median(distances: Counter[int]) -> int:
    return median_low(distances.elements())


_INKS: Final = {What.WOULD_EVICT: Ink.BAD, What.WOULD_SIGNAL: Ink.BUSY}


def _text(report: Report, look: Look) -> str:
    paper = Paper(look, title_width=10)
    paper.titled("Pool", f"{report.pool}, mode {report.mode}")
    span = f"{report.first:%Y-%m-%dT%H:%M:%SZ} to {report.last:%Y-%m-%dT%H:%M:%SZ}"
    paper.titled("Samples", f"{report.samples} of {counted(report.nodes, 'node')}, {span}")
    signalled = {each.node for each in report.changes if each.what is What.WOULD_SIGNAL}
    evictions = sum(each.what is What.WOULD_EVICT for each in report.changes)
    paper.titled(
        "Result",
        f"with mode Evict, {counted(len(signalled), 'node')} would have been signalled, and "
        f"{counted(evictions, 'eviction')} begun",
    )
    paper.heading(f"Changes: {len(report.changes)}")
    for each in report.changes:
        ink = _INKS.get(each.what, Ink.PLAIN)
        mark = look.mark(ink) if ink in _INKS.values() else " "
        paper.wrapped(f"{each.node}: {each.message}", first=f"  {mark} {each.at:%Y-%m-%d %H:%M:%S} ", ink=ink)
    paper.heading("Notes:")
    paper.bullets(
        [
            "It has neither owners nor PodDisruptionBudgets, and continues as if no pod was evicted.",
            *report.notes,
        ]
    )
    return paper.text
