"""Says when the operator would have acted on recorded memory: ``kubectl winpool memory replay``.

The samples are in a file of JSON lines, or in a Prometheus, which is read part by part.
"""

from __future__ import annotations

import argparse
import http.client
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path
from statistics import median, median_low
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlencode, urlsplit

import msgspec

from winpool.api.spec import WindowsNodePoolSpec
from winpool.api.text import printable, written_moment
from winpool.cli.console import Ink, Look, Paper, write
from winpool.cli.counts import counted
from winpool.cli.kubectl import NotAskedError
from winpool.cli.manifests import pools_in, without_nulls
from winpool.cli.memory_report import is_this_host, token_in, verifying
from winpool.cli.parsing import EndError, Exit, RefusedError, UsageError, add_output, note, note_offline
from winpool.features.memory.replay import Change, Faults, Recorded, RecordedPod, Replay, What
from winpool.features.memory.settings import EVIDENCE_APART_SECONDS, EVIDENCE_SECONDS, settings_of
from winpool.kubelet.exporter import DEFAULT_MATCHERS, Matchers, Point, Query, faults_of, samples_of
from winpool.kubelet.samples import BROKEN, MOST_PODS, number_in, reported_bytes
from winpool.kubelet.schedule import HOT_INTERVAL
from winpool.model.pressure import MemorySample, PodUsage, is_amount

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from winpool.api.memory_pressure import MemoryPressure
    from winpool.cli.memory_plot import Plot


MOST_SAMPLES: Final = 500_000
"""Of a replay: those of five nodes in a month, scraped every 30 s. They take two minutes, and those of a file
300 MB of memory, since the samples of all nodes have to be in the order of their times."""

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
        type=span_of,
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
        prometheus=Prometheus(given.prometheus, ca_file=given.ca_file, token_file=given.token_file),
        source=source.name,
        label=source.prometheus.node_label,
        matchers=dict(given.matcher) if given.matcher else DEFAULT_MATCHERS,
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
        usual = median_low(distances.elements())
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


_INKS: Final = {What.WOULD_EVICT: Ink.BAD, What.WOULD_SIGNAL: Ink.BUSY}


def _text(report: Report, look: Look) -> str:
    paper = Paper(look, title_width=10)
    paper.titled("Pool", f"{report.pool}, mode {report.mode}")
    span = f"{report.first:%Y-%m-%dT%H:%M:%SZ} to {report.last:%Y-%m-%dT%H:%M:%SZ}"
    paper.titled("Samples", f"{report.samples} of {counted(report.nodes, 'node')}, {span}")
    signalled = {each.node for each in report.changes if each.what is What.WOULD_SIGNAL}
    evictions = sum(each.what is What.WOULD_EVICT for each in report.changes)
    said = (
        f"{counted(len(signalled), 'node')} would have been signalled, and {counted(evictions, 'eviction')}"
    )
    paper.titled("Result", f"with mode Evict, {said} begun")
    paper.heading(f"Changes: {len(report.changes)}")
    for each in report.changes:
        ink = _INKS.get(each.what, Ink.PLAIN)
        mark = look.mark(ink) if ink in _INKS.values() else " "
        paper.wrapped(f"{each.node}: {each.message}", first=f"  {mark} {each.at:%Y-%m-%d %H:%M:%S} ", ink=ink)
    paper.heading("Notes:")
    history = "It has neither owners nor PodDisruptionBudgets, and continues as if no pod was evicted."
    paper.bullets([history, *report.notes])
    return paper.text


_LINE_BYTES: Final = 2**20
"""Of one sample: as much as a kubelet's answer, which has more."""

_LATEST: Final = 2**33
"""Seconds since 1970: a later time is none, and those of Python end in the year 9999."""

_NO_SAMPLE: Final = "Lines that are no samples, left out"


def written(at: float) -> str:
    """Return a number of seconds since 1970 as a time of RFC 3339."""
    return written_moment(datetime.fromtimestamp(at, UTC))


# Files.


