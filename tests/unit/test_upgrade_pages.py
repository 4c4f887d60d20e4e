"""The pages on OS upgrades and their examples hang together: files, exit codes, names of gates, reasons."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Final

import pytest
import yaml

from harness.documents import ROOT, links_of
from winpool.api.conditions import Reason
from winpool.api.events import EventReason
from winpool.api.issues import IssueReason
from winpool.api.keys import UPGRADE_STATE_LABEL
from winpool.api.spec import WindowsNodePool
from winpool.api.status import SlotState
from winpool.api.upgrade import (
    DEFAULT_TRIGGERS,
    NEVER_OVERRIDDEN,
    Gate,
    OnTimeout,
    Strategy,
    Trigger,
    UpgradeState,
)
from winpool.features.upgrade.gates.table import GATES

FOLDER: Final = ROOT / "docs" / "upgrades"
EXAMPLES: Final = FOLDER / "examples"
PAGES: Final = sorted(FOLDER.glob("*.md"))
SCRIPTS: Final = sorted(EXAMPLES.glob("*.sh"))
MANIFESTS: Final = sorted(EXAMPLES.glob("*.yaml"))
OVERVIEW: Final = (FOLDER / "README.md").read_text()

TABLES: Final = {"actor.sh": "actors.md", "node-image.sh": "node-image.md", "patch-node.sh": "patch-tool.md"}
"""The page with the table of exit codes of a script. Those of ``ask.sh`` are in a sentence."""


def in_one_line(page: Path) -> str:
    """Return the text of a page whatever its line breaks."""
    return " ".join(page.read_text().split())


def test_every_example_is_on_a_page_and_there() -> None:
    linked = {target for page in PAGES for target in links_of(page.read_text()) if "examples/" in target}
    assert linked == {f"examples/{each.name}" for each in (*SCRIPTS, *MANIFESTS)}
    assert {each.name for each in EXAMPLES.iterdir()} == {each.name for each in (*SCRIPTS, *MANIFESTS)}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_a_script_can_be_run_and_is_well_formed(script: Path) -> None:
    assert os.access(script, os.X_OK)
    first, *rest = script.read_text().splitlines()
    assert first == "#!/usr/bin/env bash"
    assert "set -uo pipefail" in rest
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("ask.sh", ()),
        ("ask.sh", ("win-2022",)),
        ("node-image.sh", ()),
        ("node-image.sh", ("win-2022", "60")),
        ("node-image.sh", ("win-2022", "soon", "touch")),
        ("node-image.sh", ("win-2022", "-1", "touch")),
        ("node-image.sh", ("win-2022", "", "touch")),
        ("node-image.sh", ("win-2022", "1e3", "touch")),
        ("patch-node.sh", ("touch",)),
        ("actor.sh", ()),
    ],
)
def test_a_script_that_is_called_wrongly_asks_nothing_and_runs_nothing(
    script: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "kubectl").write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\n")
    (tmp_path / "kubectl").chmod(0o755)
    environment = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    command = (*words, f"{tmp_path}/ran") if "touch" in words else words
    done = subprocess.run(
        [str(EXAMPLES / script), *command], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.startswith("usage: ")
    assert {each.name for each in tmp_path.iterdir()} == {"kubectl"}


@pytest.mark.parametrize("script", ["ask.sh", "node-image.sh", "patch-node.sh"])
@pytest.mark.parametrize("kubectl", ["exit 1", "exit 0", "echo '|||'", "echo True"])
def test_no_answer_runs_nothing(script: str, kubectl: str, tmp_path: Path) -> None:
    """A kubectl that fails, and one that says nothing of use, whatever it is asked."""
    (tmp_path / "kubectl").write_text(f"#!/bin/sh\n{kubectl}\n")
    (tmp_path / "kubectl").chmod(0o755)
    words = {
        "ask.sh": ("win-2022", "w1"),
        "node-image.sh": ("win-2022", "0", "touch"),
        "patch-node.sh": ("touch",),
    }
    environment = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "NODE_NAME": "w1"}
    command = (*words[script], f"{tmp_path}/ran") if "touch" in words[script] else words[script]
    done = subprocess.run(
        [str(EXAMPLES / script), *command], env=environment, capture_output=True, check=False
    )
    assert done.returncode == 3, done.stderr
    assert not (tmp_path / "ran").exists()


MINE: Final = "Upgrading|true||7|"
GIVEN: Final = '{"claim":"0123456789ab","target":{"version":"2022","revision":4171},"state":"Upgrading"}'
ANY_REVISION: Final = GIVEN.replace(',"revision":4171', "")


@pytest.mark.parametrize(
    ("node", "listed", "code", "runs"),
    [
        (f"{MINE}{GIVEN}", 0, 0, ["w1 2022 4171"]),
        (f"{MINE}{ANY_REVISION}", 0, 0, ["w1 2022"]),
        (f"{MINE}{GIVEN}", 1, 3, []),
        (f"Upgrading|true|0123456789ab|7|{GIVEN}", 0, 0, []),
        (f"Upgrading|true|ba9876543210|7|{GIVEN}", 0, 0, ["w1 2022 4171"]),
        (f"Upgrading|||7|{GIVEN}", 0, 0, []),
        (f"Rejoining|true||7|{GIVEN}", 0, 0, []),
        (f"{MINE}garbage", 0, 0, []),
        ("", 0, 0, []),
    ],
)
def test_an_actor_runs_its_command_once_for_a_claim_and_for_nodes_that_are_handed_over_alone(
    node: str, listed: int, code: int, runs: list[str], tmp_path: Path
) -> None:
    answers = f"case $2 in nodes) echo node/w1; exit {listed};; *) echo '{node}';; esac"
    (tmp_path / "kubectl").write_text(f"#!/bin/sh\n{answers}\n")
    (tmp_path / "patch").write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/runs\n')
    for each in ("kubectl", "patch"):
        (tmp_path / each).chmod(0o755)
    done = subprocess.run(
        [str(EXAMPLES / "actor.sh"), str(tmp_path / "patch")],
        env={"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    written = tmp_path / "runs"
    assert (written.read_text().splitlines() if written.exists() else []) == runs


@pytest.mark.parametrize(
    ("pool", "code"),
    [
        ("3|3|True|", 0),
        ('3|3|True|["w2","w11"]', 0),
        ('3|3|True|["w2","w1"]', 3),
        ("3|2|True|", 3),
        ("3|3|False|", 3),
    ],
)
def test_a_label_that_someone_keeps_changing_is_no_yes(pool: str, code: int, tmp_path: Path) -> None:
    answers = f"case $2 in wnp) echo '{pool}';; node) echo 'win-2022|Required';; esac"
    (tmp_path / "kubectl").write_text(f"#!/bin/sh\n{answers}\n")
    (tmp_path / "kubectl").chmod(0o755)
    environment = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [str(EXAMPLES / "ask.sh"), "win-2022", "w1"], env=environment, capture_output=True, check=False
    )
    assert done.returncode == code, done.stderr


@pytest.mark.parametrize("script", TABLES)
def test_the_page_has_the_exit_codes_of_the_script(script: str) -> None:
    page, text = (FOLDER / TABLES[script]).read_text(), (EXAMPLES / script).read_text()
    table = set(re.findall(r"^\| (\d) \| ", page, re.MULTILINE))
    assert table == {"0", *re.findall(r"\bexit (\d)\b", text)}


def test_the_page_on_asking_has_the_exit_codes_of_its_script() -> None:
    page, text = in_one_line(FOLDER / "ask-the-gate.md"), (EXAMPLES / "ask.sh").read_text()
    for code in {*re.findall(r"\bexit (\d)\b", text)}:
        assert re.search(rf"\bwith {code}\b", page), code


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda manifest: manifest.name)
def test_a_manifest_of_the_examples_is_one(manifest: Path) -> None:
    documents = list(yaml.safe_load_all(manifest.read_text()))
    assert documents
    for each in documents:
        assert each["apiVersion"]
        assert each["kind"]
        assert each["metadata"]["name"]


def test_the_plan_selects_by_the_permission_and_runs_what_asks_again() -> None:
    plan, binding = yaml.safe_load_all((EXAMPLES / "plan.yaml").read_text())
    [selected] = plan["spec"]["nodeSelector"]["matchExpressions"]
    assert (selected["key"], selected["operator"]) == (UPGRADE_STATE_LABEL, "In")
    assert selected["values"] == [UpgradeState.REQUIRED, UpgradeState.UP_TO_DATE]
    shell, script = plan["spec"]["upgrade"]["command"]
    assert shell == "bash"
    assert (EXAMPLES / script.removeprefix("/")) in SCRIPTS
    [account] = binding["subjects"]
    assert account["name"] == plan["spec"]["serviceAccountName"]
    assert account["namespace"] == plan["metadata"]["namespace"]


def test_the_yaml_of_the_page_is_what_pools_may_ask_for() -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```", OVERVIEW, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    base = {"nodeSelector": {"matchLabels": {"agentpool": "win22"}}, "os": {"version": "2022"}}
    for block in blocks:
        spec = {**base, **yaml.safe_load(block)["spec"]}
        WindowsNodePool.model_validate(
            {
                "apiVersion": "winpool.dev/v1alpha1",
                "kind": "WindowsNodePool",
                "metadata": {"name": "win"},
                "spec": spec,
            }
        )


def test_the_table_of_triggers_has_each_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| it[^|]*\| (yes|no) \|$", OVERVIEW, re.MULTILINE))
    rows |= dict(re.findall(r"^\| `(\w+)` \| its[^|]*\| (yes|no) \|$", OVERVIEW, re.MULTILINE))
    assert rows == {each.value: "yes" if each in DEFAULT_TRIGGERS else "no" for each in Trigger}


def test_the_pages_name_only_what_there_is() -> None:
    known = {
        *(each.value for kind in (Gate, Trigger, UpgradeState, IssueReason, Reason) for each in kind),
        *(
            "UpgradeAllowed",
            "UpgradeDue",
            "Manual",
            *Strategy,
            *OnTimeout,
            "InPlace",
            "Replace",
            "Paused",
            "DryRun",
            "WindowsNodePools",
        ),
        *("RequestUpgrade", "Reconciling", *SlotState, *EventReason),
        *("Vetoed", "ToBeDeletedByClusterAutoscaler"),
    }
    named = {
        word for page in PAGES for word in re.findall(r"`([A-Z][a-z]+(?:[A-Z][A-Za-z]*)*)`", page.read_text())
    }
    assert named
    assert not named - known


def test_the_page_says_how_many_gates_there_are_and_which_cannot_be_overridden() -> None:
    numbers = {12: "twelve", 13: "thirteen", 14: "fourteen"}
    page = in_one_line(FOLDER / "README.md")
    assert f"[{numbers[len(GATES)]} gates](../reference/gates.md)" in page
    said = re.search(r"The gates ((?:`\w+`| and )+) cannot be overridden", page)
    assert said is not None
    assert set(re.findall(r"`(\w+)`", said[1])) == {each.value for each in NEVER_OVERRIDDEN}
