"""Who may read /metrics and /memory, by the settings: connects ``serve`` with what asks the API server."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from winpool.cluster.reviews import Reviews
from winpool.serve.access import Access
from winpool.serve.http import METRICS_PATH
from winpool.serve.memory import MEMORY_PATH, Memory
from winpool.serve.tls import ServingTls, TlsFiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from winpool.cluster.transport import Transport
    from winpool.lease.seat import Seat
    from winpool.serve.memory import MemorySource
    from winpool.settings import Settings

log = logging.getLogger(__name__)

_READERS: Final = {METRICS_PATH: "winpool-metrics-reader", MEMORY_PATH: "winpool-memory-reader"}
"""The ClusterRoles of ``deploy`` with the right to get a path."""


def make_access(settings: Settings, *, transport: Transport, monotonic: Callable[[], float]) -> Access | None:
    """Return what decides who may read the metrics; None where everyone may."""
    return _access_to(METRICS_PATH, settings, transport=transport, monotonic=monotonic)


def make_memory(
    settings: Settings,
    source: MemorySource,
    *,
    seat: Seat,
    transport: Transport,
    monotonic: Callable[[], float],
) -> Memory:
    """Return what answers /memory with what ``source`` knows, while this process leads."""
    return Memory(
        source,
        standby=lambda: "" if seat.leads else no_memory_here(seat.holder),
        access=_access_to(MEMORY_PATH, settings, transport=transport, monotonic=monotonic),
        monotonic=monotonic,
    )


def no_memory_here(holder: str) -> str:
    """Say why an operator that stands by has no memory of nodes. ``holder`` is empty where no one leads."""
    where = f"ask {holder}, which holds" if holder else "no operator holds"
    return (
        "this operator stands by, and only the operator that leads reads the memory of nodes: "
        f"{where} the Lease winpool-system/winpool"
    )


def _access_to(
    path: str, settings: Settings, *, transport: Transport, monotonic: Callable[[], float]
) -> Access | None:
    if settings.metrics_auth == "none":
        return None
    reviews = Reviews(transport, path=path, monotonic=monotonic)
    return Access(reviews.review, path=path, role=_READERS[path], monotonic=monotonic)


def make_tls(settings: Settings) -> ServingTls | None:
    """Return the certificate to serve the metrics with; None for plain HTTP. Raises TlsFilesError."""
    if settings.tls_cert_file is None or settings.tls_key_file is None:  # Settings has refused one alone
        return None
    return ServingTls(TlsFiles(certificate=settings.tls_cert_file, key=settings.tls_key_file))


def log_who_may_read(settings: Settings) -> None:
    """Log who may read the metrics, with a warning where that is more open than it may seem."""
    has_tls = settings.tls_cert_file is not None
    if settings.metrics_auth == "none":
        log.info("everyone who reaches the port can read /metrics; --metrics-auth=token requires a token")
    elif has_tls:
        log.info(
            "/metrics is served by HTTPS and requires the token of a user who may get the nonResourceURL "
            "/metrics"
        )
    else:
        log.warning(
            "/metrics requires a token and has no TLS: everyone on the way can read and use the tokens; set "
            "--tls-cert-file and --tls-key-file"
        )
