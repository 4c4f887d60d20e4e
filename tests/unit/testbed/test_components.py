"""Command lines of the components."""

import sys
from pathlib import Path

from harness.testbed_parts import LAYOUT, PORTS
from testbed import components
from testbed.components import Command
from testbed.options import Options

BINARY = Path("/cache/controlplane")


def commands(options: Options | None = None) -> dict[str, Command]:
    made = components.control_plane(LAYOUT, ports=PORTS, options=options or Options(), binary=BINARY)
    return {command.name: command for command in made}


def test_components_come_in_the_order_in_which_they_start() -> None:
    assert tuple(commands()) == components.CONTROL_PLANE == ("etcd", "apiserver", "kcm", "scheduler")


def test_the_binary_learns_its_role_from_its_name() -> None:
    for name, command in commands().items():
        assert command.argv[0] == name
        assert command.executable == BINARY
        assert all(argument.startswith("--") for argument in command.argv[1:])


def test_everything_listens_on_loopback_only() -> None:
    for command in commands().values():
        listening = [a for a in command.argv if a.startswith(("--bind-address=", "--listen-"))]
        assert listening
        assert all("127.0.0.1" in argument for argument in listening)


def test_every_port_is_used_once_and_probed() -> None:
    made = commands()
    assert {name: command.port for name, command in made.items()} == {
        "etcd": 20000,
        "apiserver": 20002,
        "kcm": 20003,
        "scheduler": 20004,
    }
    assert all(f":{command.port}/" in str(command.health_url) for command in made.values())


def test_fsync_stays_on() -> None:
    assert not any("unsafe" in argument for argument in commands()["etcd"].argv)


def test_the_audit_log_is_written_by_the_request_and_never_rotated() -> None:
    argv = commands()["apiserver"].argv
    assert "--audit-log-mode=blocking" in argv
    assert "--audit-log-maxsize=0" in argv


def test_node_monitor_grace_is_kubernetes_own_unless_chosen() -> None:
    assert not any("node-monitor" in argument for argument in commands()["kcm"].argv)
    assert "--node-monitor-grace-period=7s" in commands(Options(node_monitor_grace_seconds=7))["kcm"].argv


def test_nothing_is_written_outside_the_directory() -> None:
    for command in commands().values():
        paths = [value for _, _, value in (a.partition("=") for a in command.argv) if value.startswith("/")]
        assert paths
        assert all(path.startswith("/somewhere/tb/") for path in paths)


def test_simulated_nodes_come_as_the_front_proxy() -> None:
    argv = components.winsim_argv(
        LAYOUT, server=PORTS.server, windows=12, linux=2, extra=["--name-prefix", "x"]
    )
    assert argv == (
        sys.executable,
        "-m",
        "testbed.winsim",
        "--server",
        "https://127.0.0.1:20002",
        "--ca",
        "/somewhere/tb/pki/ca.crt",
        "--cert",
        "/somewhere/tb/pki/front-proxy-client.crt",
        "--key",
        "/somewhere/tb/pki/front-proxy-client.key",
        "--kubelet-ca",
        "/somewhere/tb/pki/kubelet-ca.crt",
        "--kubelet-ca-key",
        "/somewhere/tb/pki/kubelet-ca.key",
        "--windows",
        "12",
        "--linux",
        "2",
        "--name-prefix",
        "x",
    )


def test_what_is_beside_heartbeats_is_simulated_only_where_that_was_chosen() -> None:
    usual = components.winsim(LAYOUT, ports=PORTS, options=Options(windows=1)).argv
    unusual = ("--kubelet-port", "--exporter-port", "--time-scale", "--detach-seconds")
    assert not any(argument.startswith(unusual) for argument in usual)
    chosen = Options(
        windows=1,
        kubelet_endpoints=True,
        kubelet_trust_seconds=2,
        windows_page_file="8096Mi",
        further_pods=14,
        time_scale=60,
        detach_seconds=0,
    )
    argv = components.winsim(LAYOUT, ports=PORTS, options=chosen).argv
    assert {
        "--kubelet-port=20005",
        "--exporter-port=20006",
        "--windows-page-file=8096Mi",
        "--kubelet-trust-seconds=2.0",
        "--further-pods=14",
        "--time-scale=60.0",
        "--detach-seconds=0.0",
    } <= set(argv)
