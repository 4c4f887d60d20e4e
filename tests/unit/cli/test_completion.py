"""What ``kubectl_complete-winpool`` answers, from the parsers of the verbs and what kubectl lists.

A program of the test is in the place of kubectl. The real one completes by it in ``tests/cluster``.
"""

from __future__ import annotations

import subprocess
import sys
import time
import tomllib
from typing import TYPE_CHECKING

import pytest

from harness.documents import ROOT
from winpool.cli import completion
from winpool.cli.completion import FILES, NO_FILES, Answer, answer_to
from winpool.cli.parsing import VERBS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LISTED = """\
echo "$*" >> $FOLDER/calls
case "$*" in
  *windowsnodepools*) printf 'linux-none 2022 4\\nwin-2019 2019 3\\nwin-2022 2022 4\\n';;
  *nodes*) printf 'node-1 Ready\\nwin-2022 Ready\\n';;
  "__complete get "*) printf 'prod\\tthe real one\\nstaging\\n:36\\n';;
esac
"""


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Return what makes a kubectl of these lines of shell, and returns its folder."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def make(lines: str) -> Path:
        program = tmp_path / "kubectl"
        program.write_text(f"#!/bin/sh\nFOLDER={tmp_path}\n{lines}\n")
        program.chmod(0o755)
        return tmp_path

    return make


def names(*words: str) -> list[str]:
    return [*answer_to(words).candidates]


def test_an_answer_is_what_kubectl_reads() -> None:
    answer = Answer({"a": "what it is", "b": ""}, FILES)
    assert [*answer.lines()] == ["a\twhat it is", "b", ":0"]


def test_verbs_are_offered_with_what_they_do() -> None:
    assert answer_to([""]).directive == NO_FILES
    assert sorted({verb.split()[0] for verb in VERBS}) == sorted(names(""))
    assert answer_to(["sta"]) == Answer({"status": VERBS["status"]})
    assert names() == names("")
    assert names("nothing") == names("nothing", "") == []


def test_verbs_of_two_words_are_offered_word_by_word() -> None:
    assert answer_to(["roll"]) == Answer({"rollout": "abort, pause, resume, retry, status"})
    assert answer_to(["rollout", "re"]) == Answer(
        {"resume": VERBS["rollout resume"], "retry": VERBS["rollout retry"]}
    )
    assert names("memory", "re") == ["replay"]
    assert names("memory", "-w", "re") == []


def test_help_is_about_verbs() -> None:
    assert names("help", "st") == ["status"]
    assert names("help", "rollout", "a") == ["abort"]
    assert names("help", "status", "") == []


def test_flags_are_those_of_the_verb_and_of_kubectl() -> None:
    assert names("rollout", "pause", "--o") == ["--owner"]
    assert names("status", "--out") == ["--output"]
    assert names("matrix", "--con") == ["--context"]
    assert names("--req") == ["--request-timeout"]
    assert {"-o", "-w", "-l", "--help", "--kubeconfig", "-n"} <= {*names("status", "-")}
    assert names("--vers") == names("status", "--vers") == [], "version is a verb"


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "help"])
def test_every_verb_has_its_help_among_its_flags(verb: str) -> None:
    assert "--help" in names(*verb.split(), "-")


def test_a_flag_that_is_given_is_not_offered_again_but_where_it_may_be_repeated() -> None:
    assert names("status", "-o", "json", "--out") == []
    assert names("audit", "-f", "a", "--file") == ["--filename"]


def test_values_are_the_choices_of_a_flag() -> None:
    assert names("status", "-o", "") == ["text", "wide", "json", "yaml", "name"]
    assert names("status", "--output", "y") == ["yaml"]
    assert names("status", "--output=y") == ["yaml"], "the shell puts the flag before it"
    assert names("audit", "--min-severity", "") == ["Error", "Warning", "Info"]
    assert names("rollout", "pause", "a", "--owner", "") == []


def test_where_a_file_belongs_the_shell_completes_files() -> None:
    for words in (("audit", "-f", ""), ("join-config", "--check", "x"), ("memory", "replay", "--pool", "")):
        assert answer_to(words) == Answer(directive=FILES)


def test_pools_are_asked_of_the_cluster_that_is_chosen(stub: Callable[[str], Path]) -> None:
    folder = stub(LISTED)
    assert names("--context", "prod", "status", "win") == ["win-2019", "win-2022"]
    assert (folder / "calls").read_text().splitlines() == [
        "get windowsnodepools.winpool.dev --no-headers --context=prod --request-timeout=2s"
    ]


