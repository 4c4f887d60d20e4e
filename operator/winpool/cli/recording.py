"""Reads memory samples of the past: from a file of JSON lines, or from a Prometheus, part by part."""

from __future__ import annotations

import http.client
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlencode, urlsplit

import msgspec

from winpool.api.text import printable, written_moment
from winpool.cli.kubectl import NotAskedError
from winpool.cli.memory_report import is_this_host, token_in, verifying
from winpool.cli.parsing import EndError, UsageError
from winpool.features.memory.replay import Recorded, RecordedPod
from winpool.kubelet.exporter import Point, Query, samples_of
from winpool.kubelet.samples import BROKEN, MOST_PODS, number_in, reported_bytes
from winpool.model.pressure import MemorySample, PodUsage, is_amount

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from winpool.features.memory.replay import Faults
    from winpool.kubelet.exporter import Matchers

MOST_SAMPLES: Final = 500_000
"""Of a replay: those of five nodes in a month, scraped every 30 s. They take two minutes, and those of a file
300 MB of memory, since the samples of all nodes have to be in the order of their times."""

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
            number = 0
            while line := file.readline(_LINE_BYTES):
                number += 1
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
    """Return the seconds in 90m, 24h or 30d. Raises ValueError for what is none."""
    found = _SPAN.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a span of time: write it like 90m, 24h or 30d")
    return int(found[1]) * _SECONDS[found[2]]


@dataclass(frozen=True, kw_only=True)
class Series:
    """The series of windows_exporter in a Prometheus at ``url``, by the queries that the operator makes.

    ``label`` is the label with the name of the node, ``matchers`` are those of the operator's data source.
    Samples are of ``source``, the name of the source in the pool.
    """

    url: str
    source: str
    label: str
    matchers: Matchers
    ca_file: str | None = None
    token_file: str | None = None

    def samples(
        self, since: float, *, faults: Faults, progress: Callable[[str], None], now: float | None = None
    ) -> Iterator[Recorded]:
        """Yield the samples of the last ``since`` seconds in the order of their times.

        One for each scrape, and what Prometheus has at the time of each. ``progress`` gets a sentence after
        each part. Raises NotAskedError, and EndError where it would be too many.
        """
        connection = _Connection(self.url, ca_file=self.ca_file, token_file=self.token_file)
        end = time.time() if now is None else now
        nodes, interval = self._extent(connection, end)
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
                query: connection.ask("query_range", query=query.of(self.matchers), **bounds)
                for query in Query
            }
            yield from self._samples_in(bodies, faults)
            progress(f"read {100 * (last + 1) // steps} %, until {written(start + last * interval)}")

    def _extent(self, connection: _Connection, end: float) -> tuple[int, float]:
        """Return how many nodes there are at the end, and the seconds between two scrapes."""
        told = connection.ask("query", query=f"{Query.COMMITTED.of(self.matchers)}[10m]", time=f"{end:.3f}")
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


class _Connection:
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
        connection = (
            http.client.HTTPConnection(host, port, timeout=_REQUEST_SECONDS)
            if self._tls is None
            else http.client.HTTPSConnection(host, port, timeout=_REQUEST_SECONDS, context=self._tls)
        )
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
