"""Logs for people on a terminal, or one JSON object per line for programs."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Final

from pythonjsonlogger.json import JsonFormatter

if TYPE_CHECKING:
    from winpool.settings import Settings

KOPF_OBJECTS: Final = "kopf.objects"
"""Where Kopf logs that a handler failed, which would be a bug of ours. All else it logs is about requests
that it repeats and about its own end, at ERROR and with a page of text each time; what matters of that, that
the feed ended and is started again, its supervisor says once."""


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
    logging.getLogger("kopf").setLevel(logging.CRITICAL)
    logging.getLogger(KOPF_OBJECTS).setLevel(logging.WARNING)
    # The official client warns of a missing kubeconfig; our own error says the same and ends the process.
    logging.getLogger("kubernetes").setLevel(logging.ERROR)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
