"""``make bench-pressure TRUTH=1``: both modes decide the same about six scenes, or the run fails.

Fast mode is the operator's code in virtual time (``operator_node``). Here the operator itself runs, with a
real API server, beside simulated machines that have the memory of the scenes. All scenes run side by side.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import yaml

from bench.api import Api
from bench.errors import BenchError
from bench.memory_fleet import INSTALLATION, operator_settings
from bench.operator_process import USER, OperatorProcess
from bench.pressure.decisions import Compared, compared, evicted
from bench.pressure.operator_node import SCRAPE_SECONDS, VARIANTS, Variant
from bench.pressure.scene import families, scene_of
from bench.pressure.stage import NODES, Stage
from bench.pressure.virtual import decide
from bench.report import Report
from testbed.cluster import Testbed
from testbed.errors import TestbedError
from testbed.prometheus_config import ScrapeJob
from testbed.prometheus_server import Prometheus
from winpool.kubelet.schedule import BASE_INTERVAL, HOT_INTERVAL

SHORTENED: Final = Path(__file__).parent / "shortened"
"""The families of this mode: each begins shortly before what matters, on a machine that a testbed can have.
Memory does not deviate at random there, since each mode would draw its own deviations."""

SEED: Final = 1
RUNS: Final[Mapping[str, Variant]] = {
    family: next(each for each in VARIANTS if each.name == name)
    for family, name in {
        "fast-leak": "kubelets",
        "commit-hog": "pods-commit",
        "burst": "kubelets",
        "page-storm": "exporter-first",
        "daemonset-leak": "pods-commit",
        "batch-job": "kubelets",
    }.items()
}
"""What the operator reads in each scene."""

LOOK_SECONDS: Final = 1.0
"""Between two looks at what the operator has decided: the shortest time in the model of the machines."""
DATA_SOURCE: Final = "main"
FAILED: Final = 1
"""The exit code where the modes differ, and of a broken run."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run both modes and print a table for each scene; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.pressure.truth", description=__doc__)
    parser.add_argument("--family", action="append", choices=RUNS, help="only this family, by its name")
    wanted = parser.parse_args(arguments).family or list(RUNS)
    report = Report()
    try:
        with tempfile.TemporaryDirectory(prefix="winpool-bench-") as directory:
            stages = real_decisions(wanted, directory=Path(directory), report=report)
    except (BenchError, TestbedError) as error:
        print(f"error: {error}", file=sys.stderr)
        return FAILED
    differing = [stage.name for stage in stages if not _agree(stage, report)]
    if differing:
        print(f"the modes differ: {', '.join(differing)}", file=sys.stderr)
    return FAILED if differing else 0


def real_decisions(names: Sequence[str], *, directory: Path, report: Report) -> list[Stage]:
    """Run the operator on the scenes of these families; return the scenes with its decisions."""
    scenes = [scene_of(each, SEED) for each in families(SHORTENED) if each.name in names]
    with (
        Testbed.up(directory=directory / "testbed", apply=INSTALLATION, report=report.say) as testbed,
        Api(testbed) as api,
    ):
        stages = [Stage(each, RUNS[each.family.name], testbed, api) for each in scenes]
        for stage in stages:
            stage.prepare()
        testbed.wait_nodes_ready(len(stages) * NODES)
        for stage in stages:
            stage.populate()
        report.say(f"the pods of {len(stages)} scenes run")
        with _scraping(testbed, stages):
            operator = OperatorProcess(testbed, settings=_settings(directory, testbed))
            operator.start()
            began = datetime.now(UTC)
            for stage in stages:
                stage.begin()
            longest = max(each.scene.seconds for each in stages)
            report.say(f"the operator decides for {longest / 60:.0f} minutes")
            _play(stages, operator)
            _note_evictions(stages, testbed, since=began)
            operator.stop()
    return stages


@contextmanager
def _scraping(testbed: Testbed, stages: Sequence[Stage]) -> Iterator[None]:
    """Run a Prometheus where an operator reads it."""
    targets: dict[str, str] = {}
    for stage in stages:
        if len(stage.variant.sources) > 1:
            targets |= stage.exporters()
    if not targets:
        yield
        return
    job = ScrapeJob(name="windows-exporter", targets=targets)
    with Prometheus(testbed, jobs=[job], interval_seconds=int(SCRAPE_SECONDS)):
        yield


def _settings(directory: Path, testbed: Testbed) -> dict[str, str]:
    """Return the environment of the operator, with its default intervals."""
    source = {
        "name": DATA_SOURCE,
        "url": testbed.prometheus_url,
        "scrapeIntervalSeconds": int(SCRAPE_SECONDS),
    }
    file = directory / "data-sources.yaml"
    file.write_text(yaml.safe_dump({"dataSources": [source]}))
    polls = operator_settings(
        testbed.directory, poll_seconds=int(BASE_INTERVAL), hot_poll_seconds=int(HOT_INTERVAL)
    )
    return {**polls, "WINPOOL_DATA_SOURCES_FILE": str(file)}


def _play(stages: Sequence[Stage], operator: OperatorProcess) -> None:
    while playing := [each for each in stages if not each.is_over]:
        due = time.monotonic() + LOOK_SECONDS
        for stage in playing:
            stage.act()
        told = operator.memory()
        for stage in playing:
            stage.look(told)
        time.sleep(max(0.0, due - time.monotonic()))


def _note_evictions(stages: Sequence[Stage], testbed: Testbed, *, since: datetime) -> None:
    """Note the evictions that the API server has accepted, by its audit log."""
    testbed.settle_audit()
    by_name = {each.name: each for each in stages}
    for each in testbed.audit.requests(user=USER, since=since, resource="pods/eviction"):
        if each.code == 201:
            stage = by_name[each.namespace]
            stage.decisions.add(evicted(each.name), stage.at(each.received.timestamp()))


def _agree(stage: Stage, report: Report) -> bool:
    """Print what both modes have decided about a scene; return whether that is the same."""
    fast = decide(stage.scene, stage.variant)
    rows = compared(
        fast.found,
        stage.decisions.found,
        seconds=stage.scene.seconds,
        delay=stage.delays.seconds,
    )
    delays = stage.delays
    report.table(
        f"{stage.name}, {stage.variant.name}. {stage.scene.family.about} The real world: pods start within "
        f"{delays.starts:.1f} s, the node is watched within {delays.watched:.1f} s, looks are "
        f"{delays.looks:.1f} s apart at most.",
        ("", "Decision", "Fast, s", "Real, s", "Apart, s", "Allowed, s"),
        [_cells(each) for each in rows],
    )
    return all(each.agrees for each in rows)


def _cells(row: Compared) -> tuple[object, ...]:
    return ("" if row.agrees else "DIFFERS", row.what, row.fast, row.real, row.apart, row.allowed)


if __name__ == "__main__":
    sys.exit(main())
