"""The operator's own settings: by flag, or by environment variable with the prefix WINPOOL_.

``--log-format json`` and ``WINPOOL_LOG_FORMAT=json`` are the same; the flag wins.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

LogFormat = Literal["text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]


class Settings(BaseSettings):
    """What can be set, with the default of each."""

    model_config = SettingsConfigDict(env_prefix="WINPOOL_", frozen=True, extra="ignore")

    kubeconfig: Annotated[
        Path | None,
        Field(
            description="Kubeconfig file. Default: $KUBECONFIG, then the Pod's own service account, "
            "then ~/.kube/config."
        ),
    ] = None
    context: Annotated[
        str | None, Field(description="Context of the kubeconfig. Default: its current one.")
    ] = None
    host: Annotated[str, Field(description="Address that /metrics, /healthz and /readyz are served on.")] = (
        "0.0.0.0"  # noqa: S104 - in a Pod the kubelet and Prometheus come from outside
    )
    port: Annotated[
        int,
        Field(ge=0, le=65535, description="Port for them; 0 takes a free one and logs it."),
    ] = 8080
    health_port: Annotated[
        int | None,
        Field(
            ge=0,
            le=65535,
            description="Port for /healthz and /readyz alone, so that what goes on at the port of the "
            "metrics does not reach the probes; 0 takes a free one and logs it. Default: the port of the "
            "metrics.",
        ),
    ] = None
    events_per_second: Annotated[
        int,
        Field(
            ge=1,
            le=100,
            description="Events that may be written per second, repetitions included, about all pools and "
            "nodes together. New ones of a single pool are limited to one a second.",
        ),
    ] = 5
    pool_relist_seconds: Annotated[
        int,
        Field(
            ge=1,
            le=3600,
            description="How often all pools are listed, beside being watched: a pool that went unnoticed is "
            "dropped then.",
        ),
    ] = 300
    node_relist_seconds: Annotated[
        int,
        Field(
            ge=1,
            le=7200,
            description="How often all Windows nodes are listed, beside being watched: what a watch lost is "
            "found then.",
        ),
    ] = 600
    pod_pass_seconds: Annotated[
        int,
        Field(
            ge=1,
            le=86400,
            description="How often all pods are listed, beside when a spec or a node asks for it: pods that "
            "do not tolerate a taint of a pool, or cannot run where they are, are found then.",
        ),
    ] = 600
    orphan_grace_seconds: Annotated[
        int,
        Field(
            ge=1,
            le=3600,
            description="Minimum time between the two lists that confirm a pool is gone. Then its nodes are "
            "released.",
        ),
    ] = 300
    support_matrix_file: Annotated[
        Path | None,
        Field(
            description="File with rows of the support matrix for all pools: above the built-in data, below "
            "the rows of a pool. Read at the start. Default: none."
        ),
    ] = None
    log_format: Annotated[LogFormat, Field(description="How to log: text for people, json for programs.")] = (
        "text"
    )
    log_level: Annotated[LogLevel, Field(description="The least severe messages to log.")] = "info"
