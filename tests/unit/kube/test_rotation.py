"""Certificates that change on disk are used without a restart, by us and by Kopf's session."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from harness.clock import Seconds
from harness.listener import Listener, a_kubeconfig_for, a_pair, an_authority, listening, serve_as, server_tls
from testbed.pki import Authority
from winpool.kube.client import Transport
from winpool.kube.credentials import load_connection
from winpool.kube.errors import CredentialsError, Unavailable
from winpool.kube.request import Request

GET = Request(verb="get", resource="nodes", path="/api/v1/nodes/w1")


@pytest.fixture
def old(tmp_path: Path) -> Authority:
    return an_authority(tmp_path, "old")


@pytest.fixture
def new(tmp_path: Path) -> Authority:
    return an_authority(tmp_path, "new")


def issue(authority: Authority, folder: Path, user: str) -> tuple[bytes, bytes]:
    """Return a certificate for ``user`` and its key."""
    pair = authority.issue_client(a_pair(folder, user), common_name=user, now=datetime.now(UTC))
    return pair.certificate.read_bytes(), pair.key.read_bytes()


@asynccontextmanager
async def a_door(kubeconfig: str, clock: Seconds) -> AsyncIterator[Transport]:
    connection = await load_connection(kubeconfig=kubeconfig, environ={}, monotonic=clock)
    async with Transport(connection) as transport:
        yield transport


@pytest.mark.slow
async def test_a_new_ca_is_believed_and_the_old_one_no_longer(
    tmp_path: Path, clock: Seconds, old: Authority, new: Authority
) -> None:
    ca = tmp_path / "ca.crt"
    ca.write_bytes(old.paths.certificate.read_bytes())
    tls = server_tls(old, tmp_path)
    async with listening(tls) as server:
        kubeconfig = a_kubeconfig_for(tmp_path, server.url, ca=ca, user={"token": "t"})
        async with a_door(kubeconfig, clock) as door:
            await door.request(GET)
            serve_as(tls, new, tmp_path)
            await server.drop()
            with pytest.raises(Unavailable, match="certificate is not believed"):
                await door.request(GET)
            ca.write_bytes(new.paths.certificate.read_bytes())
            clock.now += 10
            await door.request(GET)
            serve_as(tls, old, tmp_path)
            await server.drop()
            with pytest.raises(Unavailable, match="certificate is not believed"):
                await door.request(GET)


@pytest.mark.slow
async def test_a_connection_that_idles_is_not_used_after_the_ca_has_changed(
    tmp_path: Path, clock: Seconds, old: Authority, new: Authority
) -> None:
    ca = tmp_path / "ca.crt"
    ca.write_bytes(old.paths.certificate.read_bytes())
    async with listening(server_tls(old, tmp_path)) as server:
        kubeconfig = a_kubeconfig_for(tmp_path, server.url, ca=ca, user={"token": "t"})
        async with a_door(kubeconfig, clock) as door:
            for _ in range(2):
                await door.request(GET)
            assert len(server.users) == 1, "a connection is kept"
            ca.write_bytes(new.paths.certificate.read_bytes())
            clock.now += 10
            with pytest.raises(Unavailable, match="certificate is not believed"):
                await door.request(GET)


@asynccontextmanager
async def mutual(
    folder: Path, clock: Seconds, authority: Authority
) -> AsyncIterator[tuple[Listener, Transport]]:
    """A server that asks for client certificates, and a door with one for "first" in tls.crt and tls.key."""
    tls = server_tls(authority, folder)
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(authority.paths.certificate)
    certificate, key = issue(authority, folder, "first")
    (folder / "tls.crt").write_bytes(certificate)
    (folder / "tls.key").write_bytes(key)
    user = {"client-certificate": "tls.crt", "client-key": "tls.key"}
    async with listening(tls) as server:
        kubeconfig = a_kubeconfig_for(folder, server.url, ca=authority.paths.certificate, user=user)
        async with a_door(kubeconfig, clock) as door:
            yield server, door


async def test_a_new_client_certificate_is_shown(tmp_path: Path, clock: Seconds, old: Authority) -> None:
    async with mutual(tmp_path, clock, old) as (server, door), door.guest_session() as guest:
        await door.request(GET)
        certificate, key = issue(old, tmp_path, "second")
        (tmp_path / "tls.crt").write_bytes(certificate)
        (tmp_path / "tls.key").write_bytes(key)
        clock.now += 9.9
        await door.request(GET)
        assert server.users == ["first"], "the files are looked at every ten seconds"
        clock.now += 0.1
        await door.request(GET)
        assert server.users == ["first", "second"]
        certificate, key = issue(old, tmp_path, "third")
        (tmp_path / "tls.crt").write_bytes(certificate)
        (tmp_path / "tls.key").write_bytes(key)
        clock.now += 10
        async with guest.get(f"{server.url}/apis") as answer:
            assert answer.status == 200
        assert server.users == ["first", "second", "third"]


async def test_a_pair_that_is_written_by_halves_does_not_take_the_old_one_away(
    tmp_path: Path, clock: Seconds, old: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING")
    async with mutual(tmp_path, clock, old) as (server, door):
        certificate, key = issue(old, tmp_path, "second")
        (tmp_path / "tls.crt").write_bytes(certificate)
        for _ in range(3):
            clock.now += 10
            await server.drop()
            await door.request(GET)
        assert set(server.users) == {"first"}
        told = [each for each in caplog.records if each.name.startswith("winpool.")]
        assert len(told) == 1, "told once, not at every look"
        assert "winpool continues with the files as read before" in told[0].getMessage()
        (tmp_path / "tls.key").write_bytes(key)
        clock.now += 10
        await door.request(GET)
        assert server.users[-1] == "second"


async def test_a_file_that_is_gone_for_a_moment_does_not_take_anything_away(
    tmp_path: Path, clock: Seconds, old: Authority, new: Authority
) -> None:
    ca = tmp_path / "ca.crt"
    ca.write_bytes(old.paths.certificate.read_bytes())
    tls = server_tls(old, tmp_path)
    async with listening(tls) as server:
        kubeconfig = a_kubeconfig_for(tmp_path, server.url, ca=ca, user={"token": "t"})
        async with a_door(kubeconfig, clock) as door:
            await door.request(GET)
            ca.unlink()
            clock.now += 10
            await door.request(GET)
            serve_as(tls, new, tmp_path)
            await server.drop()
            ca.write_bytes(new.paths.certificate.read_bytes())
            clock.now += 10
            await door.request(GET)


async def test_a_key_with_a_password_is_an_error_and_nobody_is_asked_for_it(
    tmp_path: Path, clock: Seconds, old: Authority
) -> None:
    certificate, plain = issue(old, tmp_path, "first")
    key = serialization.load_pem_private_key(plain, password=None)
    (tmp_path / "tls.crt").write_bytes(certificate)
    (tmp_path / "tls.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"s3cret"),
        )
    )
    user = {"client-certificate": "tls.crt", "client-key": "tls.key"}
    kubeconfig = a_kubeconfig_for(tmp_path, "https://127.0.0.1:1", ca=old.paths.certificate, user=user)
    with pytest.raises(CredentialsError, match=r"tls\.key"):
        await load_connection(kubeconfig=kubeconfig, environ={}, monotonic=clock)


def split_kubeconfig(folder: Path, whole: str) -> str:
    """Move the users into a file of their own in ``folder``; return both paths as $KUBECONFIG has them."""
    clusters, users = Path(whole).read_text().split("users:")
    Path(whole).write_text(clusters)
    (folder / "config").write_text(f"users:{users}")
    return f"{whole}:{folder / 'config'}"


async def test_a_client_certificate_is_looked_for_beside_the_file_that_names_it(
    tmp_path: Path, old: Authority
) -> None:
    certificate, key = issue(old, tmp_path, "first")
    folder = tmp_path / "users"
    folder.mkdir()
    (folder / "tls.crt").write_bytes(certificate)
    (folder / "tls.key").write_bytes(key)
    user = {"client-certificate": "tls.crt", "client-key": "tls.key"}
    whole = a_kubeconfig_for(tmp_path, "https://127.0.0.1:1", ca=old.paths.certificate, user=user)
    await load_connection(kubeconfig=split_kubeconfig(folder, whole), environ={})
