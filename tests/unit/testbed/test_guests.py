"""Simulated nodes in the cluster of a person never take the name of a node that is there."""

import json
from pathlib import Path

import pytest

from testbed.errors import TestbedError
from testbed.guests import MOST_NODES, Kubectl, join, parser, refuse_others

NODES = [{"metadata": {"name": "simulated-w01"}}, {"metadata": {"name": "akswin000001"}}]


def test_names_that_are_taken_are_refused() -> None:
    refuse_others(["simulated-w02"], NODES)
    with pytest.raises(TestbedError, match="nodes of these names: simulated-w01"):
        refuse_others(["simulated-w01", "simulated-w02"], NODES)


def test_a_name_that_is_taken_while_the_person_reads_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The nodes of that name would be taken over, and deleted at the end."""
    taken = json.dumps({"items": NODES})
    config = '{"clusters": [{"cluster": {"server": "here"}}], "current-context": "c"}'
    (tmp_path / "kubectl").write_text(
        f"#!/bin/sh\ncd {tmp_path}\n"
        'case "$*" in\n'
        f"  get*) if test -e read; then echo '{taken}'; else echo '{{\"items\": []}}'; fi;;\n"
        f"  config*) echo '{config}';;\n"
        "  proxy*) touch proxied;;\n"
        "esac\n"
    )
    (tmp_path / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def agree(_: str) -> str:
        (tmp_path / "read").touch()
        return "yes"

    monkeypatch.setattr("builtins.input", agree)
    with pytest.raises(TestbedError, match="nodes of these names: simulated-w01"):
        join(Kubectl([]), count=1, prefix="simulated", labels=(), sure=False)
    assert not (tmp_path / "proxied").exists()


@pytest.mark.parametrize("count", ["0", "-1", "many", str(MOST_NODES + 1)])
def test_a_number_of_nodes_that_makes_no_sense_is_refused(
    count: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["join", f"--windows={count}"])
    assert "is not a number of nodes" in capsys.readouterr().err
