"""Recorded samples are read from files and from a Prometheus; what is wrong with them is counted."""

from __future__ import annotations

import json
import socket
from argparse import ArgumentTypeError
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from harness.serving import serving
from winpool.cli import memory_replay
from winpool.cli.kubectl import NotAskedError
from winpool.cli.memory_replay import MOST_STEPS, Prometheus, Series, read_file, span_of
from winpool.cli.parsing import EndError
from winpool.features.memory.replay import Faults, Recorded
from winpool.kubelet.exporter import DEFAULT_MATCHERS, Query

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

GIB = 2**30
NOW = 1_767_312_000.0
"""2026-01-02T00:00:00Z."""


def a_line(time: str = "2026-01-01T00:00:00Z", **fields: Any) -> str:
    return json.dumps({"node": "w1", "source": "Kubelet", "time": time, **fields}) + "\n"


def read(folder: Path, *lines: str) -> tuple[list[Recorded], list[str]]:
    """Return what is read of a file with these lines, and what is wrong with it."""
    file, faults = folder / "samples.jsonl", Faults()
    file.write_text("".join(lines))
    return read_file(str(file), faults=faults), faults.sentences()


def test_a_line_is_a_sample_with_the_names_of_its_source(tmp_path: Path) -> None:
    pod = {"uid": "a", "namespace": "shop", "name": "cart", "committedBytes": GIB, "workingSetBytes": 0}
    ((one,), faults) = read(
        tmp_path,
        a_line(
            committedBytes=12 * GIB,
            commitLimitBytes=24 * GIB,
            physicalTotalBytes=16 * GIB,
            availableBytes=0,
            kubeletAvailableBytes=0,
            pageReadsPerSecond=3.5,
            pods=[pod],
        ),
    )
    assert (one.node, one.at, one.sample.taken_at, faults) == ("w1", 1_767_225_600.0, one.at, [])
    assert (one.sample.commit_total, one.sample.commit_limit) == (12 * GIB, 24 * GIB)
    assert (one.sample.physical_available, one.sample.hard_reads_per_second) == (0, 3.5)
    assert one.sample.proxy_available is None, "a kubelet reports 0 for what it does not measure"
    assert [(each.namespace, each.name, each.usage.commit) for each in one.pods or ()] == [
        ("shop", "cart", GIB)
    ]
    assert (one.pods or ())[0].usage.working_set is None


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("{", "truncated"),
        (a_line(comittedBytes=1), "comittedBytes"),
        (a_line("yesterday"), "time"),
        (a_line("2026-01-01T00:00:00"), "time"),
        (a_line("0001-01-01T00:00:00+14:00"), "the year of time"),
        (a_line("9999-12-31T23:59:59Z"), "the year of time"),
        (a_line(committedBytes="12Gi"), "committedBytes"),
        (a_line(node=""), "node"),
        (a_line(pods=[{"uid": "a/b", "namespace": "n", "name": "p"}]), "uid"),
    ],
)
def test_a_line_that_is_no_sample_is_told_with_its_number_and_left_out(
    tmp_path: Path, line: str, word: str
) -> None:
    found, (told,) = read(tmp_path, a_line(), f"{line.strip()}\n", "\n", f"{line.strip()}\n")
    assert len(found) == 1
    assert told.startswith("Lines that are no samples, left out: 2; the first is line 2: ")
    assert word in told


def test_samples_of_a_clock_that_went_back_are_left_out(tmp_path: Path) -> None:
    times = ("01:00", "02:00", "01:30", "02:00", "03:00")
    found, (told,) = read(tmp_path, *(a_line(f"2026-01-01T00:{each}Z") for each in times))
    assert [each.at - found[0].at for each in found] == [0, 60, 120]
    assert "not newer than the one before of their node and source, left out: 2; the first is of w1" in told


def test_nodes_and_sources_that_follow_each_other_in_a_file_are_put_in_order(tmp_path: Path) -> None:
    of_others = [a_line(node="w2"), a_line(source="Prometheus/main")]
    found, faults = read(tmp_path, a_line("2026-01-01T00:01:00Z"), *of_others)
    assert [(each.node, each.sample.source) for each in found] == [
        ("w2", "Kubelet"),
        ("w1", "Prometheus/main"),
        ("w1", "Kubelet"),
    ]
    assert faults == []


def test_a_rate_below_zero_as_after_a_counter_was_reset_is_unknown_and_told(tmp_path: Path) -> None:
    (one,), (told,) = read(tmp_path, a_line(pageReadsPerSecond=-12, committedBytes=GIB))
    assert (one.sample.hard_reads_per_second, one.sample.commit_total) == (None, GIB)
    assert "no machine can have, taken as unknown: 1; the first is page_reads_per_second -12 of w1" in told


