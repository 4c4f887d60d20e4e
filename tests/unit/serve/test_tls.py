"""HTTPS of the metrics: files that are replaced, broken files, and clients that misuse handshakes."""

from __future__ import annotations

import asyncio
import logging
import ssl
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest

from harness.certificates import Mounted, a_mount
from harness.served import ask, asked_anew, connected, is_closed, serving, until
from testbed.pki import Authority, Pair
from testbed.signing import VALIDITY
from winpool.serve import http
from winpool.serve.access import Access
from winpool.serve.tls import ServingTls, TlsFiles, TlsFilesError

NOW = datetime.now(UTC).replace(microsecond=0)
LATER = NOW + timedelta(seconds=30)
"""Of a renewed certificate. Certificates are valid from some minutes before their time on."""


@pytest.fixture
def mounted(tmp_path: Path) -> Mounted:
    return a_mount(tmp_path, now=NOW)


@pytest.fixture
def tls(mounted: Mounted) -> ServingTls:
    return ServingTls(mounted.files)


async def expiry_seen(port: int, trust: ssl.SSLContext) -> float:
    """Connect anew, and return when the certificate that is served expires."""
    async with connected(port, trust=trust) as (_, writer):
        found = writer.get_extra_info("peercert")
        return ssl.cert_time_to_seconds(found["notAfter"])


# What is served


async def test_the_port_of_the_metrics_speaks_https_and_that_of_health_http(
    mounted: Mounted, tls: ServingTls
) -> None:
    async with serving(tls=tls, health_port=0) as served:
        status, text, _ = await served.answer(trust=mounted.trust())
        assert status == 200
        assert "winpool_example" in text
        health = served.server.health_port
        assert [await asked_anew(health, path=path) for path in ("/healthz", "/readyz")] == [200, 200]


async def test_without_a_port_for_health_it_is_on_the_port_of_the_metrics_with_tls(
    mounted: Mounted, tls: ServingTls
) -> None:
    async with serving(tls=tls) as served:
        for path in ("/healthz", "/readyz", "/metrics"):
            assert await asked_anew(served.port, path=path, trust=mounted.trust()) == 200


async def test_many_requests_on_one_connection(mounted: Mounted, tls: ServingTls) -> None:
    async with serving(tls=tls) as served, connected(served.port, trust=mounted.trust()) as kept:
        assert [await ask(*kept, path="/metrics") for _ in range(5)] == [200] * 5


