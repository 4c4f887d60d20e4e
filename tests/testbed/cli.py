"""The commands of ``python -m testbed``."""

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from testbed import fleetcli
from testbed.build import ensure_binary
from testbed.cluster import Testbed
from testbed.control import ComponentState
from testbed.errors import TestbedError
from testbed.kubeconfig import ADMIN
from testbed.machine import require_linux
from testbed.netns_exec import become
from testbed.options import Options
from testbed.pins import VARIABLE
from testbed.progress import say
from testbed.tokens import DEFAULT_LIFETIME_SECONDS

DEFAULT_DIRECTORY: Final = Path(".testbed")
INTERRUPTED: Final = 130
"""What a shell reports for a command that Ctrl-C ended."""
STATE_STYLES: Final = {
    ComponentState.RUNNING: "green",
    ComponentState.STARTING: "yellow",
    ComponentState.PAUSED: "yellow",
    ComponentState.EXITED: "red",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    parsed = parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = parsed.command
    try:
        require_linux()
        return command(parsed)
    except TestbedError as error:
        say(f"testbed: {error}")
        return 1
    except KeyboardInterrupt:
        say("interrupted; this command left nothing running")
        return INTERRUPTED


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    root = argparse.ArgumentParser(
        prog="python -m testbed",
        description="A Windows Kubernetes cluster on one machine, without Windows, containers or root.",
    )
    place = argparse.ArgumentParser(add_help=False)
    place.add_argument(
        "--dir", type=Path, default=DEFAULT_DIRECTORY, help="directory of the testbed (default %(default)s)"
    )
    commands = root.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        parents = [] if name in {"build", "exec"} else [place]
        command = commands.add_parser(name, help=text, description=text, parents=parents)
        command.set_defaults(command=run)
        return command

    _add_up_options(add("up", _up, "start a cluster and leave it running"))
    add("down", _down, "stop the cluster and keep its logs")
    add("status", _status, "show the components; exits with 0 only if all run")
    add("env", _env, 'print export lines for a shell: eval "$(python -m testbed env)"')
    add(
        "build",
        _build,
        f"build the control plane into the cache, unless it is there; {VARIABLE}=1.N selects the minor "
        "version",
    )
    kubectl = add("kubectl", _kubectl, "run the testbed's kubectl as admin; put its arguments after --")
    kubectl.add_argument("arguments", nargs="*", help="arguments of kubectl")
    execute = add("exec", _exec, "run a command in a private network namespace; put it after --")
    execute.add_argument("--netns", action="store_true", required=True, help="required")
    execute.add_argument("arguments", nargs="+", metavar="COMMAND", help="the command and its arguments")
    fleetcli.add_commands(add)
    return root


def _add_up_options(up: argparse.ArgumentParser) -> None:
    up.add_argument(
        "--apply",
        type=Path,
        action="append",
        default=[],
        metavar="PATH",
        help="apply these manifests; can be repeated",
    )
    up.add_argument(
        "--windows", type=int, default=12, help="number of simulated Windows nodes (default %(default)s)"
    )
    up.add_argument(
        "--linux", type=int, default=2, help="number of simulated Linux nodes (default %(default)s)"
    )
    up.add_argument(
        "--kubelet-endpoints",
        action="store_true",
        help="have Windows nodes serve their kubelets' endpoints, and windows_exporter",
    )
    up.add_argument(
        "--token-lifetime-seconds",
        type=float,
        default=DEFAULT_LIFETIME_SECONDS,
        help="lifetime of the operator's token (default %(default)s)",
    )
    up.add_argument(
        "--node-monitor-grace-seconds",
        type=int,
        help="seconds until a node that does not report becomes Unknown (default: as in Kubernetes)",
    )


def _up(arguments: argparse.Namespace) -> int:
    options = Options(
        kubelet_endpoints=arguments.kubelet_endpoints,
        token_lifetime_seconds=arguments.token_lifetime_seconds,
        node_monitor_grace_seconds=arguments.node_monitor_grace_seconds,
    )
    testbed = Testbed.up(
        directory=arguments.dir,
        apply=arguments.apply,
        windows=arguments.windows,
        linux=arguments.linux,
        die_with_parent=False,
        options=options,
        report=say,
    )
    say(f"export KUBECONFIG={shlex.quote(str(testbed.kubeconfig(ADMIN)))}")
    return 0


def _down(arguments: argparse.Namespace) -> int:
    try:
        testbed = Testbed.attach(arguments.dir)
    except TestbedError:
        say(f"no testbed runs in {arguments.dir.absolute()}")
        return 0
    testbed.down()
    say(f"stopped; the logs are in {testbed.layout.logs}")
    return 0


def _status(arguments: argparse.Namespace) -> int:
    testbed = Testbed.attach(arguments.dir)
    table = Table("COMPONENT", "PID", "STATE", "PORT", "LOG", box=None, pad_edge=False)
    statuses = testbed.components()
    for status in statuses:
        state = f"{status.state} ({status.exit})" if status.exit else str(status.state)
        shown = f"[{STATE_STYLES[status.state]}]{state}[/]"
        table.add_row(status.name, str(status.pid or "-"), shown, str(status.port or "-"), str(status.log))
    Console(soft_wrap=True).print(table)
    return 0 if statuses and all(status.state is ComponentState.RUNNING for status in statuses) else 1


def _env(arguments: argparse.Namespace) -> int:
    environment = Testbed.attach(arguments.dir).environment
    bin_directory = environment.pop("PATH").partition(os.pathsep)[0]
    lines = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
    lines.append(f'export PATH={shlex.quote(bin_directory)}:"$PATH"')
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def _build(_arguments: argparse.Namespace) -> int:
    say(str(ensure_binary(report=say)))
    return 0


def _kubectl(arguments: argparse.Namespace) -> int:
    testbed = Testbed.attach(arguments.dir)
    environment = {**os.environ, **testbed.environment}
    return subprocess.call([testbed.kubectl_path, *arguments.arguments], env=environment)


def _exec(arguments: argparse.Namespace) -> int:
    become(arguments.arguments)
