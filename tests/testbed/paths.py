"""Where things lie: the cache shared by all testbeds, and the one directory of each testbed."""

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

CACHE_VARIABLE = "WINPOOL_CACHE"


def cache_directory() -> Path:
    """Return the folder for what is costly to make and shared by all testbeds: binaries, a Go toolchain."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "winpool"


def write_atomically(path: Path, content: str | bytes, *, mode: int = 0o600) -> None:
    """Replace a file in one step, so that a reader sees the old content or the new and never half."""
    data = content.encode() if isinstance(content, str) else content
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@dataclass(frozen=True, slots=True)
class Layout:
    """Names of everything in the directory of one testbed."""

    root: Path

    @property
    def pki(self) -> Path:
        """Keys and certificates; lives as long as the testbed."""
        return self.root / "pki"

    @property
    def kubeconfigs(self) -> Path:
        """One kubeconfig per role."""
        return self.root / "kubeconfigs"

    @property
    def logs(self) -> Path:
        """One log per component; kept after ``down`` for whoever asks why."""
        return self.root / "logs"

    @property
    def bin(self) -> Path:
        """A folder for PATH: ``kubectl`` and what else a shell may want."""
        return self.root / "bin"

    @property
    def kubectl(self) -> Path:
        """A symlink to the multi-call binary."""
        return self.bin / "kubectl"

    @property
    def kubectl_cache(self) -> Path:
        """Discovery cache. Not under HOME: kubectl keys it by host and port, and ports come again."""
        return self.root / "kubectl-cache"

    @property
    def etcd(self) -> Path:
        """The data of etcd; removed by ``down``."""
        return self.root / "etcd"

    @property
    def prometheus(self) -> Path:
        """Configuration and data of Prometheus, while a test runs one."""
        return self.root / "prometheus"

    @property
    def audit_policy(self) -> Path:
        """The audit policy the API server was started with."""
        return self.root / "audit-policy.yaml"

    @property
    def audit_log(self) -> Path:
        """The audit log, one JSON object per line, never rotated."""
        return self.logs / "audit.log"

    @property
    def token(self) -> Path:
        """The operator's current token."""
        return self.root / "winpool.token"

    @property
    def state(self) -> Path:
        """Who the supervisor is; proof that the directory is a testbed's."""
        return self.root / "state.json"

    @property
    def lock(self) -> Path:
        """Held by the supervisor as long as it lives."""
        return self.root / "lock"

    @property
    def socket(self) -> Path:
        """Control socket of the supervisor."""
        return self.root / "control.sock"

    @property
    def fleet_socket(self) -> Path:
        """Control socket of the simulated nodes; there while they run."""
        return self.root / "fleet.sock"

    @property
    def roster(self) -> Path:
        """The list of simulated machines, kept from one process of theirs to the next."""
        return self.root / "fleet.json"

    def kubeconfig(self, role: str) -> Path:
        """Return the kubeconfig of a role; it need not exist."""
        return self.kubeconfigs / f"{role}.kubeconfig"

    def log(self, component: str) -> Path:
        """Return the log of a component."""
        return self.logs / f"{component}.log"

    @property
    def supervisor_log(self) -> Path:
        """The log of the supervisor, opened by whoever starts it."""
        return self.root / "supervisor.log"

    def is_ours(self) -> bool:
        """Tell whether a testbed may be put here: the directory is missing, empty or has been a testbed's."""
        if not self.root.is_dir():
            return not self.root.exists()
        early = {self.lock.name, self.supervisor_log.name, self.state.name}
        return self.state.exists() or all(entry.name in early for entry in self.root.iterdir())

    def clear(self) -> None:
        """Remove what an earlier testbed left here; call it with the lock held."""
        for directory in (
            self.pki, self.kubeconfigs, self.logs, self.bin, self.kubectl_cache, self.etcd, self.prometheus
        ):  # fmt: skip
            shutil.rmtree(directory, ignore_errors=True)
        for file in (self.token, self.socket, self.fleet_socket, self.roster, self.audit_policy):
            file.unlink(missing_ok=True)
