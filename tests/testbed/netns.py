"""A private network namespace, in which simulated machines have addresses that the API server will ask.

The API server proxies to no loopback address. Inside such a namespace a network of its own is local
instead: every address of it belongs to the machine, one listener on 0.0.0.0:10250 answers for all of
them, and the local address of an accepted connection tells which node was asked.
"""

import ctypes
import os
from ipaddress import IPv4Network
from pathlib import Path
from typing import Final

from testbed.errors import TestbedError
from testbed.netns_routes import add_local_route, bring_up_loopback

NETWORK: Final = IPv4Network("10.200.0.0/16")
"""Private, so nobody is cut off by it; 65,000 machines find room."""
VARIABLE: Final = "WINPOOL_TESTBED_NETWORK"
"""Set inside to the network of the simulated machines; not set means loopback."""

CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWNET: Final = 0x40000000
"""Both from ``linux/sched.h``; Python has ``os.unshare`` from 3.12 on."""
_CURES: Final = {
    ("/proc/sys/user/max_user_namespaces", "0"): "sysctl user.max_user_namespaces=10000",
    ("/proc/sys/kernel/unprivileged_userns_clone", "0"): "sysctl kernel.unprivileged_userns_clone=1",
    ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"): (
        "sysctl kernel.apparmor_restrict_unprivileged_userns=0"
    ),
}
"""Settings that forbid user namespaces, as Linux itself, Debian and Ubuntu name them."""


def enter() -> None:
    """Move this process into a network namespace of its own, and make ``NETWORK`` local there.

    Who may not do that alone gets a user namespace with it, in which he is root. The process must have
    no other threads; its later children are inside too.

    Raises:
        TestbedError: the kernel forbids it; the text says what to do about that.

    """
    user, group = os.geteuid(), os.getegid()
    try:
        if not _try_unshare(CLONE_NEWNET):
            _unshare(CLONE_NEWUSER | CLONE_NEWNET)
            _become_root(user, group)
        bring_up_loopback()
        add_local_route(NETWORK)
    except OSError as error:
        raise TestbedError(refusal(error)) from error


def refusal(error: OSError, *, root: Path = Path("/")) -> str:
    """Say in one sentence that the kernel does not let us, and what to do.

    Args:
        error: what it answered.
        root: where /proc is.

    """
    forbidding = [
        cure
        for (setting, value), cure in _CURES.items()
        if (path := root / setting.lstrip("/")).exists() and path.read_text().strip() == value
    ]
    allow = " or allow user namespaces" + (f" ({', '.join(forbidding)})" if forbidding else "")
    return (
        f"the kernel forbids a private network namespace to this process ({error.strerror}): "
        f"run it as root{allow}; a container needs the capability SYS_ADMIN for it"
    )


def _try_unshare(flags: int) -> bool:
    """Return False where only a capability is missing."""
    try:
        _unshare(flags)
    except PermissionError:
        return False
    return True


def _unshare(flags: int) -> None:
    if ctypes.CDLL(None, use_errno=True).unshare(flags) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _become_root(user: int, group: int) -> None:
    # In this order: without CAP_SETGID outside, groups may be mapped only by who has given up setgroups.
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")
