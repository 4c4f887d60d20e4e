"""Who may read /metrics and how, by the settings: connects ``serve`` with what asks the API server."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from winpool.cluster.reviews import Reviews
from winpool.serve.access import Access
from winpool.serve.http import METRICS_PATH
from winpool.serve.tls import ServingTls, TlsFiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from winpool.cluster.transport import Transport
    from winpool.settings import Settings

log = logging.getLogger(__name__)


def make_access(settings: Settings, *, transport: Transport, monotonic: Callable[[], float]) -> Access | None:
    """Return what decides who may read the metrics; None where everyone may."""
    if settings.metrics_auth == "none":
        return None
    reviews = Reviews(transport, path=METRICS_PATH, monotonic=monotonic)
    return Access(reviews.review, monotonic=monotonic)


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
