"""Logs for people on a terminal, or one JSON object per line for programs.

Log messages contain texts of others: of specs, kubelets, API servers and clients that request metrics. None
of these may end a line, begin one of its own, or move a terminal's cursor (CWE-117).
"""

from __future__ import annotations

import logging
import sys
from typing import Any, Final

from pythonjsonlogger.json import JsonFormatter

from winpool.api.text import printable
from winpool.settings import Settings

KOPF_OBJECTS: Final = "kopf.objects"
"""Where Kopf logs that a handler failed, which would be a bug of ours. Its other messages are about requests
that it repeats and about its own end, each at ERROR and with a page of text. What matters of these, that the
feed ended and is started again, its supervisor logs once."""

CONTINUED: Final = "  "
"""The beginning of each line of a traceback: the text of an exception can have newlines, and every other line
of the log begins with its time."""


class TextFormatter(logging.Formatter):
    """One printable line for each message; the lines of a traceback below it, indented."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s", datefmt="%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of ``record``. The text that another handler made of its exception is not used."""
        record.exc_text = None
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        """Return the line of the message."""
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the name is logging's
        """Return the lines of a traceback."""
        return _indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802 - the name is logging's
        """Return the lines of a stack."""
        return _indented(super().formatStack(stack_info))


class OneLineJsonFormatter(JsonFormatter):
    """One JSON object in one line for each message, in ASCII: all other characters are escaped."""

    def __init__(self) -> None:
        super().__init__(
            "%(asctime)s %(levelname)s %(name)s %(message)s",
            rename_fields={"asctime": "time", "levelname": "level", "name": "logger"},
            datefmt="%Y-%m-%dT%H:%M:%S%z",
            json_ensure_ascii=True,
        )

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of ``record``."""
        # JSON does not escape DEL. It can only be inside a string.
        return super().format(record).replace("\x7f", r"\u007f")


def _indented(lines: str) -> str:
    return "\n".join(f"{CONTINUED}{printable(line)}" for line in lines.split("\n"))


def configure(settings: Settings) -> None:
    """Send all logging to stderr in the configured format. Call it once, before anything is logged."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLineJsonFormatter() if settings.log_format == "json" else TextFormatter())
    logging.basicConfig(level=settings.log_level.upper(), handlers=[handler], force=True)
    logging.getLogger("kopf").setLevel(logging.CRITICAL)
    logging.getLogger(KOPF_OBJECTS).setLevel(logging.WARNING)
    # The official client warns of a missing kubeconfig; our own error says the same and ends the process.
    logging.getLogger("kubernetes").setLevel(logging.ERROR)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