def test_too_many_samples_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_replay, "MOST_SAMPLES", 3)
    lines = [a_line(f"2026-01-01T00:0{minute}:00Z") for minute in range(4)]
    assert len(read(tmp_path, *lines[:3])[0]) == 3
    with pytest.raises(EndError, match=r"more than 3 samples, the most of a replay: split it by time"):
        read(tmp_path, *lines)


def test_a_file_that_has_no_lines_of_samples_ends_it(tmp_path: Path) -> None:
    with pytest.raises(EndError, match=r"samples.jsonl:1: the line is too long for a sample"):
        read(tmp_path, "x" * 2**20)
    with pytest.raises(EndError, match="No such file"):
        read_file(str(tmp_path / "none"), faults=Faults())


def test_a_span_is_a_number_of_minutes_hours_or_days() -> None:
    assert [span_of(each) for each in ("90m", "24h", "30d")] == [5400, 86_400, 2_592_000]
    for wrong in ("", "0h", "24", "1w", "-1h", "1.5h", "999999d"):
        with pytest.raises(ArgumentTypeError, match="write it like 90m, 24h or 30d"):
            span_of(wrong)


@dataclass
class FakePrometheus:
    """Answers queries about nodes that are scraped every ``interval`` seconds, as of ``series``.

    Each of ``series`` are labels, with the times from and until which it has points.
    """

    interval: float = 30.0
    series: list[tuple[Mapping[str, str], float, float]] = field(default_factory=list)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    headers: list[str | None] = field(default_factory=list)
    answer: tuple[int, bytes] | None = None
    """What it answers to everything, where that is set."""
    url: str = ""

    def respond(self, path: str, authorization: str | None) -> tuple[int, bytes]:
        url = urlsplit(path)
        asked = {name: values[0] for name, values in parse_qs(url.query).items()}
        self.asked.append((url.path, asked))
        self.headers.append(authorization)
        if self.answer is not None:
            return self.answer
        if url.path.endswith("query"):
            end = float(asked["time"])
            times = [end - 600 + 7 + self.interval * step for step in range(int(600 // self.interval))]
        else:
            start, end, step = (float(asked[each]) for each in ("start", "end", "step"))
            times = [start + step * number for number in range(int((end - start) / step + 1.5))]
        result = [
            {
                "metric": labels,
                "values": [[at, self._value(asked["query"], at)] for at in times if begin <= at < until],
            }
            for labels, begin, until in self.series
        ]
        data = {"resultType": "matrix", "result": [each for each in result if each["values"]]}
        return 200, json.dumps({"status": "success", "data": data}).encode()

    def _value(self, query: str, at: float) -> str:
        if query.startswith("timestamp"):
            return f"{at - at % self.interval:.3f}"
        return str(
            {"irate": 5, "windows_memory_committed_bytes": 12 * GIB}.get(
                query.split("{")[0].split("(")[0], 24 * GIB
            )
        )


@contextmanager
def served(prometheus: FakePrometheus) -> Iterator[FakePrometheus]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = prometheus.respond(self.path, self.headers.get("Authorization"))
            self.send_response(status)
            self.send_header("Location", "http://127.0.0.1:1/")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    prometheus.url = f"http://127.0.0.1:{server.server_port}/tenant"
    with serving(server):
        yield prometheus


def samples(
    prometheus: FakePrometheus, since: float, *, token_file: str | None = None
) -> tuple[list[Recorded], list[str], list[str]]:
    """Return the samples, what is wrong with them, and what was said of the progress."""
    faults, progress = Faults(), list[str]()
    series = Series(
        prometheus=Prometheus(prometheus.url, ca_file=None, token_file=token_file),
        source="Prometheus/main",
        label="node",
        matchers=DEFAULT_MATCHERS,
    )
    found = list(series.samples(since, faults=faults, progress=progress.append, now=NOW))
    return found, faults.sentences(), progress


ALWAYS = (0.0, 2 * NOW)


def test_prometheus_is_asked_for_each_scrape_by_the_queries_of_the_operator() -> None:
    with served(FakePrometheus(15, [({"node": "w1"}, *ALWAYS), ({"node": "w2"}, *ALWAYS)])) as prometheus:
        found, faults, progress = samples(prometheus, 3600)
    assert {path for path, _ in prometheus.asked} == {"/tenant/api/v1/query", "/tenant/api/v1/query_range"}
    ranges = [asked for path, asked in prometheus.asked if path.endswith("query_range")]
    assert {each["query"] for each in ranges} == {each.of(DEFAULT_MATCHERS) for each in Query}
    assert {each["step"] for each in ranges} == {"15"}
    assert [(each.node, each.at) for each in found] == [
        (node, NOW - 3600 + 15 * step) for step in range(241) for node in ("w1", "w2")
    ]
    assert {each.sample.source for each in found} == {"Prometheus/main"}
    assert (found[0].sample.commit_total, found[0].sample.hard_reads_per_second) == (12 * GIB, 5)
    assert all(each.at - 15 < each.sample.measured_at <= each.at for each in found)
    assert (faults, progress) == ([], ["read 100 %, until 2026-01-02T00:00:00Z"])


@pytest.mark.slow
def test_a_long_time_is_read_in_parts_that_prometheus_permits() -> None:
    with served(FakePrometheus(30, [({"node": "w1"}, *ALWAYS)])) as prometheus:
        found, _, progress = samples(prometheus, 8 * 86_400)
    sizes = [
        (float(asked["end"]) - float(asked["start"])) / float(asked["step"]) + 1
        for path, asked in prometheus.asked
        if path.endswith("query_range")
    ]
    assert max(sizes) == MOST_STEPS
    assert [each.at for each in found] == [NOW - 8 * 86_400 + 30 * step for step in range(23_041)]
    assert [each.split(",")[0] for each in progress] == ["read 47 %", "read 95 %", "read 100 %"]


def test_a_year_is_refused_before_it_is_read() -> None:
    with served(FakePrometheus(30, [({"node": "w1"}, *ALWAYS)])) as prometheus:
        with pytest.raises(EndError, match=r"1051201 samples in that time.*give --since 4166h or less"):
            samples(prometheus, 365 * 86_400)
        assert [path for path, _ in prometheus.asked] == ["/tenant/api/v1/query"]


def test_a_node_with_two_series_at_a_time_is_unknown_then_and_not_where_one_follows_the_other() -> None:
    first, second = {"node": "w1", "pod": "a"}, {"node": "w1", "pod": "b"}
    half = NOW - 1800
    with served(FakePrometheus(30, [(first, 0, half), (second, half, 2 * NOW)])) as prometheus:
        found, faults, _ = samples(prometheus, 3600)
    assert (len(found), faults) == (121, [])
    with served(FakePrometheus(30, [(first, 0, half + 90), (second, half, 2 * NOW)])) as prometheus:
        found, faults, _ = samples(prometheus, 3600)
    assert len(found) == 118
    assert faults == [
        "Samples of which a node has two series, left out: 3; the first is of w1 at 2026-01-01T23:30:00Z."
    ]


def test_series_without_the_label_of_the_node_and_an_empty_range_are_no_samples() -> None:
    with served(FakePrometheus(30, [({"instance": "10.0.0.1:9182"}, *ALWAYS)])) as prometheus:
        assert samples(prometheus, 3600)[0] == []
    with served(FakePrometheus()) as prometheus:
        assert samples(prometheus, 3600)[0] == []


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            (422, b'{"status": "error", "error": "too many samples"}'),
            "Prometheus answers 422: too many samples",
        ),
        ((302, b""), "Prometheus answers 302: check the URL"),
        ((200, b"<html>"), "the answer is not one of Prometheus"),
        (
            (200, b'{"status": "success", "data": {"resultType": "vector", "result": []}}'),
            "not one of Prometheus",
        ),
    ],
)
def test_what_is_no_answer_ends_it_with_what_prometheus_says(answer: tuple[int, bytes], said: str) -> None:
    with served(FakePrometheus(answer=answer)) as prometheus, pytest.raises(NotAskedError, match=said):
        samples(prometheus, 3600)


def test_where_nothing_listens_it_says_so() -> None:
    with socket.socket() as bound:  # so that no other test's server gets the port
        bound.bind(("127.0.0.1", 0))
        prometheus = FakePrometheus(url=f"http://127.0.0.1:{bound.getsockname()[1]}")
        said = r"Prometheus cannot be asked at 127.0.0.1: Connection refused"
        with pytest.raises(NotAskedError, match=said):
            samples(prometheus, 3600)


def test_a_token_is_sent_and_only_by_https_or_on_this_host(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    with served(FakePrometheus()) as prometheus:
        samples(prometheus, 3600, token_file=str(token))
    assert set(prometheus.headers) == {"Bearer s3cret"}
    with pytest.raises(EndError, match="a token is sent by HTTPS only"):
        samples(FakePrometheus(url="http://prometheus.example"), 3600, token_file=str(token))
