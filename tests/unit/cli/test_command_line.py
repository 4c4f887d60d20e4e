"""The plugin as a program: help, and what it loads."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

import pytest

from winpool.cli.__main__ import main
from winpool.cli.parsing import pool_name

if TYPE_CHECKING:
    from pathlib import Path

    from unit.cli.conftest import Plugin


VERBS = (
    *("audit", "diagnose", "join-config", "matrix", "memory", "memory replay", "plan"),
    *("rollout abort", "rollout pause", "rollout resume", "rollout retry", "rollout status"),
    *("runtimeclass", "status", "uninstall", "validate", "version", "why"),
)


@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("-h",), *((*verb.split(), "--help") for verb in VERBS)],
)
def test_help_fits_a_terminal_and_names_the_program_as_it_is_called(
    plugin: Plugin, arguments: tuple[str, ...]
) -> None:
    ended = plugin(*arguments)
    assert (ended.code, ended.err) == (0, [])
    assert ended.out[0].startswith("usage: kubectl winpool ")
    assert max(map(len, ended.out)) <= 80
    assert ("examples:" in ended.out) is (len(arguments) > 1)


def test_every_verb_says_what_it_does_and_takes_the_flags_of_kubectl(plugin: Plugin) -> None:
    top = plugin("--help").out
    for verb in VERBS:
        (line,) = [line for line in top if f"{line.strip()}  ".startswith(f"{verb}  ")]
        assert len(line.split()) > 3
        told = "\n".join(plugin(*verb.split(), "--help").out)
        assert "--kubeconfig" in told
        assert "--context" in told


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_lists_its_exit_codes_in_the_same_form(plugin: Plugin, verb: str) -> None:
    lines = plugin(*verb.split(), "--help").out
    listed = lines[lines.index("exit codes:") + 1 :]
    codes = [line.split()[0] for line in listed[: listed.index("")] if line[2] != " "]
    assert codes in (["0", "1", "2", "130"], ["0", "2", "130"], ["0", "1", "2", "3", "130"])
    assert "  130  Ctrl-C stopped it" in lines


def test_flags_for_the_cluster_may_stand_before_the_verb(plugin: Plugin) -> None:
    for arguments in (("--context", "x", "matrix"), ("matrix", "--context", "x"), ("matrix", "--context=x")):
        ended = plugin(*arguments)
        assert ended.code == 0
        assert ended.err[0].startswith("--context has no effect: ")


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("win-2022", "win-2022"),
        ("wnp/win-2022", "win-2022"),
        ("WNP/win-2022", "win-2022"),
        ("windowsnodepool/a", "a"),
        ("windowsnodepools/a", "a"),
        ("windowsnodepools.winpool.dev/a", "a"),
        ("windowsnodepools.v1alpha1.winpool.dev/a", "a"),
    ],
)
def test_a_pool_is_named_as_for_kubectl(given: str, name: str) -> None:
    assert pool_name(given) == name


@pytest.mark.parametrize("given", ["", "wnp/", "/", "node/a", "wnp/a/b", "windowsnodepools.example.com/a"])
def test_what_names_no_pool_is_a_fault_of_the_command_line(plugin: Plugin, given: str) -> None:
    ended = plugin("status", given)
    assert (ended.code, ended.out) == (2, [])
    assert "is not the name of a pool: write NAME or wnp/NAME" in ended.err[-1]


def test_ctrl_c_ends_it_without_a_word(plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("winpool.cli.validate.pools_in", interrupted)
    ended = plugin("validate", "-f", "pool.yaml")
    assert (ended.code, ended.out, ended.err) == (130, [], [])


@pytest.mark.parametrize("arguments", [(), ("help",), ("help", "help"), ("--context", "x")])
def test_without_a_verb_it_shows_the_help(plugin: Plugin, arguments: tuple[str, ...]) -> None:
    ended = plugin(*arguments)
    assert (ended.code, ended.out, ended.err) == (0, plugin("--help").out, [])


@pytest.mark.parametrize("verb", [("status",), ("rollout", "pause"), ("memory", "replay")])
def test_help_is_a_verb_as_of_kubectl(plugin: Plugin, verb: tuple[str, ...]) -> None:
    ended = plugin("help", *verb)
    assert (ended.code, ended.out, ended.err) == (0, plugin(*verb, "--help").out, [])


@pytest.mark.parametrize("arguments", [("rollout",), ("rollout", "-h"), ("help", "rollout")])
def test_of_verbs_with_the_same_first_word_the_help_shows_those(
    plugin: Plugin, arguments: tuple[str, ...]
) -> None:
    ended = plugin(*arguments)
    assert (ended.code, ended.err) == (0, [])
    listed = [" ".join(line.split()[:2]) for line in ended.out if line.startswith("    r")]
    assert listed == [verb for verb in VERBS if verb.startswith("rollout ")]


@pytest.mark.parametrize("verb", VERBS)
def test_what_has_a_format_for_programs_has_both(plugin: Plugin, verb: str) -> None:
    told = "\n".join(plugin(*verb.split(), "--help").out)
    assert (",json" in told) is (",json,yaml" in told)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("help", "judge"), "invalid choice: 'judge'"),
        (("rollout", "stop", "a"), "invalid choice: 'rollout stop' (choose from 'rollout abort', "),
        (("--version",), "use kubectl winpool version"),
        (("status", "--version"), "use kubectl winpool version"),
        (("--verbose", "status"), "unrecognized arguments: --verbose"),
        (("judge",), "invalid choice: 'judge'"),
        (("validate",), "-f/--filename"),
        (("validate", "pool.yaml"), "-f/--filename"),
        (("audit", "web"), "'web' is not KIND/NAME: kinds are deployment, "),
        (("audit", "-A", "deploy/web"), "KIND/NAME is in one namespace: name that with -n instead of -A"),
        (("audit", "rollout/web"), "'rollout/web' is not KIND/NAME: kinds are deployment, "),
        (
            ("check", "-f", "x", "--host-build", "2022"),
            "use audit -f FILE with --host-build BUILD or --pool POOL",
        ),
        (("audit", "--explain", "R99"), "'R99' is no rule"),
        (("audit", "-f", "x", "--kubernetes", "1.31"), "'1.31' is not"),
        (("validate", "-f", "x", "--serv"), "unrecognized arguments: --serv"),
        (("validate", "-f", "x", "--server"), "to have it validate a pool: --dry-run=server"),
        (("validate", "--server", "-f", "x"), "to have it validate a pool: --dry-run=server"),
        (("status", "--context"), "--context needs a value"),
        (("plan", "a", "b"), "unrecognized arguments: b"),
        (("status", "a", "--all"), "a POOL is named, so --all and -l have nothing to choose from"),
        (("status", "a", "-l", "b=c"), "a POOL is named, so --all and -l have nothing to choose from"),
        (("status", "-o", "table"), "(choose from 'text', 'wide', 'json', 'yaml', 'name')"),
    ],
)
def test_a_command_line_without_sense_ends_with_2(
    plugin: Plugin, arguments: tuple[str, ...], word: str
) -> None:
    ended = plugin(*arguments)
    assert (ended.code, ended.out) == (2, [])
    assert word in ended.err[-1]


def test_an_unknown_flag_shows_the_usage_of_its_verb(plugin: Plugin) -> None:
    for verb in ("status", "rollout pause"):
        ended = plugin(*verb.split(), "a", "--al")
        assert ended.err[0].startswith(f"usage: kubectl winpool {verb} [-h]")
        assert ended.err[-1] == f"kubectl winpool {verb}: error: unrecognized arguments: --al"


def test_kubectl_finds_it_by_its_name() -> None:
    """Plugins are programs on the PATH whose names begin with ``kubectl-``."""
    (script,) = [each for each in entry_points(group="console_scripts") if each.name == "kubectl-winpool"]
    assert script.load() is main


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [["validate", "-f", "-"], ["audit", "-f", "-", "--host-build", "2022"], ["audit", "-f", "-"]],
)
def test_offline_nothing_is_loaded_that_could_reach_a_cluster(arguments: list[str]) -> None:
    program = (
        "import sys\n"
        "from winpool.cli.__main__ import main\n"
        f"code = main({arguments})\n"
        "assert code == 1, code\n"
        "far = {'aiohttp', 'kopf', 'kubernetes', 'asyncio', 'subprocess', 'http.client'}\n"
        "sys.exit(len(far & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], input="", text=True, timeout=60, check=False)
    assert done.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["status"],
        ["plan", "a"],
        ["why", "a"],
        ["memory"],
        ["uninstall", "--plan"],
        ["join-config", "a"],
        ["runtimeclass", "a"],
        ["audit", "-A"],
        ["audit", "-f", "-", "--pool", "a"],
        ["diagnose", "-A"],
    ],
)
def test_online_it_loads_no_client_of_its_own(arguments: list[str], tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from winpool.cli.__main__ import main\n"
        f"code = main({arguments})\n"
        "assert code == 1, code\n"
        "sys.exit(len({'aiohttp', 'kopf', 'kubernetes', 'prometheus_client'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert "kubectl cannot be started" in done.stderr


@pytest.mark.slow
def test_a_reader_that_goes_away_gets_no_traceback() -> None:
    text = "kind: WindowsNodePool\n---\n" * 2_000  # 90 kB of answer: more than a buffer holds
    command = [sys.executable, "-m", "winpool.cli", "validate", "-f", "-"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write(text)
        process.stdin.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=60) == 1


PRIVILEGED = """\
apiVersion: v1
kind: Pod
metadata: {name: bad}
spec:
  os: {name: windows}
  nodeSelector: {kubernetes.io/os: windows}
  containers: [{name: a, image: a, securityContext: {privileged: true}}]
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("-f - <&-", 1),
        ("-f pod.yaml >&-", 1),
        ("-f pod.yaml >/dev/full", 1),
        ("--explain W13 >/dev/full", 1),
        ("-f pod.yaml 2>&-", 3),
        ("-f pod.yaml 2>/dev/full", 3),
    ],
)
def test_an_answer_that_cannot_be_written_is_no_yes_and_needs_no_stderr(
    tmp_path: Path, arguments: str, code: int
) -> None:
    (tmp_path / "pod.yaml").write_text(PRIVILEGED)
    command = f"{sys.executable} -m winpool.cli audit {arguments}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, "Traceback" in done.stderr) == (code, False)
