"""What the supervisor makes in its directory before the first component starts."""

import fcntl
import os
from pathlib import Path
from typing import TextIO

from testbed import components, kubeconfig
from testbed.errors import TestbedError
from testbed.paths import Layout
from testbed.pki import Pki


def prepare(layout: Layout, *, server: str, binary: Path) -> None:
    """Make the keys, kubeconfigs and files that the components read at start; each start is a new cluster."""
    layout.clear()
    for directory in (layout.logs, layout.bin, layout.etcd):
        directory.mkdir(exist_ok=True)
    layout.etcd.chmod(0o700)
    Pki(layout.pki).create()
    kubeconfig.write_all(layout, server=server)
    components.write_audit_policy(layout)
    layout.audit_log.touch()
    layout.kubectl.symlink_to(binary)


def small_environment(layout: Layout) -> dict[str, str]:
    """Return what a Go program may want; no proxies, no foreign kubeconfig, no home but the testbed's."""
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR", "GOMAXPROCS", "GOGC") if name in os.environ}
    return kept | {"HOME": str(layout.root)}


def take_lock(layout: Layout) -> TextIO:
    """Hold the directory for as long as the returned file is open.

    Raises:
        TestbedError: another supervisor holds it.

    """
    file = layout.lock.open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise TestbedError(f"a testbed runs in {layout.root} already") from None
    return file
