"""How the simulator treats an API server that is busy, and a person who reads its output."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from testbed.winsim.identities import SIMULATOR, node_identity
from testbed.winsim.objects import Taint
from testbed.winsim.options import parse_options
from testbed.winsim.troubles import Troubles
from testbed.winsim.wire import ApiError, pause_before_retry

FILES = ["--server", "https://127.0.0.1:6443", *(f"--{name}={__file__}" for name in ("ca", "cert", "key"))]


class HandClock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, UTC)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds


@pytest.mark.parametrize(
    ("code", "retry_after", "pause"),
    [
        (429, "3", 3.0),
        (429, None, 1.0),
        (429, "3600", 15.0),
        (503, "2", 2.0),
        (500, None, None),
        (503, "Wed, 21 Oct 2026 07:28:00 GMT", None),
        (409, "1", None),
        (403, None, None),
    ],
)
def test_a_request_is_repeated_only_when_the_server_asks_for_it(
    code: int, retry_after: str | None, pause: float | None
) -> None:
    assert pause_before_retry(code, retry_after) == pause


def test_a_node_speaks_as_itself() -> None:
    assert node_identity("win-w01").headers == {
        "X-Remote-User": "system:node:win-w01",
        "X-Remote-Group": "system:nodes",
    }


def test_the_same_trouble_on_many_nodes_is_told_once_and_then_counted() -> None:
    clock, said = HandClock(), list[str]()
    troubles = Troubles(clock=clock, say=said.append)
    refusal = ApiError(403, "Forbidden", "no such label")
    for number in range(100):
        troubles.report(f"w{number}", "registering", refusal)
    assert said == ["w0: registering: 403 Forbidden: no such label"]
    troubles.report("w0", "reporting its status", refusal)
    assert said[1:] == ["w0: reporting its status: 403 Forbidden: no such label"]
    clock.seconds = 31.0
    troubles.report("w7", "registering", refusal)
    assert said[2:] == ["w7: registering: 403 Forbidden: no such label (and 99 times more, on any node)"]


def test_the_command_line_makes_a_plan() -> None:
    options = parse_options(
        [
            *FILES,
            *("--windows", "3", "--linux", "0", "--prefix", "t-4f"),
            *("--label", "agentpool=win22", "--label", "empty="),
            *("--taint", "os=windows:NoSchedule", "--taint", "example.com/x:NoExecute"),
        ]
    )
    assert options.plan.names == ("t-4f-w01", "t-4f-w02", "t-4f-w03")
    assert options.plan.labels == {"agentpool": "win22", "empty": ""}
    assert options.plan.taints == (Taint("os", "NoSchedule", "windows"), Taint("example.com/x", "NoExecute"))
    assert not options.delete_on_exit
    assert options.ready_file is None


def test_the_pace_of_nodes_and_pods_is_a_kubelets_unless_told_otherwise(tmp_path: Path) -> None:
    usual = parse_options(FILES)
    assert (usual.lease_duration_seconds, usual.pod_start_seconds, usual.pod_stop_seconds) == (40, 0.3, 0.3)
    assert usual.status_sync_seconds == 10
    assert (usual.time_scale, usual.detach_seconds) == (1, None)
    assert (usual.control_socket, usual.roster) == (None, None)
    chosen = parse_options(
        [
            *FILES,
            *("--windows", "0", "--linux", "0", "--control-socket", str(tmp_path / "s")),
            *("--lease-duration-seconds", "200", "--pod-start-seconds", "0", "--pod-stop-seconds", "2.5"),
            *("--status-sync-seconds", "1", "--time-scale", "60", "--detach-seconds", "0"),
        ]
    )
    assert chosen.plan.names == ()
    assert (chosen.lease_duration_seconds, chosen.pod_start_seconds, chosen.pod_stop_seconds) == (200, 0, 2.5)
    assert chosen.status_sync_seconds == 1
    assert (chosen.time_scale, chosen.detach_seconds) == (60, 0)


def test_twelve_windows_and_two_linux_nodes_are_the_default() -> None:
    plan = parse_options(FILES).plan
    assert (plan.prefix, plan.windows, plan.linux) == ("win", 12, 2)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--windows", "0", "--linux", "0"], "there is nothing to simulate"),
        (["--windows", "-1"], "'-1' is not a number of nodes"),
        (["--prefix", "Win"], "'Win' does not make node names"),
        (["--prefix", "x" * 60], "is 64 long; at most 63 fit"),
        (["--key", "/nowhere/key"], "argument --key: there is no file /nowhere/key"),
        (["--label", "agentpool"], "'agentpool' is not KEY=VALUE"),
        (["--lease-duration-seconds", "0"], "'0' is not a number of seconds (1, 2, 3 ...)"),
        (["--pod-stop-seconds", "-1"], "'-1' is not a number of seconds (0, 0.5, 2 ...)"),
        (["--pod-start-seconds", "inf"], "'inf' is not a number of seconds (0, 0.5, 2 ...)"),
        (["--time-scale", "0"], "0 is not how many times as fast something is (0.5, 1, 60 ...)"),
        (["--taint", "os=windows"], "'os=windows' is not KEY[=VALUE]:EFFECT"),
        (["--taint", "os=windows:Never"], "NoSchedule, PreferNoSchedule, NoExecute"),
    ],
)
def test_a_mistake_on_the_command_line_is_named(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        parse_options([*FILES, *arguments])
    assert stopped.value.code == 2
    assert sentence in capsys.readouterr().err


def test_through_kubectl_proxy_a_person_impersonates_nodes_and_is_themself_otherwise() -> None:
    assert node_identity("win-w01").impersonation == {
        "Impersonate-User": "system:node:win-w01",
        "Impersonate-Group": "system:nodes",
    }
    assert SIMULATOR.impersonation == {}


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--server=http://localhost"], "--ca, --cert, --key, or else --kubectl-proxy"),
        ([*FILES, "--kubectl-proxy=p.sock"], "--kubectl-proxy excludes"),
        (["--server=http://localhost", "--kubectl-proxy=p.sock", "--kubelet-port=0"], "and --kubelet-port"),
    ],
)
def test_either_the_front_proxy_or_a_person_vouches(
    flags: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse_options(flags)
    assert said in capsys.readouterr().err


def test_with_a_person_no_certificate_is_needed() -> None:
    options = parse_options(["--server=http://localhost", "--kubectl-proxy=p.sock"])
    assert (options.front_proxy, options.kubectl_proxy) == (None, Path("p.sock"))
