"""Commands in a private network namespace: what is inside, what passes through, and what is left."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from testbed import netns
from testbed.cli import main
from testbed.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

EXEC = [sys.executable, "-m", "testbed", "exec", "--netns", "--"]
GUARD_SECONDS = 30.0
"""Against waiting for ever; everything here takes well under a second."""
ADDRESSES = ["127.0.0.1", "10.200.0.0", "10.200.19.7", "10.200.255.255"]

# Imports come first: a program that gives up being root may not be allowed to read them later.
LOOK = f"""
import ctypes, encodings.idna, json, os, socket, threading
from pathlib import Path
from testbed import netns
from testbed.errors import TestbedError

def asked_at():
    "Where one listener on all addresses finds that it was asked."
    seen = []
    with socket.create_server(("0.0.0.0", 10250)) as listener:
        for address in {ADDRESSES}:
            with socket.create_connection((address, 10250), timeout=5), listener.accept()[0] as accepted:
                seen.append(accepted.getsockname()[0])
    return seen

def look():
    print(json.dumps({{
        "network": os.environ.get("{netns.VARIABLE}"),
        "interfaces": [name for _, name in socket.if_nameindex()],
        "asked_at": asked_at(),
        "uid": os.getuid(),
        "uid_map": Path("/proc/self/uid_map").read_text().split(),
    }}))
"""
NOBODY = 65534
# Only who is dumpable may write his own uid_map; a program is, once it is started by that user.
ORDINARY = f"""
PR_SET_DUMPABLE = 4
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid({NOBODY}, {NOBODY}, {NOBODY})
    os.setresuid({NOBODY}, {NOBODY}, {NOBODY})
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
"""


def run(*command: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, check=False, timeout=GUARD_SECONDS
    )


def seen(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def ordinary_user() -> int:
    """The user that ORDINARY becomes."""
    return os.geteuid() or NOBODY


@pytest.mark.usefixtures("private_network")
def test_one_listener_inside_is_asked_at_every_address_of_the_network() -> None:
    found = seen(run(*EXEC, sys.executable, "-c", LOOK + "look()"))
    assert found["asked_at"] == ADDRESSES
    assert found["interfaces"] == ["lo"]
    assert found["network"] == "10.200.0.0/16"
    assert found["uid"] == 0


def test_an_ordinary_user_becomes_root_of_a_namespace_or_is_told_what_forbids_it() -> None:
    program = LOOK + ORDINARY + "netns.enter()\nlook()"
    done = run(sys.executable, "-c", program)
    # util-linux is asked whether this kernel allows it at all; most do.
    allowed = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--net", "true"],
        user=ordinary_user(),
        capture_output=True,
        check=False,
    )
    if allowed.returncode == 0:
        found = seen(done)
        assert (found["uid"], found["uid_map"]) == (0, ["0", str(ordinary_user()), "1"])
        assert (found["asked_at"], found["interfaces"]) == (ADDRESSES, ["lo"])
    else:
        assert "TestbedError: the kernel forbids a private network namespace" in done.stderr


@pytest.mark.usefixtures("private_network")
def test_what_the_kernel_refuses_becomes_one_sentence() -> None:
    # The kernel gives no user namespace to a process with threads, whoever it is.
    hold = "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    attempt = "try:\n    netns.enter()\nexcept TestbedError as error:\n    print(error)\n"
    done = run(sys.executable, "-c", LOOK + ORDINARY + hold + attempt)
    assert done.stdout == netns.refusal(OSError(errno.EINVAL, os.strerror(errno.EINVAL))) + "\n"


@pytest.mark.parametrize(
    ("setting", "value", "cure"),
    [
        ("user/max_user_namespaces", "0\n", " (sysctl user.max_user_namespaces=10000)"),
        ("kernel/unprivileged_userns_clone", "0\n", " (sysctl kernel.unprivileged_userns_clone=1)"),
        (
            "kernel/apparmor_restrict_unprivileged_userns",
            "1\n",
            " (sysctl kernel.apparmor_restrict_unprivileged_userns=0)",
        ),
        ("kernel/unprivileged_userns_clone", "1\n", ""),
    ],
)
def test_the_setting_that_forbids_user_namespaces_is_named(
    tmp_path: Path, setting: str, value: str, cure: str
) -> None:
    file = tmp_path / "proc/sys" / setting
    file.parent.mkdir(parents=True)
    file.write_text(value)
    assert netns.refusal(OSError(errno.EPERM, "Operation not permitted"), root=tmp_path) == (
        "the kernel forbids a private network namespace to this process (Operation not permitted): "
        f"run it as root or allow user namespaces{cure}; a container needs the capability SYS_ADMIN for it"
    )


@pytest.mark.usefixtures("private_network")
def test_input_output_arguments_and_exit_code_pass_through() -> None:
    done = run(*EXEC, "sh", "-c", 'cat; echo "$@" >&2; exit 7', "sh", "--dir", "--", "x y", stdin="in\n")
    assert (done.returncode, done.stdout, done.stderr) == (7, "in\n", "--dir -- x y\n")


@pytest.mark.usefixtures("private_network")
def test_programs_beside_this_python_are_found_first() -> None:
    python = Path(sys.executable)
    assert run(*EXEC, "sh", "-c", f"command -v {python.name}").stdout == f"{python}\n"


@pytest.mark.usefixtures("private_network")
def test_a_command_that_does_not_exist_is_named() -> None:
    done = run(*EXEC, "/no/such/command")
    sentence = "testbed: cannot start /no/such/command: No such file or directory\n"
    assert (done.returncode, done.stderr) == (1, sentence)


def test_without_netns_the_command_line_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["exec", "--", "true"])
    assert "--netns" in capsys.readouterr().err


@contextmanager
def started(script: str) -> Iterator[subprocess.Popen[str]]:
    """A shell in a namespace that may be interrupted; ended at the end, whatever a test found."""
    with subprocess.Popen([*EXEC, "sh", "-c", script], stdout=subprocess.PIPE, text=True) as command:
        try:
            yield command
        finally:
            command.kill()


@pytest.mark.usefixtures("private_network")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=lambda s: s.name)
def test_a_signal_reaches_the_command_and_its_end_ends_everything(number: signal.Signals) -> None:
    # What is left behind has a session of its own and ignores what it can.
    behind = r"trap '' HUP INT TERM; echo \$\$; exec sleep 600"
    with started(f'setsid sh -c "{behind}" & echo $$; exec sleep 600') as command:
        assert command.stdout is not None
        shown = {int(command.stdout.readline()) for _ in range(2)}
        (left,) = shown - {command.pid}  # the command has the pid that was started
        daemon = psutil.Process(left)
        command.send_signal(number)
        assert command.wait(GUARD_SECONDS) == -number
        wait_until(
            lambda: not daemon.is_running() or daemon.status() == psutil.STATUS_ZOMBIE,
            what="what was left behind to end",
            timeout_seconds=GUARD_SECONDS,
        )
        assert command.stdout.read() == ""  # nobody holds the pipe any more
