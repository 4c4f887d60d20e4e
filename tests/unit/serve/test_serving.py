"""What the settings make of the port of the metrics, and what the log says about it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, cast

import pytest

from harness.clock import Seconds
from winpool.app import log_who_may_read, make_access, make_tls
from winpool.kube.client import Transport
from winpool.serve.access import Access
from winpool.serve.http import METRICS_PATH
from winpool.serve.tls import TlsFilesError
from winpool.settings import Settings

PAIR: dict[str, Any] = {"tls_cert_file": Path("/no/tls.crt"), "tls_key_file": Path("/no/tls.key")}
NO_TRANSPORT = cast("Transport", None)


async def test_only_with_token_is_there_something_that_asks() -> None:
    open_to_all = make_access(METRICS_PATH, Settings(), transport=NO_TRANSPORT, monotonic=Seconds())
    assert open_to_all is None
    with_tokens = Settings(metrics_auth="token")
    asks = make_access(METRICS_PATH, with_tokens, transport=NO_TRANSPORT, monotonic=Seconds())
    assert isinstance(asks, Access)


def test_without_files_there_is_no_tls_and_files_that_are_missing_are_named() -> None:
    assert make_tls(Settings()) is None
    with pytest.raises(TlsFilesError, match=r"--tls-cert-file /no/tls\.crt cannot be read: No such file"):
        make_tls(Settings(**PAIR))


@pytest.mark.parametrize(
    ("settings", "level", "said"),
    [
        (Settings(), "INFO", "everyone who reaches the port can read /metrics"),
        (Settings(**PAIR), "INFO", "everyone who reaches the port can read /metrics"),
        (Settings(metrics_auth="token", **PAIR), "INFO", "requires the token of a user"),
        (Settings(metrics_auth="token"), "WARNING", "has no TLS: everyone on the way can read and use"),
    ],
)
def test_the_log_says_who_may_read_and_warns_of_tokens_in_plain_text(
    caplog: pytest.LogCaptureFixture, settings: Settings, level: str, said: str
) -> None:
    caplog.set_level(logging.INFO)
    log_who_may_read(settings)
    (record,) = caplog.records
    assert (record.levelname, said in record.getMessage()) == (level, True)
