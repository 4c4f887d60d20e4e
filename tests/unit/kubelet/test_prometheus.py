"""Asking a Prometheus over real HTTP: all nodes at once, and every way in which it can fail."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import socket
import ssl
import traceback
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from yarl import URL

from cluster.door import until
from harness.hostile_server import (
    Answer,
    HostileServer,
    a_server,
    answering,
    endless,
    never,
    response,
    tls_for,
)
from harness.listener import an_authority
from testbed.pki import Authority
from winpool.kubelet import prometheus as prometheus_module
from winpool.kubelet.connection import Trust
from winpool.kubelet.exporter import MOST_SERIES, Query
from winpool.kubelet.prometheus import PrometheusClient, parse_url
from winpool.kubelet.samples import PROMETHEUS_SENTENCES, Outcome, PollError

TOKEN = "s3cret-t0ken"
NOW = 1_790_000_000.0
AMPLE = 30.0
SOON = 0.5
MATCHERS = {"job": "windows-exporter", "team": 'a "b" \\ + {c}'}


async def the_token() -> str | None:
    return TOKEN


def query_of(head: str) -> str:
    return parse_qs(urlsplit(head.split()[1]).query)["query"][0]


def a_vector(*nodes: str, value: str = "1024") -> bytes:
    series = [{"metric": {"node": node}, "value": [NOW, value]} for node in nodes]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": series}}).encode()


async def well(head: str, writer: asyncio.StreamWriter) -> None:
    value = str(NOW - 7) if query_of(head) == Query.TIME.of(MATCHERS) else "1024"
    writer.write(response(a_vector("w1", "w2", value=value)))


def a_client(
    server: HostileServer, authority: Authority, *, scheme: str = "https", path: str = ""
) -> PrometheusClient:
    trust = Trust(authority.paths.certificate, monotonic=lambda: 0.0)
    token = the_token if scheme == "https" else None
    url = parse_url(f"{scheme}://127.0.0.1:{server.port}{path}", has_token=token is not None)
    return PrometheusClient(url, matchers=MATCHERS, token=token, context=trust.context)


@contextmanager
def traced() -> Iterator[Callable[[], tuple[int, int]]]:
    """Have no garbage collected; yield what returns the bytes that are in use, and that were at most."""
    gc.disable()
    tracemalloc.start()
    try:
        yield tracemalloc.get_traced_memory
    finally:
        tracemalloc.stop()
        gc.enable()


def kept() -> int:
    """Return the bytes in blocks of half a MiB and more: bodies, and no buffers of connections."""
    return sum(each.size for each in tracemalloc.take_snapshot().traces if each.size >= 2**19)


async def refused(
    authority: Authority, tls: ssl.SSLContext, answer: Answer, *, deadline: float = AMPLE
) -> Outcome:
    async with a_server(tls, answer) as server:
        with pytest.raises(PollError) as raised:
            await a_client(server, authority).samples(label="node", deadline=deadline)
        assert TOKEN not in "".join(traceback.format_exception(raised.value))
        await until(lambda: server.open == 0, what="its connections are closed")
        return raised.value.outcome


async def test_ten_queries_tell_of_all_nodes_over_few_connections_that_are_closed(
    authority: Authority, tls: ssl.SSLContext
) -> None:
    async with a_server(tls, well) as server:
        samples = await a_client(server, authority).samples(label="node", deadline=AMPLE)
        await until(lambda: server.open == 0, what="its connections are closed")
    assert sorted(samples) == ["w1", "w2"]
    assert samples["w1"].age == 7.0
    assert samples["w1"].commit_total == 1024
    assert sorted(map(query_of, server.heads)) == sorted(query.of(MATCHERS) for query in Query)
    assert all(f"Authorization: Bearer {TOKEN}\r\n" in head for head in server.heads)
    assert server.connections <= prometheus_module.MAX_QUERIES


async def test_the_path_of_the_url_is_that_of_a_tenant(authority: Authority) -> None:
    for path in ("/tenant/a", "/tenant/a/"):
        async with a_server(None, well) as server:
            await a_client(server, authority, scheme="http", path=path).samples(label="node", deadline=AMPLE)
        assert {urlsplit(head.split()[1]).path for head in server.heads} == {"/tenant/a/api/v1/query"}
        assert "authorization" not in "".join(server.heads).lower()


async def test_a_tenant_and_a_user_with_a_password_are_sent_with_each_query(
    authority: Authority, tls: ssl.SSLContext
) -> None:
    async with a_server(tls, well) as server:
        client = a_client(server, authority)
        client.user, client.headers = "12345", {"X-Scope-OrgID": "team-a"}
        await client.samples(label="node", deadline=AMPLE)
    sent = base64.b64encode(f"12345:{TOKEN}".encode()).decode()
    assert server.heads
    for head in server.heads:
        assert head.count("Authorization") == 1
        assert f"Authorization: Basic {sent}\r\n" in head
        assert "X-Scope-OrgID: team-a\r\n" in head


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (answering(response(b"", status="401 Unauthorized")), Outcome.UNAUTHORIZED),
        (answering(response(TOKEN.encode(), status="403 Forbidden")), Outcome.FORBIDDEN),
        (answering(response(b"", status="302 Found", Location="https://elsewhere/")), Outcome.REDIRECTED),
        (answering(response(b"{}", status="503 Service Unavailable")), Outcome.SERVER_ERROR),
        (answering(response(b"<html>")), Outcome.UNREADABLE),
    ],
)
async def test_an_answer_that_is_no_vector_has_its_outcome(
    authority: Authority, tls: ssl.SSLContext, answer: Answer, outcome: Outcome
) -> None:
    assert await refused(authority, tls, answer) is outcome


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (
            "401 Unauthorized",
            (
                "credentials are missing or not valid",
                "token file, basicAuth or headers",
                "put a proxy before",
            ),
        ),
        (
            "403 Forbidden",
            ("refuses the query", "the right to query it", "has neither, set one", "put a proxy before"),
        ),
        ("422 Unprocessable Entity", ("answers queries", "a Prometheus Agent answers none")),
    ],
)
async def test_what_is_said_of_a_refusal_names_what_is_missing(
    authority: Authority, tls: ssl.SSLContext, status: str, words: tuple[str, ...]
) -> None:
    """Also where the data source has neither a token nor a password: then there is none to be corrected."""
    said = PROMETHEUS_SENTENCES[await refused(authority, tls, answering(response(b"{}", status=status)))]
    assert [each for each in words if each not in said] == []


async def test_one_query_that_fails_makes_the_others_worthless(
    authority: Authority, tls: ssl.SSLContext
) -> None:
    async def almost(head: str, writer: asyncio.StreamWriter) -> None:
        if query_of(head) == Query.POOL_NONPAGED.of(MATCHERS):
            writer.write(response(b"", status="500 Internal Server Error"))
        else:
            await well(head, writer)

    assert await refused(authority, tls, almost) is Outcome.SERVER_ERROR


async def test_an_answer_that_is_too_large(
    authority: Authority, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prometheus_module, "MAX_BODY_BYTES", 1000)
    answer = answering(response(a_vector(*(f"w{number}" for number in range(100)))))
    assert await refused(authority, tls, answer) is Outcome.TOO_LARGE


@pytest.mark.slow
async def test_of_an_answer_without_an_end_no_more_is_read_than_the_limit(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 4 * 2**20
    monkeypatch.setattr(prometheus_module, "MAX_BODY_BYTES", limit)
    async with a_server(None, endless) as server:
        client = a_client(server, authority, scheme="http")
        with traced() as memory:
            with pytest.raises(PollError) as raised:
                await client.samples(label="node", deadline=AMPLE)
            assert raised.value.outcome is Outcome.TOO_LARGE
            await until(lambda: server.open == 0, what="its connections are closed")
            # The server of this test runs in the same process, and ends its answers a moment later.
            await until(lambda: kept() == 0, what="nothing is kept")
            assert memory()[1] < (prometheus_module.MAX_QUERIES + 1) * limit


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        (a_vector(*(f"w{number}" for number in range(MOST_SERIES + 1))), Outcome.TOO_LARGE),
        (4 * 2**20 * b"x", Outcome.UNREADABLE),
    ],
    ids=["series", "nonsense"],
)
async def test_nothing_is_kept_of_an_answer_that_cannot_be_used(
    authority: Authority, tls: ssl.SSLContext, body: bytes, outcome: Outcome
) -> None:
    answer = answering(response(body))
    with traced() as memory:
        assert await refused(authority, tls, answer) is outcome
        assert memory()[1] > len(body)
        await until(lambda: kept() == 0, what="nothing is kept")


async def test_a_port_where_nothing_listens_is_no_connection(
    authority: Authority, tls: ssl.SSLContext
) -> None:
    async with a_server(tls, well) as server:
        client = a_client(server, authority)
    with pytest.raises(PollError) as raised:
        await client.samples(label="node", deadline=AMPLE)
    assert raised.value.outcome is Outcome.NO_CONNECTION


async def test_of_several_addresses_the_first_that_answers_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolve(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        assert host == "prometheus.test"
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in ("127.0.0.2", "127.0.0.1")
        ]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    async with a_server(None, well) as server:
        url = URL(f"http://prometheus.test:{server.port}")
        client = PrometheusClient(url, matchers=MATCHERS, token=None, context=ssl.create_default_context)
        assert sorted(await client.samples(label="node", deadline=AMPLE)) == ["w1", "w2"]
        assert f"\r\nHost: prometheus.test:{server.port}\r\n" in server.heads[0]


async def test_a_host_without_an_address_is_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolve(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    url = URL("http://prometheus.test:9090")
    client = PrometheusClient(url, matchers=MATCHERS, token=None, context=ssl.create_default_context)
    with pytest.raises(PollError) as raised:
        await client.samples(label="node", deadline=AMPLE)
    assert raised.value.outcome is Outcome.NO_CONNECTION


@pytest.mark.slow
async def test_a_prometheus_that_hangs_is_a_timeout(authority: Authority, tls: ssl.SSLContext) -> None:
    assert await refused(authority, tls, never, deadline=SOON) is Outcome.TIMEOUT


@pytest.mark.parametrize("wrong", ["name", "authority"])
async def test_a_certificate_that_is_not_for_the_host_is_refused_before_the_token_is_sent(
    authority: Authority, tmp_path: Path, wrong: str
) -> None:
    signer = authority if wrong == "name" else an_authority(tmp_path, "other")
    address = "127.0.0.2" if wrong == "name" else "127.0.0.1"
    async with a_server(tls_for(signer, tmp_path, addresses=[address]), well) as server:
        with pytest.raises(PollError) as raised:
            await a_client(server, authority).samples(label="node", deadline=AMPLE)
        assert raised.value.outcome is Outcome.CERTIFICATE
        assert server.heads == []


async def test_without_a_token_nothing_is_sent(authority: Authority, tls: ssl.SSLContext) -> None:
    async def no_token() -> str | None:
        return None

    context: Callable[[], ssl.SSLContext] = Trust(authority.paths.certificate, monotonic=lambda: 0.0).context
    async with a_server(tls, well) as server:
        url = URL(f"https://127.0.0.1:{server.port}")
        client = PrometheusClient(url, matchers=MATCHERS, token=no_token, context=context)
        with pytest.raises(PollError) as raised:
            await client.samples(label="node", deadline=AMPLE)
        assert raised.value.outcome is Outcome.NO_TOKEN
        assert server.connections == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not a URL"),
        ("prometheus:9090", "not a URL"),
        ("ftp://prometheus", "not a URL"),
        ("https://", "not a URL"),
        ("https://host:99999", "not a URL"),
        ("https://[::1", "not a URL"),
        ("https://admin:hunter2@host", "set a token file"),
        ("https://admin@host", "set a token file"),
        ("https://host/?token=hunter2", "remove what follows the path"),
        ("https://host/#here", "remove what follows the path"),
        ("http://host", "write https://"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_with_a_sentence_that_quotes_nothing(
    text: str, said: str
) -> None:
    with pytest.raises(ValueError, match=said) as raised:
        parse_url(text, has_token=True)
    assert "hunter2" not in str(raised.value)


def test_plain_http_is_for_a_prometheus_without_a_token() -> None:
    assert parse_url("http://prometheus.monitoring.svc:9090", has_token=False).port == 9090
