"""``kubectl winpool memory replay``: on the recording of the demo, and on recordings that are broken."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING

import msgspec
import pytest
from msgspec.structs import replace

from harness.documents import ROOT
from harness.leak_recording import FILE, LEAKS, lines
from winpool.api.memory_pressure import MemoryPressure
from winpool.cli.memory_replay import Line, RecordedUsage, read_file
from winpool.controllers.watched_nodes import Wanted, WatchedNode
from winpool.features.memory.replay import Faults, Replay
from winpool.features.memory.settings import settings_of

if TYPE_CHECKING:
    from pathlib import Path

    from unit.cli.conftest import Plugin

PAGE = (ROOT / "docs" / "memory-replay.md").read_text()
POOL = str(ROOT / "deploy" / "samples" / "memory-evict.yaml")
OBSERVING = """\
apiVersion: winpool.dev/v1alpha1
kind: WindowsNodePool
metadata: {name: quiet}
spec:
  nodeSelector: {matchLabels: {agentpool: batch}}
  os: {version: "2022"}
"""
REPLAY = ("memory", "replay", "--pool", POOL, "--samples", str(FILE))


def test_the_recording_that_is_shipped_is_that_of_the_demo() -> None:
    assert FILE.read_text() == "".join(lines())
    assert FILE.stat().st_size < 100_000


def test_the_recording_of_the_demo_has_the_pod_that_leaks_evicted(plugin: Plugin) -> None:
    ended = plugin(*REPLAY, "-o", "json")
    assert (ended.code, ended.err) == (0, [])
    report = json.loads("\n".join(ended.out))
    assert (report["pool"], report["mode"], report["samples"], report["nodes"]) == (
        "memory-evict",
        "Evict",
        72,
        1,
    )
    changes = [(each["what"], each.get("level"), each.get("pod")) for each in report["changes"]]
    assert changes == [
        ("Level", "Warning", None),
        ("Level", "Soft", None),
        ("Level", "Hard", None),
        ("WouldSignal", "Hard", None),
        ("WouldEvict", "Hard", f"default/{LEAKS}"),
    ]
    assert all(report["first"] < each["at"] < report["last"] for each in report["changes"])


def test_a_person_reads_what_would_have_happened_when_and_why(plugin: Plugin) -> None:
    ended = plugin(*REPLAY)
    text = " ".join(" ".join(ended.out).split())
    assert "with mode Evict, 1 node would have been signalled, and 1 eviction begun" in text
    assert "2026-01-01 09:02:30 batch-0: would have chosen default/worker-1-1 for an eviction: it has" in text
    assert "neither owners nor PodDisruptionBudgets" in text
    assert max(map(len, ended.out)) <= 80


def test_the_page_shows_what_the_command_prints(plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LC_ALL", "C")
    shown = re.findall(r"^```\n(Pool:.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[0]
    assert "\n".join(plugin(*REPLAY).out).startswith(shown.rstrip())


def test_the_page_has_every_field_of_a_line() -> None:
    table = PAGE.partition("| Field | Means |")[2].partition("\n\n")[0]
    named = {name for name in re.findall(r"`([a-zA-Z]+)(?:\[\])?`", table) if name != "Kubelet"}
    fields = {each.encode_name for struct in (Line, RecordedUsage) for each in msgspec.structs.fields(struct)}
    assert named == fields


def test_it_knows_a_node_as_the_operator_would_have() -> None:
    """The same samples to the operator's own watch of a node, and to a replay."""
    pressure = MemoryPressure.model_validate({"mode": "Evict", "clearAfterSeconds": 60})
    replay = Replay(pressure, Faults())
    recorded = read_file(str(FILE), faults=Faults())
    wanted = Wanted("pool", "uid", 1, settings_of(pressure), evicts=True, sources={"Kubelet": None})
    watched: WatchedNode | None = None
    interval = 60.0
    for now, following in zip(recorded, [*recorded[1:], recorded[-1]], strict=True):
        list(replay.take(now.at, [now]))
        node = replay.nodes[now.node]
        if watched is None:
            watched = WatchedNode(node.as_node, wanted, now.at)
        lists = watched.lists_pods(now.at)
        usage = {each.uid: each.usage for each in now.pods or ()}
        commits = sum(each.commit or 0 for each in usage.values())
        sample = now.sample.arrived(source="Kubelet", at=now.at, interval=interval, ram=None)
        if lists:
            sample = replace(sample, pods_commit=commits)
        watched.took(sample, cold_interval=60.0)
        if lists:
            watched.listed(usage, at=now.at)
        watched.update(now.at)
        assert (node.memory, node.pods) == (watched.memory, watched.pods)
        interval = following.at - now.at


def test_samples_a_minute_apart_are_told_with_what_they_cost(plugin: Plugin, tmp_path: Path) -> None:
    of_minutes = [line for line in FILE.read_text().splitlines() if ":00Z" in json.loads(line)["time"]]
    (tmp_path / "rare.jsonl").write_text("\n".join(of_minutes))
    ended = plugin("memory", "replay", "--pool", POOL, "--samples", "rare.jsonl")
    text = " ".join(" ".join(ended.out).split())
    assert "usually 60 s apart. An eviction needs two that are no older than 55 s" in text
    assert "and 0 evictions begun" in text