class RecordedUsage(msgspec.Struct, rename="camel", forbid_unknown_fields=True, gc=False):
    """The memory of a pod on a line, in bytes. What is absent is unknown."""

    uid: Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9-]{1,40}$")]
    namespace: Annotated[str, msgspec.Meta(min_length=1, max_length=253)]
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=253)]
    committed_bytes: float | None = None
    working_set_bytes: float | None = None

    @property
    def recorded(self) -> RecordedPod:
        """Return it with what it used, as of a kubelet: 0 is unknown."""
        usage = PodUsage(reported_bytes(self.committed_bytes), reported_bytes(self.working_set_bytes))
        return RecordedPod(self.uid, self.namespace, self.name, usage)


class Line(msgspec.Struct, rename="camel", forbid_unknown_fields=True, gc=False):
    """A line of a file: one sample, in bytes and events a second. What is absent is unknown."""

    node: Annotated[str, msgspec.Meta(min_length=1, max_length=253)]
    source: Annotated[str, msgspec.Meta(min_length=1, max_length=80)]
    time: Annotated[datetime, msgspec.Meta(tz=True)]
    committed_bytes: float | None = None
    commit_limit_bytes: float | None = None
    physical_total_bytes: float | None = None
    available_bytes: float | None = None
    kubelet_available_bytes: float | None = None
    page_reads_per_second: float | None = None
    pages_written_per_second: float | None = None
    pages_repurposed_per_second: float | None = None
    pool_nonpaged_bytes: float | None = None
    pods: Annotated[list[RecordedUsage], msgspec.Meta(max_length=MOST_PODS)] | None = None


_NUMBERS: Final = tuple(
    each.name for each in msgspec.structs.fields(Line) if each.name not in {"node", "source", "time", "pods"}
)
_decoder: Final = msgspec.json.Decoder(Line)


def read_file(name: str, *, faults: Faults) -> list[Recorded]:
    """Return the samples of a file, in the order of their times.

    Those of a node and a source are in that order in the file: one whose time is not after that of the one
    before is left out, since a clock was set back, or the file has it twice. Raises EndError.
    """
    found: list[Recorded] = []
    last: dict[tuple[str, str], float] = {}
    try:
        with Path(name).open("rb") as file:
            for number, line in enumerate(iter(partial(file.readline, _LINE_BYTES), b""), 1):
                if len(line) == _LINE_BYTES:
                    raise EndError(f"{name}:{number}: the line is too long for a sample: write one on each")
                if not line.strip() or (recorded := _recorded(line, number, faults)) is None:
                    continue
                key = (recorded.node, recorded.sample.source)
                if recorded.at > last.get(key, float("-inf")):
                    last[key] = recorded.at
                    found.append(recorded)
                else:
                    faults.note(
                        "Samples that are not newer than the one before of their node and source, left out",
                        f"of {recorded.node} at {written(recorded.at)}, on line {number}",
                    )
                if len(found) > MOST_SAMPLES:
                    raise EndError(
                        f"{name} has more than {MOST_SAMPLES} samples, the most of a replay: split it by time"
                    )
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from None
    return sorted(found, key=lambda each: each.at)


def _recorded(line: bytes, number: int, faults: Faults) -> Recorded | None:
    """Return the sample on a line; None for what is none."""
    try:
        told = _decoder.decode(line)
    except BROKEN as error:
        faults.note(_NO_SAMPLE, f"line {number}: {printable(str(error)[:200])}")
        return None
    at = told.time.timestamp()
    if not 0 < at < _LATEST:
        faults.note(_NO_SAMPLE, f"line {number}: the year of time is not one from 1970 to 2242")
        return None
    for name in _NUMBERS:
        value = getattr(told, name)
        if value is not None and not is_amount(value):
            shown = f"{name} {value:.6g} of {told.node} at {written(at)}"
            faults.note("Numbers that no machine can have, taken as unknown", shown)
    physical = reported_bytes(told.physical_total_bytes)
    sample = MemorySample(
        source=told.source,
        arrived_at=at,
        taken_at=at,
        # A kubelet does not say how old its numbers are, and Prometheus does.
        age=0.0 if told.source.startswith("Prometheus") else None,
        commit_total=reported_bytes(told.committed_bytes),
        commit_limit=reported_bytes(told.commit_limit_bytes),
        physical_total=physical,
        physical_available=reported_bytes(told.available_bytes, is_zero_real=physical is not None),
        proxy_available=reported_bytes(told.kubelet_available_bytes),
        hard_reads_per_second=told.page_reads_per_second,
        write_out_per_second=told.pages_written_per_second,
        repurposed_per_second=told.pages_repurposed_per_second,
        pool_nonpaged=reported_bytes(told.pool_nonpaged_bytes),
    )
    pods = None if told.pods is None else tuple(each.recorded for each in told.pods)
    return Recorded(told.node, at, sample, pods)


