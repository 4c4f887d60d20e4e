"""The real kubectl completes command lines of the plugin, and hands its answers on to shells."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from cluster.test_cli_kubectl import run
from harness.world import World

Complete = Callable[..., list[str]]
"""Returns the candidates for the last word behind ``kubectl winpool``, and what follows them."""

BASH_COMPLETION: Final = Path("/usr/share/bash-completion/bash_completion")

PROGRAMS: Final = {
    "kubectl-winpool": "winpool.cli.__main__",
    "kubectl_complete-winpool": "winpool.cli.completion",
}


@pytest.fixture
def environment(world: World) -> dict[str, str]:
    """The variables of a person who has installed the plugin, and may do everything in the cluster."""
    folder = world.directory / "installed"
    folder.mkdir()
    for name, module in PROGRAMS.items():
        program = f"#!{sys.executable}\nimport sys\nfrom {module} import main\nsys.exit(main())\n"
        (folder / name).write_text(program)
        (folder / name).chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "KUBECONFIG": str(world.testbed.kubeconfig("admin"))}


@pytest.fixture
def complete(environment: dict[str, str]) -> Complete:
    def completed(*words: str, **more: str) -> list[str]:
        done = run("kubectl", "__complete", "winpool", *words, **{**environment, **more})
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return completed


def test_kubectl_completes_verbs_flags_values_and_names_of_pools_and_nodes(
    world: World, complete: Complete
) -> None:
    world.fleet(windows=2, linux=1)
    first, second = sorted(
        name
        for name, node in world.nodes().items()
        if node["metadata"]["labels"]["kubernetes.io/os"] == "windows"
    )
    pool = world.apply(world.pool())
    assert complete("sta") == ["status\tShow the state of pools, their issues and the fixes.", ":4"]
    assert [line.split("\t")[0] for line in complete("rollout", "re")] == ["resume", "retry", ":4"]
    assert complete("status", "-o", "") == ["text", "wide", "json", "yaml", "name", ":4"]
    assert complete("audit", "-f", "") == [":0"], "the shell completes files"
    assert complete("status", "") == [pool, ":4"]
    assert complete("audit", "--pool", f"wnp/{pool[:3]}") == [f"wnp/{pool}", ":4"]
    assert complete("why", "") == [first, second, ":4"]
    assert complete("memory", f"node/{first}") == [f"node/{first}", ":4"]


def test_kubectl_completes_its_own_flags_behind_the_verb(world: World, complete: Complete) -> None:
    contexts = run("kubectl", "config", "get-contexts", "-o", "name", KUBECONFIG=_admin(world)).stdout.split()
    assert contexts
    assert complete("status", "--cont") == ["--context", ":4"]
    assert complete("status", "--context", "")[:-1] == contexts
    ours = "--kubernetes\tPrint only this minor version, such as 1.35."
    assert complete("--context", contexts[0], "matrix", "--kubern") == [ours, ":4"]
    assert complete("matrix", "--kubecon") == ["--kubeconfig", ":4"]
    assert "kube-system" in complete("audit", "-n", "kube-s")


def _admin(world: World) -> str:
    return str(world.testbed.kubeconfig("admin"))


def test_a_cluster_that_does_not_answer_gives_no_names_and_not_a_word(
    world: World, environment: dict[str, str]
) -> None:
    words = ("status", "--server=https://127.0.0.1:1", "")
    done = run(str(world.directory / "installed" / "kubectl_complete-winpool"), *words, **environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, ":4\n", "")


# Shells

BASH: Final = """\
source /usr/share/bash-completion/bash_completion
source <(kubectl completion bash)
COMP_LINE=$LINE
COMP_POINT=${#LINE}
read -ra COMP_WORDS <<< "$LINE"
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
__start_kubectl
echo "${COMPREPLY[@]}"
"""

FISH: Final = "kubectl completion fish | source; complete --do-complete $LINE"

ZSH: Final = """\
zmodload zsh/zpty
zpty -b shell zsh -f -i
zpty -w shell "autoload -Uz compinit; compinit -u -D; source <(kubectl completion zsh); echo is re''ady"
while zpty -r shell seen && [[ $seen != *"is ready"* ]]; do :; done
zpty -w -n shell $LINE$'\\t'
shown=
for ((tries = 0; tries < 300; tries++)); do
  zpty -rt shell seen && shown+=$seen
  [[ $shown == *$WORD* ]] && break
  sleep 0.1
done
print -r -- $shown
zpty -d shell
"""
"""It completes only in a terminal, where the word is seen after a while, with much else around it."""

SHELLS: Final = {
    "bash": ("bash", "--norc", "-c", BASH),
    "fish": ("fish", "--no-config", "-c", FISH),
    "zsh": ("zsh", "-f", "-c", ZSH),
}


@pytest.mark.nightly
@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_shows_what_kubectl_hands_on(world: World, environment: dict[str, str], shell: str) -> None:
    is_there = shutil.which(shell) is not None
    if not is_there or (shell == "bash" and not BASH_COMPLETION.exists()):
        missing = f"{shell} cannot be tried: apt-get install bash-completion fish zsh"
        assert not os.environ.get("CI"), missing
        pytest.skip(missing)
    pool = world.apply(world.pool())
    for line, word in (
        ("kubectl winpool sta", "status"),
        ("kubectl winpool rollout res", "resume"),
        ("kubectl winpool status --out", "--output"),
        ("kubectl winpool status -o ya", "yaml"),
        (f"kubectl winpool status {pool[:-1]}", pool),
    ):
        variables = {"LINE": line, "WORD": word, "TERM": "xterm", "HOME": str(world.directory)}
        done = run(*SHELLS[shell], **environment, **variables)
        assert word in done.stdout, (line, done.stdout, done.stderr)
