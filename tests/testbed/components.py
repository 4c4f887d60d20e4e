"""Command lines of the components: which flags, and why those that are not obvious."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import BaseModel, ConfigDict

from testbed import kubeconfig
from testbed.heartbeats import heartbeats
from testbed.options import Options
from testbed.paths import Layout
from testbed.pki import FRONT_PROXY_CLIENT, Pki
from testbed.tokens import ISSUER

ETCD: Final = "etcd"
APISERVER: Final = "apiserver"
KCM: Final = "kcm"
SCHEDULER: Final = "scheduler"
WINSIM: Final = "winsim"
CONTROL_PLANE: Final = (ETCD, APISERVER, KCM, SCHEDULER)

LOOPBACK: Final = "127.0.0.1"
SERVICE_RANGE: Final = "10.96.0.0/16"

AUDIT_POLICY: Final[dict[str, Any]] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    # A request is counted when it is answered. ResponseStarted exists for long-running requests only,
    # and is what shows a watch that has not ended yet.
    "omitStages": ["RequestReceived"],
    "omitManagedFields": True,
    "rules": [{"level": "Metadata"}],
}


class Ports(BaseModel):
    """Ports of one testbed, all on 127.0.0.1."""

    model_config = ConfigDict(frozen=True)

    etcd: int
    etcd_peer: int
    apiserver: int
    kcm: int
    scheduler: int
    kubelets: int  # of all simulated Windows nodes, each at an address of its own
    exporters: int
    prometheus: int

    @property
    def server(self) -> str:
        """URL of the API server."""
        return f"https://{LOOPBACK}:{self.apiserver}"

    @property
    def etcd_url(self) -> str:
        """URL of etcd for its clients."""
        return f"http://{LOOPBACK}:{self.etcd}"

    @property
    def prometheus_url(self) -> str:
        """URL of Prometheus, where a test runs one."""
        return f"http://{LOOPBACK}:{self.prometheus}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """How to start one component."""

    name: str
    argv: tuple[str, ...]
    executable: Path | None = None
    """The file to run where ``argv[0]`` is only the name it shall see."""
    health_url: str | None = None
    """Answers 200 once the component works; None for processes that have no such thing."""
    port: int | None = None
    environment: dict[str, str] = field(default_factory=dict)
    """Added to the small environment that every component gets."""


def control_plane(layout: Layout, *, ports: Ports, options: Options, binary: Path) -> tuple[Command, ...]:
    """Return the commands of the four components, in the order in which they have to start."""
    makers = {ETCD: _etcd, APISERVER: _apiserver, KCM: _kcm, SCHEDULER: _scheduler}
    health = {
        ETCD: (f"{ports.etcd_url}/health", ports.etcd),
        APISERVER: (f"{ports.server}/readyz", ports.apiserver),
        KCM: (f"https://{LOOPBACK}:{ports.kcm}/healthz", ports.kcm),
        SCHEDULER: (f"https://{LOOPBACK}:{ports.scheduler}/readyz", ports.scheduler),
    }
    return tuple(
        Command(
            name=name,
            # The binary takes its role from argv[0], so that `ps` shows a name people know.
            argv=(name, *_flags(make(layout, ports, options))),
            executable=binary,
            health_url=health[name][0],
            port=health[name][1],
        )
        for name, make in makers.items()
    )


def winsim_argv(
    layout: Layout, *, server: str, windows: int, linux: int, extra: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the command line of a process of simulated nodes.

    Args:
        layout: the testbed's directory.
        server: URL of the API server.
        windows: number of Windows nodes.
        linux: number of Linux nodes.
        extra: further arguments as they are.

    """
    pki = Pki(layout.pki)
    flags = {
        "server": server,
        "ca": pki.ca.certificate,
        "cert": pki.front_proxy_client.certificate,
        "key": pki.front_proxy_client.key,
        "kubelet-ca": pki.kubelet_ca.certificate,
        "kubelet-ca-key": pki.kubelet_ca.key,
        "windows": windows,
        "linux": linux,
    }
    pairs = [text for name, value in flags.items() for text in (f"--{name}", str(value))]
    return (sys.executable, "-m", "testbed.winsim", *pairs, *extra)


def winsim(layout: Layout, *, ports: Ports, options: Options) -> Command:
    """Return the command of the testbed's own simulated nodes."""
    flags: dict[str, object] = {
        "lease-duration-seconds": heartbeats(options).lease_duration_seconds,
        "pod-start-seconds": options.pod_start_seconds,
        "pod-stop-seconds": options.pod_stop_seconds,
        "control-socket": layout.fleet_socket,
        "roster": layout.roster,
    }
    if options.time_scale != 1.0:
        flags["time-scale"] = options.time_scale
    if options.detach_seconds is not None:
        flags["detach-seconds"] = options.detach_seconds
    if options.kubelet_endpoints:
        flags |= {"kubelet-port": ports.kubelets, "exporter-port": ports.exporters}
        flags["windows-page-file"] = options.windows_page_file
        if options.further_pods:
            flags["further-pods"] = options.further_pods
        if options.kubelet_trust_seconds is not None:
            flags["kubelet-trust-seconds"] = options.kubelet_trust_seconds
    extra = [*_flags(flags), *(f"--windows-memory={text}" for text in options.windows_memory)]
    argv = winsim_argv(layout, server=ports.server, windows=options.windows, linux=options.linux, extra=extra)
    return Command(name=WINSIM, argv=argv)