async def test_a_client_without_tls_gets_nothing(tls: ServingTls, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with serving(tls=tls) as served, connected(served.port) as (reader, writer):
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: winpool\r\n\r\n")
        assert b"winpool_example" not in await reader.read()
        assert served.collector.renders == 0
    assert [record for record in caplog.records if record.name != "asyncio"] == []


async def test_a_token_is_checked_over_tls_too(mounted: Mounted, tls: ServingTls) -> None:
    async def review(token: str, *, address: str, known: bool) -> str:
        assert address == "127.0.0.1"
        return "Permitted" if token == "good" else "Invalid"

    access = Access(review, path="/metrics", role="winpool-metrics-reader", monotonic=lambda: 0.0)  # type: ignore[arg-type]
    async with serving(tls=tls, access=access) as served:
        statuses = [
            (await served.answer(token=token, trust=mounted.trust()))[0] for token in (None, "bad", "good")
        ]
    assert statuses == [401, 401, 200]


def test_nothing_older_than_tls_1_2_and_no_renegotiation(tls: ServingTls) -> None:
    context = tls.context
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.options & ssl.OP_NO_RENEGOTIATION


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_both_present_versions_are_spoken(
    mounted: Mounted, tls: ServingTls, version: ssl.TLSVersion
) -> None:
    trust = mounted.trust()
    trust.minimum_version = trust.maximum_version = version
    async with serving(tls=tls) as served:
        assert await asked_anew(served.port, path="/metrics", trust=trust) == 200


# Files that change


async def test_a_renewed_certificate_is_served_to_new_connections_and_old_ones_continue(
    mounted: Mounted, tls: ServingTls
) -> None:
    first, second = ((moment + VALIDITY).timestamp() for moment in (NOW, LATER))
    async with serving(tls=tls) as served, connected(served.port, trust=mounted.trust()) as kept:
        assert await ask(*kept) == 200
        assert await expiry_seen(served.port, mounted.trust()) == tls.expires == first
        mounted.renew(now=LATER)
        tls.look()
        assert await expiry_seen(served.port, mounted.trust()) == tls.expires == second
        assert await ask(*kept) == 200
    assert tls.errors == 0


async def test_the_files_are_read_again_while_it_runs(
    mounted: Mounted, tls: ServingTls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("winpool.serve.tls.LOOK_SECONDS", 0.05)
    running = asyncio.create_task(tls.run())
    mounted.renew(now=LATER)
    async with asyncio.timeout(30):
        await until(lambda: tls.expires == (LATER + VALIDITY).timestamp())
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def test_files_that_did_not_change_are_not_loaded_again(mounted: Mounted, tls: ServingTls) -> None:
    context = tls.context
    content = mounted.files.certificate.read_bytes(), mounted.files.key.read_bytes()
    tls.look()
    mounted.put(certificate=content[0], key=content[1])
    tls.look()
    assert tls.context is context


async def test_a_broken_new_pair_keeps_the_old_one_says_so_once_and_is_replaced_by_the_next(
    mounted: Mounted, tls: ServingTls, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    first, context = tls.expires, tls.context
    other = mounted.issued(now=LATER)
    good = mounted.files.certificate.read_bytes()
    async with serving(tls=tls) as served:
        mounted.put(certificate=good, key=other.key.read_bytes())
        for _ in range(3):
            tls.look()
        mounted.put(certificate=b"", key=b"")
        tls.look()
        assert (tls.errors, tls.context) == (4, context)
        assert await expiry_seen(served.port, mounted.trust()) == tls.expires == first
        warnings = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
        assert len(warnings) == 1
        assert "do not match" in warnings[0]
        assert "the certificate from before" in warnings[0]
        mounted.renew(now=LATER)
        tls.look()
        assert await expiry_seen(served.port, mounted.trust()) == (LATER + VALIDITY).timestamp()
        assert tls.errors == 4


def test_files_that_are_gone_for_a_moment_are_an_error_and_harmless(
    mounted: Mounted, tls: ServingTls
) -> None:
    context = tls.context
    moved = mounted.files.key.with_name("elsewhere")
    mounted.files.key.rename(moved)
    tls.look()
    moved.rename(mounted.files.key)
    tls.look()
    assert (tls.errors, tls.context) == (1, context)


# Files that cannot be used


ENCRYPTED = b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"
BROKEN = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize(
    ("certificate", "key", "said"),
    [
        (None, "own", "--tls-cert-file {} cannot be read: No such file or directory"),
        ("own", None, "--tls-key-file {} cannot be read: No such file or directory"),
        (b"hello", "own", "--tls-cert-file {} does not hold a certificate in PEM format"),
        ("own", b"hello", "--tls-key-file {} does not hold a private key in PEM format"),
        ("own", "own certificate", "--tls-key-file {} does not hold a private key in PEM format"),
        ("own", ENCRYPTED, "--tls-key-file {}: the key is encrypted; use one without a password"),
        ("own", "another", "--tls-cert-file {} and --tls-key-file {} do not match"),
        (BROKEN, "own", "--tls-cert-file {} and --tls-key-file {} cannot be loaded"),
    ],
)
def test_files_that_cannot_be_used_end_the_start_with_a_sentence(
    mounted: Mounted, tmp_path: Path, certificate: str | bytes | None, key: str | bytes | None, said: str
) -> None:
    contents = {
        "own": None,
        "own certificate": mounted.files.certificate.read_bytes(),
        "another": mounted.issued(now=LATER).key.read_bytes(),
    }
    paths = []
    for name, given in (("certificate", certificate), ("key", key)):
        path = tmp_path / f"given.{name}"
        content = contents[given] if isinstance(given, str) else given
        if given == "own":
            content = getattr(mounted.files, name).read_bytes()
        if content is not None:
            path.write_bytes(content)
        paths.append(path)
    with pytest.raises(TlsFilesError) as raised:
        ServingTls(TlsFiles(*paths))
    for part in said.split("{}"):
        assert part in str(raised.value)
    assert any(str(path) in str(raised.value) for path in paths)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("days", [-400, -1, 0, 3650])
def test_the_end_of_a_certificate_is_known_whether_it_is_past_or_far(tmp_path: Path, days: int) -> None:
    moment = NOW + timedelta(days=days)
    tls = ServingTls(a_mount(tmp_path, now=moment).files)
    assert tls.expires == (moment + VALIDITY).timestamp()


def test_a_certificate_whose_end_cannot_be_read_is_served_nevertheless(tmp_path: Path) -> None:
    """One that is not for servers: no client that checks would accept it, and some do not check."""
    authority = Authority.create(Pair(tmp_path / "ca.crt", tmp_path / "ca.key"), common_name="ca", now=NOW)
    pair = Pair(tmp_path / "client.crt", tmp_path / "client.key")
    authority.issue_client(pair, common_name="client", now=NOW)
    tls = ServingTls(TlsFiles(pair.certificate, pair.key))
    assert tls.expires is None
    assert isinstance(tls.context, ssl.SSLContext)


# Clients that leave or do nothing


async def test_connections_with_tls_that_do_nothing_do_not_fail_scrapes(
    mounted: Mounted, tls: ServingTls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "MAX_CONNECTIONS", 4)
    async with serving(tls=tls) as served, AsyncExitStack() as stack:
        idle = [
            await stack.enter_async_context(connected(served.port, trust=mounted.trust())) for _ in range(6)
        ]
        assert await asked_anew(served.port, path="/metrics", trust=mounted.trust()) == 200
        for reader, _ in idle[:3]:
            assert await is_closed(reader)


async def test_the_end_of_the_server_waits_for_no_client(mounted: Mounted, tls: ServingTls) -> None:
    async with AsyncExitStack() as stack:
        async with serving(tls=tls) as served:
            kept = await stack.enter_async_context(connected(served.port, trust=mounted.trust()))
            assert await ask(*kept) == 200
            places = served.server._ports[0][1]
            assert len(places._open) == 1
        await until(lambda: not places._open)
        assert await is_closed(kept[0])


async def test_a_client_that_does_not_trust_the_authority_leaves_nothing_behind(tls: ServingTls) -> None:
    async with serving(tls=tls) as served:
        places = served.server._ports[0][1]
        for _ in range(3):
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await served.answer(trust=ssl.create_default_context())
        await until(lambda: not places._open)


async def test_a_client_that_does_not_end_its_handshake_is_cut(
    tls: ServingTls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "HANDSHAKE_SECONDS", 0.2)
    async with serving(tls=tls) as served, connected(served.port) as (reader, writer):
        writer.write(b"\x16\x03\x01")  # the beginning of a record
        assert await is_closed(reader)
