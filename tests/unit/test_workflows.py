"""The workflows of GitHub and the devcontainer do the two commands, with the cache kept."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.documents import ROOT
from nightly.__main__ import PARTS
from testbed import toolchain
from testbed.netns import refusal
from testbed.paths import cache_directory
from testbed.pins import all_pins
from winpool import __version__

WORKFLOWS = sorted((ROOT / ".github" / "workflows").iterdir())
DEVCONTAINER = ROOT / ".devcontainer" / "devcontainer.json"


def steps_of(workflow: Path) -> list[dict[str, Any]]:
    jobs = yaml.safe_load(workflow.read_text())["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


def targets_in(text: str) -> set[str]:
    return set(re.findall(r"\bmake ([a-z-]+)", text))


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def caches(workflow: Path) -> list[dict[str, str]]:
    return [step["with"] for step in steps_of(workflow) if step.get("uses", "").startswith("actions/cache@")]


@pytest.mark.parametrize(
    ("name", "typed"),
    [
        ("test.yaml", {"check", "docs", "test"}),
        ("nightly.yaml", {"nightly", "audit", "docs-links"}),
        ("release.yaml", {"docs", "image-layout", "release", "publish"}),
    ],
)
def test_a_workflow_types_the_commands_that_people_type(name: str, typed: set[str]) -> None:
    [workflow] = [path for path in WORKFLOWS if path.name == name]
    found: set[str] = set()
    for step in steps_of(workflow):
        found |= targets_in(step.get("run", ""))
    assert found == typed
    assert found <= targets()


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_githubs_own_and_pinned_to_a_major_version(workflow: Path) -> None:
    used = [step["uses"] for step in steps_of(workflow) if "uses" in step]
    assert used
    assert not [each for each in used if not re.fullmatch(r"actions/[a-z-]+@v\d+", each)]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_what_was_built_is_kept_until_something_changes_that_decides_it(workflow: Path) -> None:
    built = next(each for each in caches(workflow) if "hashFiles" in each["key"])
    assert Path(built["path"]).expanduser() == Path("~/.cache/winpool").expanduser()
    patterns = re.findall(r"'([^']+)'", built["key"])
    hashed = {path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file()}
    hashed |= {path for pattern in patterns for path in ROOT.glob(f"{pattern}/*") if path.is_file()}
    decisive = {path for pins in all_pins() for path in pins.sources.values()} | {toolchain.REQUIREMENTS}
    assert decisive <= hashed
    assert "runner.arch" in built["key"], "a binary is of one kind of machine"


def test_a_release_is_one_tag_and_each_job_may_do_only_what_it_says() -> None:
    found = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yaml").read_text())
    assert found[True] == {"push": {"tags": ["v*"]}}
    assert found["permissions"] == {}
    granted = {name: job["permissions"] for name, job in found["jobs"].items()}
    writing = {
        name: {right for right, level in rights.items() if level == "write"}
        for name, rights in granted.items()
    }
    assert writing == {
        "base": set(),
        "image": set(),
        "release": set(),
        "publish": {"packages", "id-token", "attestations"},
        "pages": {"contents"},
        "announce": {"contents"},
    }
    built = {each["arch"] for each in found["jobs"]["image"]["strategy"]["matrix"]["include"]}
    assert built == {"amd64", "arm64"}


@pytest.mark.parametrize(
    ("tag", "fits"),
    [
        (f"v{__version__}", True),
        ("v99.0.0", False),
        (__version__, False),
        (f"v{__version__};echo${{IFS}}more", False),
        (f"v{__version__}$(touch${{IFS}}made)", False),
    ],
)
def test_a_release_is_of_the_tag_that_started_it(tag: str, fits: bool) -> None:
    """A commit may have several tags. Signatures, the release and its notes have the name of the one."""
    subprocess.run(["git", "check-ref-format", f"refs/tags/{tag}"], check=True)
    found = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yaml").read_text())
    jobs = found["jobs"]
    assert [name for name, job in jobs.items() if "needs" not in job] == ["base"], "the others wait for it"
    step = next(each["run"] for each in jobs["base"]["steps"] if "run" in each)
    variables = {**os.environ, "GITHUB_REF_NAME": tag}
    ended = subprocess.run(
        ["bash", "-ec", step], cwd=ROOT, env=variables, capture_output=True, text=True, check=False
    )
    assert (ended.returncode == 0, ended.stderr == "", (ROOT / "made").exists()) == (fits, fits, False)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_make_is_given_nothing_that_a_tag_or_a_branch_is_named(workflow: Path) -> None:
    """Make expands what is in a variable, and a shell runs it: such a name may be any command."""
    lines = [line for step in steps_of(workflow) for line in step.get("run", "").splitlines()]
    given = [line for line in lines if re.search(r"\bmake ", line) and re.search(r"REF|github\.", line)]
    assert given == []
    assert not [line for line in lines if "${{ github." in line], (
        "GitHub puts it there before the shell reads it"
    )


def test_every_part_of_the_night_runs_on_github_once() -> None:
    text = (ROOT / ".github" / "workflows" / "nightly.yaml").read_text()
    named = re.findall(r'\bmake nightly PARTS="?([a-z ]+)', text)
    assert sorted(part for parts in named for part in parts.split()) == sorted(PARTS)


def test_the_audit_runs_on_a_schedule_in_a_job_of_its_own_and_is_no_part_of_the_night() -> None:
    [workflow] = [path for path in WORKFLOWS if "make audit" in path.read_text()]
    found = yaml.safe_load(workflow.read_text())
    # YAML 1.1 reads the key `on` as true.
    assert found[True]["schedule"]
    [job] = [each for each in found["jobs"].values() if "make audit" in str(each)]
    assert [step["run"] for step in job["steps"] if "run" in step] == ["make audit"]
    assert "audit" not in PARTS.values()


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_no_workflow_gives_up_what_needs_a_network_namespace(workflow: Path) -> None:
    """GitHub sets CI, which demands it; Ubuntu forbids it by a setting that our own refusal names."""
    text = workflow.read_text()
    assert "WINPOOL_DEMAND_NETNS" not in text
    for job in yaml.safe_load(text)["jobs"].values():
        runs = [step.get("run", "") for step in job["steps"]]
        if targets_in(" ".join(runs)) <= {"audit", "docs", "docs-links"}:
            continue  # they start no cluster
        allowed = runs.index("sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0")
        assert allowed < next(at for at, run in enumerate(runs) if run.startswith("make "))


def test_the_setting_is_one_that_the_refusal_names(tmp_path: Path) -> None:
    file = tmp_path / "proc/sys/kernel/apparmor_restrict_unprivileged_userns"
    file.parent.mkdir(parents=True)
    file.write_text("1\n")
    assert "sysctl kernel.apparmor_restrict_unprivileged_userns=0" in refusal(OSError(1, "no"), root=tmp_path)


def test_the_devcontainer_installs_and_keeps_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    found = json.loads(DEVCONTAINER.read_text())
    assert targets_in(found["postCreateCommand"]) == {"install"}
    assert targets() >= {"install"}
    [mount] = found["mounts"]
    target = dict(part.split("=", 1) for part in mount.split(","))["target"]
    for name in ("WINPOOL_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", f"/home/{found['remoteUser']}")
    assert Path(target) == cache_directory()
    assert target in found["onCreateCommand"], "a volume is root's at first"


def test_the_cluster_tests_show_the_slowest_and_keep_the_time_of_each() -> None:
    command = ["make", "--dry-run", "test-cluster", "WORKERS=3", "RESULTS=results"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    [run] = [line for line in printed.splitlines() if line.endswith(" tests/cluster")]
    assert "-n 3 " in run
    assert {"--durations=25", "--junitxml=results/cluster.xml"} <= set(run.split())


def test_make_test_runs_all_that_make_check_runs_also_after_a_part_that_failed() -> None:
    rules = dict(
        re.findall(r"^([a-z-]+):[^\n]*\n\t(.*(?:\n\t.*)*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    )
    assert {"test-side-by-side", "test-alerts", "--keep-going"} <= set(rules["test"].split())
    checked = {each for each in rules["check"].split() if each.startswith("check-")}
    assert checked - set(rules["test"].split()) == {"check-unit"}


@pytest.mark.parametrize("fails", ["tests/unit", "tests/cluster", "neither"])
def test_of_the_halves_of_make_test_each_runs_and_is_shown_whichever_fails(
    tmp_path: Path, fails: str
) -> None:
    stub = tmp_path / "pytest"
    stub.write_text(f'#!/bin/sh\necho "ran $*"\ncase "$*" in *{fails}*) exit 1;; esac\n')
    stub.chmod(0o755)
    (installed := tmp_path / ".installed").touch()
    settings = [f"BIN={tmp_path}", f"INSTALLED={installed}", f"RESULTS={tmp_path}"]
    command = ["make", "test-side-by-side", *settings]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    shown = {each for line in ran.stdout.splitlines() if line.startswith("ran ") for each in line.split()}
    assert {"tests/unit", "tests/cluster"} <= shown
    assert (ran.returncode == 0) == (fails == "neither")


@pytest.mark.parametrize(
    ("cores", "gibibytes", "workers"), [(2, 16, 4), (8, 16, 6), (2, 6, 2), (2, 1, 1), (64, 512, 128)]
)
def test_there_are_as_many_workers_as_cores_and_memory_carry(
    tmp_path: Path, cores: int, gibibytes: int, workers: int
) -> None:
    """Two for each core, and 2.5 GiB for each of them."""
    makefile = (ROOT / "Makefile").read_text()
    [counted] = re.findall(r"^WORKERS \?= \$\(shell ((?:.*\\\n)*.*)\)$", makefile, re.MULTILINE)
    (tmp_path / "meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable: {gibibytes * 1024 * 1024} kB\n")
    command = counted.replace("$$", "$").replace("nproc", f"echo {cores}")
    command = command.replace("/proc/meminfo", "meminfo").replace("\\\n", "")
    done = subprocess.run(["bash", "-euc", command], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert int(done.stdout) == workers