# Prometheus.

MOST_STEPS: Final = 11_000
"""Points of a series in one answer: Prometheus refuses more."""

_POINTS: Final = 50_000
"""Of all series in one answer, of which nine are in memory at once: 60 MB."""

_BODY_BYTES: Final = 16 * 2**20
"""Of an answer. A point has some 30 bytes."""

_REQUEST_SECONDS: Final = 120.0
"""Prometheus gives up after so long by default, ``--query.timeout``."""

_USUAL_SCRAPE: Final = 30.0
"""Seconds between two scrapes where no series shows it: the interval of kube-prometheus-stack."""

_SPAN: Final = re.compile(r"([1-9][0-9]{0,4})([mhd])")
_SECONDS: Final = {"m": 60.0, "h": 3600.0, "d": 86_400.0}


class _Series(msgspec.Struct, gc=False):
    metric: dict[str, str]
    values: list[tuple[Annotated[float, msgspec.Meta(gt=0, lt=_LATEST)], str]]


class _Matrix(msgspec.Struct, tag_field="resultType", tag="matrix"):
    result: list[_Series]


class _Answer(msgspec.Struct, tag_field="status", tag="success"):
    data: _Matrix


class _Refusal(msgspec.Struct):
    error: str = ""


_answers: Final = msgspec.json.Decoder(_Answer)


def span_of(text: str) -> float:
    """Return the seconds in 90m, 24h or 30d, an argument of the command line."""
    found = _SPAN.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a span of time: write it like 90m, 24h or 30d")
    return int(found[1]) * _SECONDS[found[2]]


