"""Logs for people on a terminal, or one JSON object per line for programs."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Final

from pythonjsonlogger.json import JsonFormatter

if TYPE_CHECKING:
    from winpool.settings import Settings

KOPF_NOISE: Final = ("kopf._cogs.clients", "kopf._core.reactor.running")
"""Kopf logs each retry of a request at ERROR with a page of text, and every end of itself. What matters
of it, that the feed ended and is started again, is logged once by its supervisor."""


def configure(settings: Settings) -> None:
    """Send all logging to stderr in the wanted form. Called once, before anything is logged."""
    handler = logging.StreamHandler(sys.stderr)
    if settings.log_format == "json":
        handler.setFormatter(
            JsonFormatter(
                "%(asctime)s %(levelname)s %(name)s %(message)s",
                rename_fields={"asctime": "time", "levelname": "level", "name": "logger"},
                datefmt="%Y-%m-%dT%H:%M:%S%z",
            )
        )
    else:
        handler.setFormatter(
            logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s", datefmt="%H:%M:%S")
        )
    logging.basicConfig(level=settings.log_level.upper(), handlers=[handler], force=True)
    logging.getLogger("kopf").setLevel(logging.WARNING)
    for name in KOPF_NOISE:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # The official client warns of a missing kubeconfig; our own error says the same and ends the process.
    logging.getLogger("kubernetes").setLevel(logging.ERROR)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
