"""Polling kubelets over real TLS: kubelets that answer, that fail, and that want more than they may have."""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest

from cluster.door import until
from harness.hostile_server import (
    Answer,
    a_server,
    answering,
    deaf,
    endless,
    never,
    response,
    tls_for,
    trickling,
)
from harness.kubelet_payloads import GIB, a_summary
from harness.listener import a_pair, an_authority
from harness.polling import AMPLE, SOON, TOKEN, a_client, at, poll_once, refused, the_token, trusted
from testbed.pki import Authority
from winpool.kubelet import client as client_module
from winpool.kubelet.addresses import Target
from winpool.kubelet.client import KubeletClient
from winpool.kubelet.connection import insecure_context
from winpool.kubelet.samples import MAX_BODY_BYTES, KubeletEviction, Outcome, PollError

WELL = answering(response(a_summary("w1")))


# Kubelets that answer


async def test_a_sample_is_asked_for_with_the_token_and_nothing_else(
    authority: Authority, tls: ssl.SSLContext
) -> None:
    async with a_server(tls, WELL) as server, a_client(authority) as client:
        sample, _ = await client.summary(at(server), deadline=AMPLE)
    assert sample.commit_limit == 24 * GIB
    [head] = server.heads
    assert head.startswith("GET /stats/summary HTTP/1.1\r\n")
    assert f"Authorization: Bearer {TOKEN}\r\n" in head
    assert "Accept-Encoding: identity\r\n" in head


async def test_pods_are_returned_where_they_are_asked_for(authority: Authority, tls: ssl.SSLContext) -> None:
    async with a_server(tls, WELL) as server, a_client(authority) as client:
        assert (await client.summary(at(server), deadline=AMPLE))[1] is None
        assert (await client.summary(at(server), deadline=AMPLE, pods=True))[1]


async def test_configz_says_whether_the_kubelet_evicts(authority: Authority, tls: ssl.SSLContext) -> None:
    body = json.dumps({"kubeletconfig": {"evictionHard": {"memory.available": "500Mi"}}}).encode()
    async with a_server(tls, answering(response(body))) as server, a_client(authority) as client:
        assert await client.eviction(at(server), deadline=AMPLE) is KubeletEviction.ARMED
    assert server.heads[0].startswith("GET /configz HTTP/1.1\r\n")


@pytest.mark.slow
async def test_an_answer_that_trickles_in_time_is_a_sample(authority: Authority, tls: ssl.SSLContext) -> None:
    body = a_summary("w1", pods=[], systemContainers=[])
    async with (
        a_server(tls, trickling(response(body), every=0.001)) as server,
        a_client(authority) as client,
    ):
        assert (await client.summary(at(server), deadline=AMPLE))[0].proxy_available is not None


async def test_the_largest_answer_that_is_read(authority: Authority, tls: ssl.SSLContext) -> None:
    body = a_summary("w1")
    body += b" " * (MAX_BODY_BYTES - len(body))
    async with a_server(tls, answering(response(body))) as server, a_client(authority) as client:
        assert (await client.summary(at(server), deadline=AMPLE))[0].proxy_available is not None