def test_what_is_wrong_with_samples_is_in_the_notes(plugin: Plugin, tmp_path: Path) -> None:
    other = FILE.read_text().splitlines()[0].replace("Kubelet", "Prometheus/x").replace("batch-0", "batch-1")
    (tmp_path / "broken.jsonl").write_text(f"{FILE.read_text()}{{}}\nnothing\n{other}\n")
    ended = plugin("memory", "replay", "--pool", POOL, "--samples", "broken.jsonl", "-o", "json")
    report = json.loads("\n".join(ended.out))
    assert (report["samples"], report["nodes"]) == (72, 1)
    (_, lines_left_out, others) = report["notes"]
    assert lines_left_out.startswith("Lines that are no samples, left out: 2; the first is line 73: ")
    assert others == (
        "Samples of sources that the pool does not name, left out: 1; the first is Prometheus/x."
    )


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "samples.jsonl has no sample that the pool reads"),
        ("{}\n", "Lines that are no samples, left out: 1; the first is line 1: "),
        (
            FILE.read_text().replace('"Kubelet"', '"Prometheus/main"'),
            "Samples of sources that the pool does not name, left out: 72; the first is Prometheus/main.",
        ),
    ],
)
def test_where_no_sample_counts_it_says_why_and_ends_with_1(
    plugin: Plugin, tmp_path: Path, content: str, sentence: str
) -> None:
    (tmp_path / "samples.jsonl").write_text(content)
    ended = plugin("memory", "replay", "--pool", POOL, "--samples", "samples.jsonl")
    assert (ended.code, ended.out) == (1, [])
    assert sentence in "\n".join(ended.err)


@pytest.mark.parametrize(
    ("pool", "sentence"),
    [
        ("", "pool.yaml has 0 pools: give a file with one"),
        (
            f"{OBSERVING}---\n{OBSERVING.replace('quiet', 'other')}",
            "pool.yaml has 2 pools: give a file with one",
        ),
        (OBSERVING, "pool.yaml:1: document 1 (quiet): spec.memoryPressure not set"),
        (f"{OBSERVING}  memoryPressure: {{mode: Loud}}\n", "spec.memoryPressure.mode"),
    ],
)
def test_a_file_without_one_pool_that_watches_memory_ends_it_with_1(
    plugin: Plugin, tmp_path: Path, pool: str, sentence: str
) -> None:
    (tmp_path / "pool.yaml").write_text(pool)
    ended = plugin("memory", "replay", "--pool", "pool.yaml", "--samples", str(FILE))
    assert (ended.code, ended.out) == (1, [])
    assert sentence in ended.err[0]


def test_a_pool_that_reads_no_prometheus_has_no_series_to_read(plugin: Plugin) -> None:
    ended = plugin("memory", "replay", "--pool", POOL, "--prometheus", "http://127.0.0.1:1")
    assert (ended.code, ended.out) == (1, [])
    assert "the pool reads no Prometheus: add {type: Prometheus" in ended.err[0]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--samples", "a", "--prometheus", "http://a"), "not allowed with"),
        ((), "one of the arguments --samples --prometheus is required"),
        (("--prometheus", "prometheus:9090"), "is not the address of a Prometheus"),
        (("--prometheus", "https://jane:s3cret@a"), "and no password"),
        (
            ("--prometheus", "http://a", "--since", "1w"),
            "is not a span of time: write it like 90m, 24h or 30d",
        ),
        (("--prometheus", "http://a", "--matcher", "job"), "must have 1 to 128 printable characters"),
        (("--samples", "none.jsonl"), "none.jsonl: No such file or directory"),
    ],
)
def test_a_command_line_without_sense_ends_it_with_2(
    plugin: Plugin, arguments: tuple[str, ...], sentence: str
) -> None:
    ended = plugin("memory", "replay", "--pool", POOL, *arguments)
    assert (ended.code, ended.out) == (2, [])
    assert sentence in ended.err[-1]


def test_without_the_library_a_plot_is_refused_with_the_command_that_installs_it(
    plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "winpool.cli.memory_plot", raising=False)
    ended = plugin(*REPLAY, "--plot", "memory.svg")
    assert (ended.code, ended.out) == (1, [])
    assert ended.err[-1].endswith("--plot needs matplotlib: install it with pip install 'winpool[plot]'")


@pytest.mark.slow
def test_the_plot_has_curves_lines_levels_and_decisions(plugin: Plugin, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra plot is not installed")
    ended = plugin(*REPLAY, "--plot", "memory.svg")
    assert (ended.code, ended.err) == (0, ["written: memory.svg"])
    picture = (tmp_path / "memory.svg").read_text()
    for text in (
        *("batch-0", "committed, of the ceiling", "RAM in use", "Soft of Commit", "Hard of Physical"),
        *("Warning", "Hard", "would be signalled", "would evict", f"default/{LEAKS}"),
    ):
        assert f">{text}</text>" in picture
    plugin(*REPLAY, "--plot", "again.svg")
    assert (tmp_path / "again.svg").read_text() == picture


def test_a_plot_that_cannot_be_written_ends_it_with_2(plugin: Plugin) -> None:
    pytest.importorskip("matplotlib", reason="the extra plot is not installed")
    ended = plugin(*REPLAY, "--plot", "none/memory.svg")
    assert (ended.code, ended.out) == (2, [])
    assert ended.err[-1].endswith("none/memory.svg: No such file or directory")
