"""What serving endpoints changes about nodes, rosters and command lines."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from testbed.winsim.conditions import HEALTHY
from testbed.winsim.endpoint.faults import Fault
from testbed.winsim.endpoint.reviews import Trust
from testbed.winsim.lives import machine
from testbed.winsim.nodestatus import initial_node
from testbed.winsim.options import parse_options
from testbed.winsim.roster import Roster


def filled(path: Path | None = None) -> Roster:
    roster = Roster("win", path=path)
    addresses = {"win-w01": "127.1.0.1", "win-w02": "127.1.0.2"}
    roster.add(tuple(addresses), os="windows", addresses=addresses, labels={}, taints=())
    return roster


@pytest.mark.parametrize("port", [10250, 20005])
def test_a_node_names_the_port_of_its_kubelet(port: int) -> None:
    entry = filled().entries["win-w01"]
    node = initial_node(machine(entry, kubelet_port=port), health=HEALTHY, now=datetime.now(UTC))
    assert node.status.daemon_endpoints.kubelet_endpoint.port == port


def test_faults_outlive_the_process_and_a_new_machine_has_none(tmp_path: Path) -> None:
    roster = filled(tmp_path / "roster.json")
    hang, slow = Fault(kind="hang"), Fault(kind="slow", seconds=2)
    roster.set_fault(["win-w01", "win-w02"], "kubelet", hang)
    roster.set_fault(["win-w01"], "exporter", slow)
    roster.renew(["win-w02"])
    later = Roster("win", path=tmp_path / "roster.json")
    later.load()
    assert later.entries["win-w01"].faults == {"kubelet": hang, "exporter": slow}
    assert later.entries["win-w02"].faults == {}
    later.set_fault(["win-w01"], "kubelet", None)
    assert later.entries["win-w01"].faults == {"exporter": slow}


@pytest.fixture
def required(tmp_path: Path) -> list[str]:
    (tmp_path / "f").touch()
    files = [text for name in ("ca", "cert", "key") for text in (f"--{name}", str(tmp_path / "f"))]
    return ["--server", "https://127.0.0.1:6443", *files]


def test_nobody_listens_unless_a_port_is_given(required: list[str], tmp_path: Path) -> None:
    assert parse_options(required).endpoint is None
    ca = ["--kubelet-ca", str(tmp_path / "f"), "--kubelet-ca-key", str(tmp_path / "f")]
    chosen = parse_options([*required, *ca, "--kubelet-port", "0", "--kubelet-trust-seconds", "2"]).endpoint
    assert chosen is not None
    assert (chosen.port, chosen.exporter_port, chosen.trust) == (0, None, Trust(token=2, allowed=2, denied=2))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["--kubelet-port", "10250"], "--kubelet-ca: is missing"),
        (["--kubelet-port", "10250", "--kubelet-ca", "/nowhere"], "there is no file /nowhere"),
        (["--kubelet-port", "70000"], "'70000' is not a port"),
        (["--exporter-port", "9182"], "give --kubelet-port too"),
    ],
)
def test_a_mistake_about_endpoints_is_said(
    given: list[str], sentence: str, required: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse_options([*required, *given])
    assert sentence in capsys.readouterr().err