# Kubelets that do not


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (answering(response(b"Unauthorized", status="401 Unauthorized")), Outcome.UNAUTHORIZED),
        (answering(response(TOKEN.encode(), status="403 Forbidden")), Outcome.FORBIDDEN),
        (answering(response(b"invalid state", status="500 Internal Server Error")), Outcome.SERVER_ERROR),
        (answering(response(b"", status="404 Not Found")), Outcome.SERVER_ERROR),
        (answering(response(a_summary(), status="206 Partial Content")), Outcome.SERVER_ERROR),
        (answering(response(b"")), Outcome.UNREADABLE),
        (answering(response(TOKEN.encode())), Outcome.UNREADABLE),
        (answering(response(gzip.compress(a_summary()), Content_Encoding="gzip")), Outcome.UNREADABLE),
        (answering(response(a_summary("w2"))), Outcome.WRONG_NODE),
        (answering(f"{TOKEN}\r\n\r\n".encode()), Outcome.UNREADABLE),
        (answering(f"HTTP/1.1 200 OK\r\n{TOKEN}\r\n\r\n".encode()), Outcome.UNREADABLE),
        (answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), Outcome.UNREADABLE),
        (answering(response(b" " * (MAX_BODY_BYTES + 1))), Outcome.TOO_LARGE),
        (endless, Outcome.TOO_LARGE),
    ],
)
async def test_an_answer_that_is_no_sample_has_its_outcome(
    authority: Authority, tls: ssl.SSLContext, answer: Answer, outcome: Outcome
) -> None:
    assert await poll_once(authority, tls, answer) is outcome


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer",
    [
        never,
        trickling(response(a_summary()), every=0.05),
        answering(b"HTTP/1.1 200 OK\r\n"),
        answering(b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
    ids=["hangs", "trickles", "half a head", "continues"],
)
async def test_an_answer_that_does_not_end_in_time_is_a_timeout(
    authority: Authority, tls: ssl.SSLContext, answer: Answer
) -> None:
    assert await poll_once(authority, tls, answer, deadline=SOON) is Outcome.TIMEOUT


@pytest.mark.slow
async def test_a_handshake_that_never_ends_is_a_timeout(authority: Authority) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(-1)
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server, a_client(authority) as client:
        target = Target(node="w1", host="127.0.0.1", port=server.sockets[0].getsockname()[1])
        assert await refused(client.summary(target, deadline=SOON)) is Outcome.TIMEOUT


async def test_what_speaks_no_tls_and_a_port_where_nothing_listens_are_no_connection(
    authority: Authority,
) -> None:
    async def plain(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(response(a_summary("w1")))
        writer.close()

    async with a_client(authority) as client:
        async with await asyncio.start_server(plain, "127.0.0.1", 0) as server:
            target = Target(node="w1", host="127.0.0.1", port=server.sockets[0].getsockname()[1])
            assert await refused(client.summary(target, deadline=AMPLE)) is Outcome.NO_CONNECTION
        assert await refused(client.summary(target, deadline=AMPLE)) is Outcome.NO_CONNECTION


async def test_a_connection_that_is_closed_without_an_answer_is_no_connection(
    authority: Authority, tls: ssl.SSLContext
) -> None:
    async def close(_: str, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def break_off(_: str, writer: asyncio.StreamWriter) -> None:
        writer.write(response(a_summary())[:200])
        await writer.drain()
        writer.close()

    assert await poll_once(authority, tls, close) is Outcome.NO_CONNECTION
    assert await poll_once(authority, tls, break_off) is Outcome.NO_CONNECTION


async def test_a_redirect_is_not_followed(authority: Authority, tls: ssl.SSLContext) -> None:
    async with a_server(tls, WELL) as elsewhere:
        location = f"https://127.0.0.1:{elsewhere.port}/stats/summary"
        for status in ("301 Moved Permanently", "302 Found", "307 Temporary Redirect", "304 Not Modified"):
            answer = answering(response(b"", status=status, Location=location))
            assert await poll_once(authority, tls, answer) is Outcome.REDIRECTED
        assert elsewhere.connections == 0


async def test_a_cookie_is_not_sent_back(authority: Authority, tls: ssl.SSLContext) -> None:
    answer = answering(response(a_summary("w1"), Set_Cookie="a=b; Path=/"))
    async with a_server(tls, answer) as server, a_client(authority) as client:
        for _ in range(2):
            await client.summary(at(server), deadline=AMPLE, keep=True)
    assert len(server.heads) == 2
    assert "cookie" not in "".join(server.heads).lower()


async def test_proxies_and_credentials_of_the_environment_are_not_used(
    authority: Authority, tls: ssl.SSLContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login admin password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    async with a_server(None, never) as proxy, a_server(tls, WELL) as server, a_client(authority) as client:
        for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        await client.summary(at(server), deadline=AMPLE)
        assert proxy.connections == 0
    assert f"Authorization: Bearer {TOKEN}\r\n" in server.heads[0]


# Certificates


async def test_a_certificate_for_the_name_of_the_node_is_as_good(
    authority: Authority, tmp_path: Path
) -> None:
    """A kubelet whose certificate has no address in it. The second handshake is made once."""
    tls = tls_for(authority, tmp_path, names=["w1"])
    async with a_server(tls, WELL) as server, a_client(authority) as client:
        for _ in range(3):
            await client.summary(at(server), deadline=AMPLE)
        assert len(server.heads) == 3
        assert client._named == {"w1"}
        await client.forget("w1")
        assert client._named == set()


async def test_a_kubelet_that_gets_another_certificate_is_asked_by_the_other_name(
    authority: Authority, tmp_path: Path
) -> None:
    async with a_client(authority) as client:
        for certificate in ({"names": ["w1"]}, {"addresses": ["127.0.0.1"]}, {"names": ["w1"]}):
            async with a_server(tls_for(authority, tmp_path, **certificate), WELL) as server:
                assert (await client.summary(at(server), deadline=AMPLE))[0].commit_limit == 24 * GIB


@pytest.mark.parametrize(
    "certificate",
    [{"names": ["w2"]}, {"addresses": ["127.0.0.2"]}, {"names": ["127.0.0.1"]}, {"names": ["*"]}],
)
async def test_a_certificate_for_another_node_is_refused_before_the_token_is_sent(
    authority: Authority, tmp_path: Path, certificate: dict[str, list[str]]
) -> None:
    async with a_server(tls_for(authority, tmp_path, **certificate), WELL) as server:
        async with a_client(authority) as client:
            assert await refused(client.summary(at(server), deadline=AMPLE)) is Outcome.CERTIFICATE
        assert server.heads == []


@pytest.mark.parametrize("purpose", ["server", "client"])
async def test_a_certificate_that_has_the_name_of_the_node_as_its_common_name_only_is_refused(
    authority: Authority, tmp_path: Path, purpose: str
) -> None:
    """The certificates with which kubelets and users log in are of the same authority in most clusters."""
    pair, now = a_pair(tmp_path, "named"), datetime.now(UTC)
    if purpose == "server":
        authority.issue_serving(pair, common_name="w1", now=now, names=[], addresses=["127.0.0.9"])
    else:
        authority.issue_client(pair, common_name="w1", now=now)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    async with a_server(context, WELL) as server, a_client(authority) as client:
        assert await refused(client.summary(at(server), deadline=AMPLE)) is Outcome.CERTIFICATE
        assert server.heads == []


async def test_a_certificate_of_another_authority_is_refused_before_the_token_is_sent(
    authority: Authority, tmp_path: Path
) -> None:
    tls = tls_for(an_authority(tmp_path, "other"), tmp_path, names=["w1"], addresses=["127.0.0.1"])
    async with a_server(tls, WELL) as server, a_client(authority) as client:
        assert await refused(client.summary(at(server), deadline=AMPLE)) is Outcome.CERTIFICATE
        assert server.heads == []


async def test_without_verification_any_certificate_will_do(authority: Authority, tmp_path: Path) -> None:
    tls = tls_for(an_authority(tmp_path, "other"), tmp_path, names=["elsewhere"])
    insecure = insecure_context()
    async with (
        a_server(tls, WELL) as server,
        KubeletClient(token=the_token, context=lambda: insecure) as client,
    ):
        assert (await client.summary(at(server), deadline=AMPLE))[0].commit_limit == 24 * GIB


# Tokens


@pytest.mark.parametrize("token", [None, "", " ", "two words", "line\nbreak", "umläut"])
async def test_without_a_token_nothing_is_sent(
    authority: Authority, tls: ssl.SSLContext, token: str | None
) -> None:
    async def no_token() -> str | None:
        return token

    async with a_server(tls, WELL) as server, a_client(authority, token=no_token) as client:
        assert await refused(client.summary(at(server), deadline=AMPLE)) is Outcome.NO_TOKEN
        assert server.connections == 0


@pytest.mark.slow
async def test_a_token_that_does_not_come_is_a_timeout(authority: Authority, tls: ssl.SSLContext) -> None:
    async def late() -> str | None:
        await asyncio.Event().wait()
        return TOKEN

    async with a_server(tls, WELL) as server, a_client(authority, token=late) as client:
        assert await refused(client.summary(at(server), deadline=SOON)) is Outcome.TIMEOUT


async def test_the_newest_token_is_sent(authority: Authority, tls: ssl.SSLContext) -> None:
    tokens = iter(["first", "second"])

    async def renewed() -> str | None:
        return next(tokens)

    async with a_server(tls, WELL) as server, a_client(authority, token=renewed) as client:
        for _ in range(2):
            await client.summary(at(server), deadline=AMPLE, keep=True)
    assert ["Bearer first" in server.heads[0], "Bearer second" in server.heads[1]] == [True, True]


# Connections


async def test_a_kept_connection_serves_the_next_poll_and_another_one_does_not(
    authority: Authority, tls: ssl.SSLContext
) -> None:
    async with a_server(tls, WELL) as server, a_client(authority) as client:
        for _ in range(3):
            await client.summary(at(server), deadline=AMPLE, keep=True)
        assert (server.connections, server.open) == (1, 1)
        await client.summary(at(server), deadline=AMPLE)
        await until(lambda: server.open == 0, what="the kept connection is closed, and so is the new one")
        for _ in range(3):
            await client.summary(at(server), deadline=AMPLE)
        assert server.connections == 5


async def test_configz_uses_the_kept_connection(authority: Authority, tls: ssl.SSLContext) -> None:
    async def both(head: str, writer: asyncio.StreamWriter) -> None:
        writer.write(response(b'{"kubeletconfig": {}}' if "configz" in head else a_summary("w1")))

    async with a_server(tls, both) as server, a_client(authority) as client:
        await client.summary(at(server), deadline=AMPLE, keep=True)
        assert await client.eviction(at(server), deadline=AMPLE) is KubeletEviction.UNKNOWN
        assert server.connections == 1


@pytest.mark.parametrize("keep", [False, True], ids=["not kept", "kept, without a place"])
async def test_configz_uses_the_connection_of_its_poll_and_ends_it(
    authority: Authority, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch, keep: bool
) -> None:
    monkeypatch.setattr(client_module, "MAX_KEPT", 0)

    async def both(head: str, writer: asyncio.StreamWriter) -> None:
        writer.write(response(b'{"kubeletconfig": {}}' if "configz" in head else a_summary("w1")))

    async with a_server(tls, both) as server, a_client(authority) as client:
        for polls in (1, 2):
            await client.summary(at(server), deadline=AMPLE, keep=keep, more=True)
            assert await client.eviction(at(server), deadline=AMPLE) is KubeletEviction.UNKNOWN
            await until(lambda: server.open == 0, what="the connection is closed", seconds=0.5)
            assert (server.connections, len(server.heads)) == (polls, 2 * polls)


@pytest.mark.slow
async def test_a_connection_whose_further_request_does_not_come_is_closed(
    authority: Authority, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "MORE_SECONDS", 0.2)
    async with a_server(tls, WELL) as server, a_client(authority) as client:
        await client.summary(at(server), deadline=AMPLE, more=True)
        assert server.open == 1
        await until(lambda: server.open == 0, what="the connection is closed")
        await client.summary(at(server), deadline=AMPLE, keep=True, more=True)
        await asyncio.sleep(0.4)
        assert (server.connections, server.open) == (2, 1), "one that is kept stays"
        await client.release("w1")
        assert server.open == 1, "also where it is released"


async def test_a_connection_that_is_released_is_closed_and_takes_no_place_of_those_that_are_kept(
    authority: Authority, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "MAX_KEPT", 1)

    async def any_node(_: str, writer: asyncio.StreamWriter) -> None:
        writer.write(response(a_summary(polled)))

    async with a_server(tls, any_node) as server, a_client(authority) as client:
        polled = "w1"
        await client.summary(at(server), deadline=AMPLE, more=True)
        polled = "w2"
        await client.summary(at(server, node="w2"), deadline=AMPLE, keep=True)
        assert (server.connections, server.open) == (2, 2)
        await client.release("w1")
        await until(lambda: server.open == 1, what="the released one is closed", seconds=0.5)
        await client.summary(at(server, node="w2"), deadline=AMPLE, keep=True)
        assert server.connections == 2, "the kept one is used again"


async def test_no_more_connections_are_kept_than_the_limit(
    authority: Authority, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "MAX_KEPT", 2)

    async def any_node(_: str, writer: asyncio.StreamWriter) -> None:
        writer.write(response(a_summary("w" + str(polled))))

    async with a_server(tls, any_node) as server, a_client(authority) as client:
        for polled in range(4):
            await client.summary(at(server, node=f"w{polled}"), deadline=AMPLE, keep=True)
        await until(lambda: server.open == 2, what="two connections stay")
        assert server.connections == 4
        await client.forget("w0")
        await until(lambda: server.open == 1, what="that of the node is closed")


async def test_the_connection_of_a_node_that_moves_is_closed(
    authority: Authority, tls: ssl.SSLContext
) -> None:
    async with a_server(tls, WELL) as old, a_server(tls, WELL) as new, a_client(authority) as client:
        await client.summary(at(old), deadline=AMPLE, keep=True)
        await client.summary(at(new), deadline=AMPLE, keep=True)
        await until(lambda: (old.open, new.open) == (0, 1), what="the old connection is closed")


async def test_a_kept_connection_ends_with_the_ca_that_it_was_made_with(
    authority: Authority, tls: ssl.SSLContext, tmp_path: Path
) -> None:
    contexts = [trusted(authority)(), trusted(an_authority(tmp_path, "other"))()]
    async with (
        a_server(tls, WELL) as server,
        KubeletClient(token=the_token, context=lambda: contexts[0]) as client,
    ):
        await client.summary(at(server), deadline=AMPLE, keep=True)
        contexts.pop(0)
        assert await refused(client.summary(at(server), deadline=AMPLE, keep=True)) is Outcome.CERTIFICATE
        await until(lambda: server.open == 0, what="the old connection is closed")


async def test_a_new_ca_replaces_the_kept_connection(authority: Authority, tls: ssl.SSLContext) -> None:
    contexts = [trusted(authority)(), trusted(authority)()]
    async with (
        a_server(tls, WELL) as server,
        KubeletClient(token=the_token, context=lambda: contexts[0]) as client,
    ):
        await client.summary(at(server), deadline=AMPLE, keep=True)
        contexts.pop(0)
        await client.summary(at(server), deadline=AMPLE, keep=True)
        await until(lambda: server.open == 1, what="the old connection is closed")
        assert server.connections == 2


async def test_a_kept_connection_that_the_kubelet_closes_costs_one_sample_at_most(
    authority: Authority, tls: ssl.SSLContext
) -> None:
    async with a_server(tls, WELL) as server, a_client(authority) as client:
        await client.summary(at(server), deadline=AMPLE, keep=True)
        await server.close()
        await until(lambda: server.open == 0, what="the kubelet closes it")
        with suppress(PollError):
            await client.summary(at(server), deadline=AMPLE, keep=True)
        assert (await client.summary(at(server), deadline=AMPLE, keep=True))[0].commit_limit == 24 * GIB


@pytest.mark.parametrize(
    "answer",
    [WELL, answering(response(a_summary("w1"), Connection="close")), never, endless],
    ids=["answers", "answers once", "hangs", "never ends"],
)
async def test_a_kubelet_that_says_no_goodbye_keeps_no_connection(
    authority: Authority, tls: ssl.SSLContext, answer: Answer
) -> None:
    """Asyncio alone would wait 30 s for it, with the buffers of the connection."""

    def connections() -> int:
        found = psutil.Process().net_connections("tcp")
        return sum(bool(each.raddr) and each.raddr.port == server.port for each in found)

    async with a_server(tls, deaf(answer)) as server, a_client(authority) as client:
        with suppress(PollError):
            await client.summary(at(server), deadline=SOON)
        assert len(server.heads) == 1
        await until(lambda: connections() == 0, what="our side is closed", seconds=10)


@pytest.mark.slow
async def test_one_kubelet_that_hangs_keeps_no_other_one_waiting(
    authority: Authority, tls: ssl.SSLContext
) -> None:
    async with a_server(tls, never) as hanging, a_server(tls, WELL) as server, a_client(authority) as client:
        waiting = [
            asyncio.ensure_future(client.summary(at(hanging, node=f"h{number}"), deadline=AMPLE))
            for number in range(16)
        ]
        await until(lambda: len(hanging.heads) == 16, what="all of them are asked")
        assert (await client.summary(at(server), deadline=AMPLE))[0].commit_limit == 24 * GIB
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await until(lambda: hanging.open == 0, what="a poll that is cancelled closes its connection")