def test_pools_and_nodes_have_the_form_that_was_begun(stub: Callable[[str], Path]) -> None:
    stub(LISTED)
    assert names("status", "wnp/win-202") == ["wnp/win-2022"]
    assert names("why", "") == ["node-1", "win-2022"]
    assert names("why", "node/n") == ["node/node-1"]
    assert names("why", "wnp/") == []
    assert names("audit", "--pool", "l") == ["linux-none"]
    assert names("memory", "node/") == ["node/node-1", "node/win-2022"]
    assert names("diagnose", "w") == ["win-2022", "win-2019"], "one is the name of both"


def test_a_name_that_no_object_can_have_is_not_offered(stub: Callable[[str], Path]) -> None:
    """What API servers refuse can come from a server that is none, and bash would run it."""
    stub(
        "cat << 'END'\n"
        "$(touch${IFS}here)   2022\n`touch${IFS}here`   2022\nwin;touch${IFS}here   2022\n"
        "win\x1b[31m   2022\nwin\u202e   2022\n-o   2022\n--kubeconfig=here   2022\n:0   2022\n  indented\n\n"
        "win.a-1   2022\nEND"
    )
    assert names("status", "") == ["win.a-1"]
    assert names("why", "node/") == ["node/win.a-1"]


def test_no_more_names_are_offered_than_the_verb_takes(stub: Callable[[str], Path]) -> None:
    stub(LISTED)
    assert names("status", "win-2022", "win") == ["win-2019"]
    assert names("plan", "win-2022", "") == []
    assert names("uninstall", "") == []


def test_the_values_of_the_flags_of_kubectl_are_those_of_kubectl(stub: Callable[[str], Path]) -> None:
    folder = stub(LISTED)
    expected = Answer({"prod": "the real one"}, 36)
    assert answer_to(["status", "--kubeconfig=f", "--context", "p"]).beginning("p") == expected
    assert answer_to(["status", "--kubeconfig=f", "--context=p"]) == expected
    assert (folder / "calls").read_text().splitlines() == [
        "__complete get --kubeconfig=f --context p",
        "__complete get --kubeconfig=f --context=p",
    ]


@pytest.mark.parametrize("words", [("validate", "--server", "-f", ""), ("--server", "-x", "status", "")])
def test_behind_a_flag_of_kubectl_that_lacks_its_value_nothing_is_offered(words: tuple[str, ...]) -> None:
    assert answer_to(words) == Answer()


@pytest.mark.parametrize("lines", ["echo never; exit 1", "printf '\\377\\n'", "exit 0"])
def test_where_kubectl_fails_there_is_nothing_and_not_a_word(
    stub: Callable[[str], Path], capfd: pytest.CaptureFixture[str], lines: str
) -> None:
    stub(f"echo 'error: expired' >&2; {lines}")
    assert answer_to(["status", ""]) == answer_to(["status", "--context", ""]) == Answer()
    assert capfd.readouterr() == ("", "")


def test_without_kubectl_there_is_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert answer_to(["why", ""]) == Answer()


def test_a_kubectl_that_waits_is_given_up(
    stub: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    stub("exec sleep 60")
    monkeypatch.setattr(completion, "ANSWER_SECONDS", 0.2)
    began = time.monotonic()
    assert answer_to(["status", ""]) == Answer()
    assert time.monotonic() - began < 30


def test_two_that_run_beside_each_other_have_the_same_time(
    stub: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    stub('case "$*" in *nodes*) echo node-1 Ready;; *) exec sleep 600;; esac')
    monkeypatch.setattr(completion, "ANSWER_SECONDS", 0.0)
    began = time.monotonic()
    pools, nodes = completion._Kubectl("get", "pools"), completion._Kubectl("get", "nodes")
    assert nodes._process is not None
    nodes._process.wait(60)
    monkeypatch.setattr(completion, "ANSWER_SECONDS", 60.0)
    assert (pools.lines(), nodes.lines()) == ([], ["node-1 Ready"])
    assert time.monotonic() - began < 60


def test_it_is_a_program_by_the_name_that_kubectl_looks_for() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["kubectl_complete-winpool"] == "winpool.cli.completion:main"
    assert callable(completion.main)


def test_of_the_verbs_only_the_one_that_is_named_is_loaded() -> None:
    program = (
        "import sys\n"
        "from winpool.cli.completion import answer_to\n"
        "heavy = {'pydantic', 'yaml', 'winpool.cli.audit', 'winpool.cli.status'}\n"
        "answer_to(['sta'])\n"
        "assert not heavy & set(sys.modules)\n"
        "answer_to(['version', '--'])\n"
        "sys.exit(len(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], timeout=60, check=False)
    assert done.returncode == 0
