"""The operator's own settings: by flag, or by environment variable with the prefix WINPOOL_.

``--log-format json`` and ``WINPOOL_LOG_FORMAT=json`` are the same; the flag wins.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict

from winpool.features.memory.victims import namespaces_of
from winpool.kubelet.addresses import ranges_of

LogFormat = Literal["text", "json"]
MetricsAuth = Literal["none", "token"]
LogLevel = Literal["debug", "info", "warning", "error"]


class Settings(BaseSettings):
    """What can be set, with the default of each."""

    model_config = SettingsConfigDict(
        env_prefix="WINPOOL_", frozen=True, extra="ignore", use_attribute_docstrings=True
    )

    kubeconfig: Path | None = None
    """Kubeconfig file. Default: $KUBECONFIG, then the Pod's service account, then ~/.kube/config."""
    context: str | None = None
    """Context of the kubeconfig. Default: the current context."""
    host: str = "0.0.0.0"  # noqa: S104 - in a Pod the kubelet and Prometheus come from outside
    """Address to listen on for /metrics, /healthz and /readyz."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8080
    """Port for these paths. 0 chooses a free port and logs it."""
    health_port: Annotated[int | None, Field(ge=0, le=65535)] = None
    """Separate port for /healthz and /readyz, so that load on the port of the metrics does not delay the
    probes. 0 chooses a free port and logs it. Default: the port of the metrics."""
    metrics_auth: MetricsAuth = "none"
    """Who may read /metrics. none: everyone who reaches the port. token: a client whose bearer token is of a
    user with the right to get the nonResourceURL /metrics; the operator asks the API server (TokenReview,
    SubjectAccessReview). The same holds for /memory, except that with none only clients with a loopback
    address read it."""
    tls_cert_file: Path | None = None
    """PEM file with the certificate to serve the port of the metrics with, by HTTPS. The operator reads it
    again when it changes. Default: none, plain HTTP."""
    tls_key_file: Annotated[Path | None, Field(validate_default=True)] = None
    """PEM file with the key of --tls-cert-file. Default: none."""
    events_per_second: Annotated[int, Field(ge=1, le=100)] = 5
    """Maximum number of events per second about all pools and nodes together, repetitions included. New
    events of one pool are limited to one per second."""
    pool_relist_seconds: Annotated[int, Field(ge=1, le=3600)] = 300
    """Seconds between two lists of all pools, in addition to the watch. A list finds pools whose deletion the
    watch has missed."""
    node_relist_seconds: Annotated[int, Field(ge=1, le=7200)] = 600
    """Seconds between two lists of all Windows nodes, in addition to the watch. A list finds changes that the
    watch has missed."""
    pod_pass_seconds: Annotated[int, Field(ge=1, le=86400)] = 600
    """Seconds between two lists of all pods. A changed spec or a joining node can cause a list earlier. A
    list finds pods that do not tolerate a taint of a pool, or cannot run on their node."""
    orphan_grace_seconds: Annotated[int, Field(ge=1, le=3600)] = 300
    """Minimum seconds between the two lists of pools that must both lack a pool before the operator releases
    the nodes of that pool."""
    leader_elect: bool = False
    """Write only while this process holds the Lease winpool in the namespace winpool-system, and stand by
    otherwise. Needed for more than one replica."""
    support_matrix_file: Path | None = None
    """File with rows of the support matrix for all pools. They override the built-in data, and the rows of a
    pool override them. The operator reads the file when it starts. Default: none."""
    kubelet_ca_file: Path | None = None
    """PEM file with the CAs of the kubelets' serving certificates. The operator reads it again when it
    changes. Used where a pool reads samples of memory from kubelets. Default: the CAs of the system."""
    kubelet_insecure_tls: bool = False
    """Do not verify the certificates of kubelets. Everyone on the network path to a kubelet can then read the
    token that is sent to it, which may read statistics of all nodes, and make up samples of memory, for which
    pods are evicted."""
    kubelet_address_ranges: str | None = None
    """Ranges of loopback and link-local addresses at which kubelets are polled, separated by commas, such as
    127.0.0.0/8. All others of these addresses are refused, since a node that reports one means the operator's
    own machine. Default: none."""
    memory_poll_seconds: Annotated[int, Field(ge=1, le=100)] = 60
    """Seconds between two polls of a kubelet, for pools with memoryPressure. With more, a sample would be too
    old before the next one comes."""
    memory_hot_poll_seconds: Annotated[int, Field(ge=1, le=45)] = 10
    """The same for nodes that are near the end of their memory. At most --memory-poll-seconds. The longer it
    is, the fewer evictions can begin: each needs two samples of the last 55 seconds."""
    protected_namespaces: str | None = None
    """Namespaces whose pods are never evicted for memory pressure, separated by commas, such as
    vault,payments. No pool can permit it. Those of the system and winpool-system are protected without it.
    Default: none."""
    allow_force: bool = False
    """Let pools delete the pods that are left on a node when its drain has taken too long (drain.onTimeout:
    Force), whatever PodDisruptionBudgets allow. Needs the rights of the overlay force too. Without it such
    pools are not accepted."""
    unaudited_namespaces: str | None = None
    """Namespaces whose workloads the issues UnselectedWorkloads and MemoryLimitsMissing leave out, separated
    by commas, such as monitoring,legacy. Those of the system and winpool-system are left out without it.
    Default: none."""
    data_sources_file: Path | None = None
    """File with the Prometheus servers that pools may name as data sources of samples of memory: URL, CA and
    token file of each. The operator reads the file when it starts. Default: none."""
    max_nodes_in_work: Annotated[int | None, Field(ge=1)] = None
    """Maximum number of nodes that have a slot for an upgrade at the same time, over all pools. It holds
    within this process. Default: none, only maxUnavailable of each pool."""
    node_name: str | None = None
    """Name of the node that the operator runs on. If it is in a pool, its upgrade begins once no other node
    there is due. Default: none."""
    log_format: LogFormat = "text"
    """Format of the log: text for people, json for programs."""
    log_level: LogLevel = "info"
    """Lowest level of messages to log."""

    @field_validator("tls_key_file")
    @classmethod
    def _is_a_pair(cls, key: Path | None, info: ValidationInfo) -> Path | None:
        """Refuse a certificate without a key, and a key without a certificate."""
        certificate = info.data.get("tls_cert_file")
        if certificate is not None and key is None:
            raise PydanticCustomError("pair", "it is required with --tls-cert-file: set both, or neither")
        if certificate is None and key is not None:
            raise PydanticCustomError("pair", "it requires --tls-cert-file: set both, or neither")
        return key

    @field_validator("kubelet_insecure_tls")
    @classmethod
    def _is_one_of_two(cls, insecure: bool, info: ValidationInfo) -> bool:
        """Refuse a CA that would verify nothing."""
        if insecure and info.data.get("kubelet_ca_file") is not None:
            raise PydanticCustomError("pair", "it excludes --kubelet-ca-file: set one of the two")
        return insecure

    @field_validator("memory_hot_poll_seconds")
    @classmethod
    def _is_more_often(cls, hot: int, info: ValidationInfo) -> int:
        """Refuse to poll nodes under pressure more rarely than others."""
        if hot > info.data.get("memory_poll_seconds", hot):
            raise PydanticCustomError("order", "it must be at most --memory-poll-seconds")
        return hot

    @field_validator("kubelet_address_ranges", "protected_namespaces", "unaudited_namespaces")
    @classmethod
    def _can_be_read(cls, text: str | None, info: ValidationInfo) -> str | None:
        """Refuse what is no range, a range that needs no permission, and what is no namespace."""
        read = ranges_of if info.field_name == "kubelet_address_ranges" else namespaces_of
        try:
            read(text or "")
        except ValueError as error:
            raise PydanticCustomError("list", "{said}", {"said": str(error)}) from None
        return text