@dataclass(frozen=True, kw_only=True)
class Series:
    """The series of windows_exporter in a Prometheus, by the queries that the operator makes.

    ``label`` is the label with the name of the node, ``matchers`` are those of the operator's data source.
    Samples are of ``source``, the name of the source in the pool.
    """

    prometheus: Prometheus
    source: str
    label: str
    matchers: Matchers

    def samples(
        self, since: float, *, faults: Faults, progress: Callable[[str], None], now: float | None = None
    ) -> Iterator[Recorded]:
        """Yield the samples of the last ``since`` seconds in the order of their times.

        One for each scrape, and what Prometheus has at the time of each. ``progress`` gets a sentence after
        each part. Raises NotAskedError, and EndError where it would be too many.
        """
        end = time.time() if now is None else now
        nodes, interval = self._extent(end)
        steps = int(since // interval) + 1
        if nodes * steps > MOST_SAMPLES:
            hours = int(MOST_SAMPLES / nodes * interval // 3600)
            raise EndError(
                f"{nodes} nodes, scraped every {interval:.0f} s, have {nodes * steps} samples in that time, "
                f"and {MOST_SAMPLES} are the most of a replay: give --since {max(1, hours)}h or less, or "
                "choose nodes with --matcher"
            )
        part = max(1, min(MOST_STEPS, _POINTS // nodes))
        start = end - (steps - 1) * interval
        for first in range(0, steps, part):
            last = min(first + part, steps) - 1
            bounds = {
                "start": f"{start + first * interval:.3f}",
                "end": f"{start + last * interval:.3f}",
                "step": f"{interval:.0f}",
            }
            bodies = {
                query: self.prometheus.ask("query_range", query=query.of(self.matchers), **bounds)
                for query in Query
            }
            yield from self._samples_in(bodies, faults)
            progress(f"read {100 * (last + 1) // steps} %, until {written(start + last * interval)}")

    def _extent(self, end: float) -> tuple[int, float]:
        """Return how many nodes there are at the end, and the seconds between two scrapes."""
        query = f"{Query.COMMITTED.of(self.matchers)}[10m]"
        told = self.prometheus.ask("query", query=query, time=f"{end:.3f}")
        times = [[at for at, _ in each.values] for each in told]
        gaps = [later - at for each in times for at, later in pairwise(each)]
        return max(1, len(told)), float(max(1, round(median(gaps)))) if gaps else _USUAL_SCRAPE

    def _samples_in(self, bodies: Mapping[Query, list[_Series]], faults: Faults) -> Iterator[Recorded]:
        answers = {query: self._by_time(query, told, faults) for query, told in bodies.items()}
        for at in sorted(answers[Query.TIME]):
            found = samples_of({query: each.get(at, {}) for query, each in answers.items()})
            for node, sample in sorted(found.items()):
                yield Recorded(node, at, sample.arrived(source=self.source, at=at, interval=0.0, ram=None))

    def _by_time(self, query: Query, told: list[_Series], faults: Faults) -> dict[float, dict[str, Point]]:
        """Return the value of each node at each time; none where it has two series: one of them is false."""
        found: dict[float, dict[str, Point]] = {}
        twice: set[tuple[float, str]] = set()
        for series in told:
            node = series.metric.get(self.label, "")
            for at, text in series.values:
                value = number_in(text)
                if not node or value is None:
                    continue
                if node in found.setdefault(at, {}):
                    twice.add((at, node))
                found[at][node] = Point(value, at)
        for at, node in sorted(twice):
            del found[at][node]
            if query is Query.TIME:
                faults.note("Samples of which a node has two series, left out", f"of {node} at {written(at)}")
        return found


class Prometheus:
    """Asks a Prometheus, each question over a connection of its own. Redirects are not followed."""

    def __init__(self, url: str, *, ca_file: str | None, token_file: str | None) -> None:
        self._url = urlsplit(url)
        self._headers = {"Accept": "application/json"}
        if token_file is not None:
            if self._url.scheme != "https" and not is_this_host(self._url.hostname or ""):
                raise UsageError("a token is sent by HTTPS only: write --prometheus https://…")
            self._headers["Authorization"] = f"Bearer {token_in(token_file)}"
        self._tls = verifying(ca_file) if self._url.scheme == "https" else None

    def ask(self, what: str, **parameters: str) -> list[_Series]:
        """Return the series of an answer. Raises NotAskedError."""
        host, port = self._url.hostname or "", self._url.port
        connection = http.client.HTTPConnection(host, port, timeout=_REQUEST_SECONDS)
        if self._tls is not None:
            connection = http.client.HTTPSConnection(host, port, timeout=_REQUEST_SECONDS, context=self._tls)
        path = f"{self._url.path.rstrip('/')}/api/v1/{what}?{urlencode(parameters)}"
        try:
            connection.request("GET", path, headers=self._headers)
            answer = connection.getresponse()
            status, body = answer.status, answer.read(_BODY_BYTES + 1)
        except (OSError, http.client.HTTPException) as error:
            said = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise NotAskedError(f"Prometheus cannot be asked at {host}: {said}") from None
        finally:
            connection.close()
        if status != http.client.OK:
            raise NotAskedError(f"Prometheus answers {status}{_said(body)}")
        if len(body) > _BODY_BYTES:
            raise NotAskedError(
                f"Prometheus gives an answer of more than {_BODY_BYTES} bytes: check --matcher"
            )
        try:
            return _answers.decode(body).data.result
        except BROKEN as error:
            raise NotAskedError(f"the answer is not one of Prometheus: {error}") from None


def _said(body: bytes) -> str:
    """Return what Prometheus says of a query that it refuses."""
    with suppress(*BROKEN):
        if error := msgspec.json.decode(body, type=_Refusal).error:
            return f": {printable(error[:200])}"
    return ": check the URL, and --token-file if it requires a token"