def write_audit_policy(layout: Layout) -> None:
    """Write the audit policy the API server reads at start."""
    layout.audit_policy.write_text(yaml.safe_dump(AUDIT_POLICY, sort_keys=False))


def _flags(values: dict[str, object]) -> list[str]:
    return [f"--{name}={value}" for name, value in values.items()]


def _etcd(layout: Layout, ports: Ports, options: Options) -> dict[str, object]:
    peer = f"http://{LOOPBACK}:{ports.etcd_peer}"
    return {
        "name": "testbed",
        "data-dir": layout.etcd,
        "listen-client-urls": ports.etcd_url,
        "advertise-client-urls": ports.etcd_url,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"testbed={peer}",
        "quota-backend-bytes": options.etcd_quota_bytes,
        "log-level": "warn",
        # fsync stays on: a killed etcd must come back with what it acknowledged.
    }


def _apiserver(layout: Layout, ports: Ports, _options: Options) -> dict[str, object]:
    pki = Pki(layout.pki)
    return {
        "etcd-servers": ports.etcd_url,
        "bind-address": LOOPBACK,
        "secure-port": ports.apiserver,
        # Must be given where there is no default route to guess it from.
        "advertise-address": LOOPBACK,
        "endpoint-reconciler-type": "none",
        "tls-cert-file": pki.serving.certificate,
        "tls-private-key-file": pki.serving.key,
        "client-ca-file": pki.ca.certificate,
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": "NodeRestriction",
        "allow-privileged": "true",
        "service-cluster-ip-range": SERVICE_RANGE,
        "service-account-issuer": ISSUER,
        "service-account-key-file": pki.service_account_public_key,
        "service-account-signing-key-file": pki.service_account_key,
        "requestheader-client-ca-file": pki.front_proxy_ca.certificate,
        "requestheader-allowed-names": FRONT_PROXY_CLIENT,
        "requestheader-username-headers": "X-Remote-User",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "kubelet-client-certificate": pki.kubelet_client.certificate,
        "kubelet-client-key": pki.kubelet_client.key,
        "kubelet-preferred-address-types": "InternalIP",
        "audit-policy-file": layout.audit_policy,
        "audit-log-path": layout.audit_log,
        # The line is written by the request itself, not by a batch some time later.
        "audit-log-mode": "blocking",
        # 0 = a plain file that is appended to; the default rotates at 100 MB and would lose the reader.
        "audit-log-maxsize": 0,
    }


def _kcm(layout: Layout, ports: Ports, options: Options) -> dict[str, object]:
    pki = Pki(layout.pki)
    config = layout.kubeconfig(kubeconfig.KCM)
    flags: dict[str, object] = {
        "kubeconfig": config,
        "authentication-kubeconfig": config,
        "authorization-kubeconfig": config,
        "bind-address": LOOPBACK,
        "secure-port": ports.kcm,
        "tls-cert-file": pki.serving.certificate,
        "tls-private-key-file": pki.serving.key,
        "root-ca-file": pki.ca.certificate,
        "service-account-private-key-file": pki.service_account_key,
        "use-service-account-credentials": "true",
        # There is one, and a restarted one should not wait for the lease of the one that was killed.
        "leader-elect": "false",
        # The default is a system directory, which the controller manager would create.
        "flex-volume-plugin-dir": layout.root / "flexvolume",
        # The defaults (20 and 30) would be the bottleneck of every test with many nodes.
        "kube-api-qps": 500,
        "kube-api-burst": 1000,
    }
    if (grace := heartbeats(options).node_monitor_grace_seconds) is not None:
        flags["node-monitor-grace-period"] = f"{grace}s"
    return flags


def _scheduler(layout: Layout, ports: Ports, _options: Options) -> dict[str, object]:
    pki = Pki(layout.pki)
    config = layout.kubeconfig(kubeconfig.SCHEDULER)
    return {
        "kubeconfig": config,
        "authentication-kubeconfig": config,
        "authorization-kubeconfig": config,
        "bind-address": LOOPBACK,
        "secure-port": ports.scheduler,
        "tls-cert-file": pki.serving.certificate,
        "tls-private-key-file": pki.serving.key,
        "leader-elect": "false",
        "kube-api-qps": 500,
        "kube-api-burst": 1000,
    }
