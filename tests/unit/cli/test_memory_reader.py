"""Reading /memory: from an operator, with a token where it asks for one, and from servers that are none."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import web

from harness.certificates import a_mount
from harness.clock import Seconds
from harness.served import HOST, serving
from harness.virtual_time import in_virtual_time
from harness.watched_memory import Known, healthy
from winpool.cli import memory_reader
from winpool.cli.memory_live import REFRESH_SECONDS, Seen, watched
from winpool.cli.memory_reader import MemoryReader, Way, report_in, speaks_tls
from winpool.cli.operator_pod import leading_pod, pod_of
from winpool.cli.reader_token import ReaderToken
from winpool.cli.reasons import NotAskedError
from winpool.cli.urls import server_url
from winpool.kube.client import Transport
from winpool.kube.credentials import FixedHeader
from winpool.kube.errors import ApiError, Forbidden, NotFound
from winpool.kube.request import Request
from winpool.model.memory_report import MemoryReport
from winpool.serve.access import Access, Result
from winpool.serve.memory import Memory
from winpool.serve.tls import ServingTls

GOOD = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJwZXJzb24ifQ.c2lnbmF0dXJl"


def a_memory(known: Known, *, standby: str = "", access: Access | None = None) -> Memory:
    return Memory(known, standby=lambda: standby, access=access, monotonic=Seconds())


async def review(token: str, *, address: str, known: bool) -> Result:
    return "permitted" if token == GOOD else "invalid"


def an_access() -> Access:
    return Access(review, path="/memory", role="winpool-memory-reader", monotonic=Seconds())


async def read(url: str, **given: str) -> MemoryReport:
    async with MemoryReader(Way(url=url, **given)) as reader:
        return await reader.read()


@asynccontextmanager
async def answering(status: int, body: bytes, **headers: str) -> AsyncIterator[str]:
    """Serve another thing than an operator; give its address."""

    async def answer(_: web.BaseRequest) -> web.Response:
        return web.Response(status=status, body=body, headers=headers)

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, HOST, 0).start()
    try:
        yield f"http://{HOST}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def test_five_thousand_nodes_are_read_compressed() -> None:
    known = healthy(5000)
    async with serving(memory=a_memory(known)) as served:
        assert await read(served.url("")) == known.report()


async def test_a_token_file_is_sent(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{GOOD}\n")
    async with serving(memory=a_memory(healthy(2), access=an_access())) as served:
        found = await read(served.url(""), token_file=str(tmp_path / "token"))
    assert len(found.nodes) == 2


async def test_without_a_token_that_it_asks_for_it_says_how_to_get_one(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("expired-token-of-a-person")
    async with serving(memory=a_memory(healthy(1), access=an_access())) as served:
        for given in ({}, {"token_file": str(tmp_path / "token")}):
            with pytest.raises(NotAskedError, match="create token winpool-memory-reader") as caught:
                await read(served.url(""), **given)
            assert "expired-token" not in str(caught.value)


async def test_an_operator_that_stands_by_is_quoted() -> None:
    async with serving(memory=a_memory(healthy(1), standby="ask winpool-b, which holds the Lease")) as served:
        with pytest.raises(NotAskedError, match="the operator answers 503: ask winpool-b"):
            await read(served.url(""))


async def test_an_operator_without_memory_is_told_as_an_older_one() -> None:
    async with serving() as served:
        with pytest.raises(NotAskedError, match="the server has no /memory: the operator is older"):
            await read(served.url(""))


async def test_no_server_is_told_without_a_traceback(tmp_path: Path) -> None:
    with pytest.raises(
        NotAskedError, match=r"the operator cannot be reached: cannot connect to 127\.0\.0\.1:1"
    ):
        await read(f"http://{HOST}:1")
    for given in ("token_file", "ca_file"):
        with pytest.raises(NotAskedError, match=f"{tmp_path}/none cannot be read"):
            await read("https://127.0.0.1:1", **{given: f"{tmp_path}/none"})


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"v": 2, "rows": []}', "version 2 of the report.*the plugin is older than the operator"),
        (b'{"v": 0}', "the operator is older than the plugin"),
        (b"<html>", "is not a report"),
        (b"[" * 100_000, "is not a report"),
        (b'{"v": 1, "at": "2026-11-23T12:00:00Z"}', "missing required field `nodes`"),
        (b'{"v": 1, "at": "2026-11-23T12:00:00", "nodes": []}', "is not a report"),
        (b'{"v": 1, "at": "x\\u001b[2J", "nodes": []}', "is not a report"),
        (b'{"v": 1, "at": "2026-11-23T12:00:00Z", "nodes": [{"node": "a"}]}', "is not a report"),
    ],
)
async def test_another_answer_than_a_report_is_told(body: bytes, said: str) -> None:
    with pytest.raises(NotAskedError, match=said):
        report_in(body)


async def test_an_answer_without_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    async with answering(200, b" " * (20 * 1024 * 1024)) as url:
        with pytest.raises(NotAskedError, match="an answer of more than 16777216 bytes"):
            await read(url)


async def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    """The token is for the server that the person has named."""
    (tmp_path / "token").write_text(GOOD)
    async with (
        serving(memory=a_memory(healthy(1), access=an_access())) as served,
        answering(307, b"", Location=served.url("/memory")) as url,
    ):
        with pytest.raises(NotAskedError, match="307"):
            await read(url, token_file=str(tmp_path / "token"))


async def test_a_page_of_errors_cannot_move_the_cursor() -> None:
    async with answering(500, b"\x1b[2Jfailed") as url:
        with pytest.raises(NotAskedError, match=r"\\x1b\[2Jfailed"):
            await read(url)


# By a forwarded port

KUBECONFIG = """\
{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}],
users: [{name: a, user: {token: of-a-person}}]}
"""


@dataclass
class Host:
    """A host with a kubeconfig, and a kubectl that forwards to a port of a test."""

    folder: Path

    def forward_to(self, port: int) -> None:
        program = self.folder / "kubectl"
        lines = (
            "#!/bin/sh",
            f"echo $* >> {self.folder}/calls",
            f"echo 'Forwarding from 127.0.0.1:{port} -> 8080'",
            "exec sleep 600",
        )
        program.write_text("\n".join(lines))
        program.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()

    def way(self, **given: str) -> Way:
        return Way(kubeconfig=str(self.folder / "config"), **given)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """A cluster whose Lease names the Pods ``winpool-0``, ``winpool-1`` and so on, one at each read."""
    folder = tmp_path / "host"
    folder.mkdir()
    (folder / "config").write_text(KUBECONFIG)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    numbers = iter(range(10))

    async def leading_pod(_: Transport) -> str:
        return f"winpool-{next(numbers)}"

    monkeypatch.setattr(memory_reader, "leading_pod", leading_pod)
    monkeypatch.setattr(memory_reader, "ReaderToken", lambda _: FixedHeader(f"Bearer {GOOD}"))
    monkeypatch.setattr(memory_reader, "SERVER_NAME", "localhost")
    return Host(folder)


async def test_without_an_address_it_reads_from_the_pod_that_leads(host: Host) -> None:
    async with serving(memory=a_memory(healthy(3))) as served:
        host.forward_to(served.port)
        async with MemoryReader(host.way()) as reader:
            assert [len((await reader.read()).nodes) for _ in range(2)] == [3, 3]
    (call,) = host.calls
    assert call.endswith("--namespace winpool-system port-forward --address 127.0.0.1 pod/winpool-0 :metrics")


async def test_where_another_operator_leads_the_next_read_is_from_that_one(host: Host) -> None:
    async with (
        serving(memory=a_memory(healthy(1), standby="winpool-1 leads")) as before,
        serving(memory=a_memory(healthy(2))) as after,
        MemoryReader(host.way()) as reader,
    ):
        host.forward_to(before.port)
        with pytest.raises(NotAskedError, match="winpool-1 leads"):
            await reader.read()
        host.forward_to(after.port)
        assert len((await reader.read()).nodes) == 2
    assert [call.split()[-2] for call in host.calls] == ["pod/winpool-0", "pod/winpool-1"]


@pytest.mark.slow
async def test_an_operator_with_tls_is_read_by_https_and_verified_with_a_ca_file(
    host: Host, tmp_path: Path
) -> None:
    mounted = a_mount(tmp_path / "pki", now=datetime.now(UTC).replace(microsecond=0))
    a_mount(tmp_path / "other", now=datetime.now(UTC).replace(microsecond=0))
    served_memory = a_memory(healthy(4), access=an_access())
    async with serving(memory=served_memory, tls=ServingTls(mounted.files)) as served:
        host.forward_to(served.port)
        for given in ({}, {"ca_file": str(tmp_path / "pki" / "ca.crt")}):
            async with MemoryReader(host.way(**given)) as reader:
                assert len((await reader.read()).nodes) == 4
        async with MemoryReader(host.way(ca_file=str(tmp_path / "other" / "ca.crt"))) as reader:
            with pytest.raises(NotAskedError, match="the operator's certificate is not believed"):
                await reader.read()


async def test_with_a_ca_file_nothing_is_sent_in_plain_text(host: Host, tmp_path: Path) -> None:
    a_mount(tmp_path / "pki", now=datetime.now(UTC).replace(microsecond=0))
    async with serving(memory=a_memory(healthy(1))) as served:
        host.forward_to(served.port)
        async with MemoryReader(host.way(ca_file=str(tmp_path / "pki" / "ca.crt"))) as reader:
            with pytest.raises(NotAskedError, match="cannot be reached"):
                await reader.read()


# Which scheme, which Pod, which token


async def test_whether_a_forwarded_port_speaks_tls_is_found_by_a_handshake() -> None:
    async with serving() as served:
        assert not await speaks_tls(served.port)
    with pytest.raises(NotAskedError, match="through kubectl port-forward"):
        await speaks_tls(1)


@pytest.mark.parametrize(
    ("holder", "pod"),
    [
        ("winpool-7d9cbb6f4-abcde_1a2b3c4d", "winpool-7d9cbb6f4-abcde"),
        ("a.b_c", "a.b"),
    ],
)
def test_the_pod_is_the_host_of_who_holds_the_lease(holder: str, pod: str) -> None:
    assert pod_of(holder) == pod


@pytest.mark.parametrize("holder", ["--kubeconfig=/x_1", "A_1", "a/b_1", "a b_1", "_1", "winpool", "a\n_1"])
def test_what_is_no_pod_is_not_put_on_a_command_line(holder: str) -> None:
    with pytest.raises(
        NotAskedError, match="which is not a Pod: name the address of the operator with --url"
    ):
        pod_of(holder)


def test_where_no_operator_leads_it_says_what_to_check() -> None:
    with pytest.raises(NotAskedError, match="kubectl -n winpool-system get pods"):
        pod_of("")


class Answering:
    """In place of the transport: gives the answers of a test, one after the other, and notes the requests."""

    def __init__(self, *answers: bytes | ApiError) -> None:
        self.answers = [*answers]
        self.asked: list[Request] = []

    async def request(self, request: Request) -> bytes:
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, ApiError):
            raise answer
        return answer


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (NotFound('get leases winpool: 404 leases "winpool" not found', status=404), "no operator holds"),
        (b"{}", "no operator holds"),
        (b'{"spec": {"holderIdentity": null}}', "no operator holds"),
        (b"<html>", "not from a Kubernetes API server"),
        (Forbidden("get leases winpool: 403 no", status=403), "the API server refuses"),
    ],
)
async def test_a_lease_that_names_no_pod_is_told(answer: bytes | ApiError, said: str) -> None:
    with pytest.raises(NotAskedError, match=said):
        await leading_pod(cast("Transport", Answering(answer)))


async def test_a_token_is_created_when_the_operator_asks_and_again_when_it_has_ended() -> None:
    answers = (json.dumps({"status": {"token": token}}).encode() for token in ("one", "two"))
    server = Answering(*answers)
    token = ReaderToken(cast("Transport", server))
    assert await token.header() is None
    assert server.asked == [], "an operator that requires none gets none"
    token.reject(None)
    assert [await token.header() for _ in range(2)] == ["Bearer one"] * 2
    token.reject(None)
    assert await token.header() == "Bearer one", "a late answer to a request without one"
    token.reject("Bearer one")
    assert await token.header() == "Bearer two"
    assert {each.path for each in server.asked} == {
        "/api/v1/namespaces/winpool-system/serviceaccounts/winpool-memory-reader/token"
    }
    assert json.loads(server.asked[0].body or b"")["spec"] == {"expirationSeconds": 600}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (NotFound("create serviceaccounts/token: 404", status=404), "--token-file"),
        (Forbidden("create serviceaccounts/token: 403 no", status=403), "the API server refuses"),
        (b'{"status": {"token": 12345678901234567890}}', "not from a Kubernetes API server"),
    ],
)
async def test_a_token_that_cannot_be_had_is_told(answer: bytes | ApiError, said: str) -> None:
    token = ReaderToken(cast("Transport", Answering(answer)))
    token.reject(None)
    with pytest.raises(NotAskedError, match=re.escape(said)) as caught:
        await token.header()
    assert "12345678901234567890" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://winpool.example", "https://winpool.example"),
        ("https://winpool.example:8443/memory", "https://winpool.example:8443"),
        ("https://example/prefix/", "https://example/prefix"),
        ("http://127.0.0.1:8080/memory/", "http://127.0.0.1:8080"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        ("http://localhost:1", "http://localhost:1"),
    ],
)
def test_an_address_is_read_with_the_path_or_without(text: str, url: str) -> None:
    assert server_url(text) == url


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("http://winpool.example", "has to begin with https://: a token may be sent there"),
        ("http://127.0.0.1.example", "has to begin with https://"),
        ("winpool.example", "is not the address of an operator"),
        ("https://", "is not the address"),
        ("https://a/?x=1", "is not the address"),
        ("https://a:0", "is not the address"),
        ("https://a:99999", "is not a URL"),
        ("ftp://a", "is not the address"),
    ],
)
def test_other_addresses_are_faults_of_the_command_line(text: str, said: str, plugin: Any) -> None:
    ended = plugin("memory", "--url", text)
    assert (ended.code, ended.out) == (2, [])
    assert said in ended.err[-1]


def test_a_password_in_an_address_is_refused_and_not_shown(plugin: Any) -> None:
    ended = plugin("memory", "--url", "https://user:hunter2@a")
    assert ended.code == 2
    assert "give a token with --token-file" in ended.err[-1]
    assert "hunter2" not in "".join(ended.err)


# Watching


@in_virtual_time
async def test_a_watch_goes_on_after_a_failure_with_the_last_report(monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[MemoryReport | NotAskedError] = [
        healthy(1).report(),
        NotAskedError("the operator is gone"),
        healthy(2).report(),
    ]
    seen: list[tuple[float, Seen]] = []

    class Reader:
        async def read(self) -> MemoryReport:
            found = reports.pop(0)
            if isinstance(found, NotAskedError):
                raise found
            return found

    def draw(each: Seen) -> None:
        seen.append((asyncio.get_running_loop().time() - began, each))
        if not reports:
            raise KeyboardInterrupt

    began = asyncio.get_running_loop().time()
    with pytest.raises(KeyboardInterrupt):
        await watched(cast("MemoryReader", Reader()), draw=draw)
    assert [(len(each.report.nodes), each.trouble) for _, each in seen] == [
        (1, ""),
        (1, "the operator is gone"),
        (2, ""),
    ]
    assert [at for at, _ in seen] == pytest.approx([0, 5, 10])
    assert REFRESH_SECONDS == 5


@pytest.mark.parametrize("more", [(), ("-w",), ("node/a", "-o", "json")])
def test_without_credentials_it_ends_with_2_and_says_what_is_missing(
    plugin: Callable[..., Any], more: tuple[str, ...]
) -> None:
    ended = plugin("memory", *more)
    assert (ended.code, ended.out) == (2, [])
    assert "kubectl winpool memory: no credentials for the API server" in ended.err[-1]


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("-w",), ("node/a", "-o", "json")])
def test_where_nothing_listens_any_more_it_ends_with_2(
    plugin: Callable[..., Any], more: tuple[str, ...]
) -> None:
    ended = plugin("memory", "--url", f"http://{HOST}:1", *more)
    assert (ended.code, ended.out) == (2, [])
    assert "kubectl winpool memory: the operator cannot be reached" in ended.err[-1]


@pytest.mark.parametrize("more", [(), ("-w",)])
def test_where_the_pod_that_leads_is_gone_it_ends_with_2_and_quotes_kubectl(
    plugin: Callable[..., Any], host: Host, more: tuple[str, ...]
) -> None:
    kubectl = host.folder / "kubectl"
    kubectl.write_text("#!/bin/sh\necho 'Error (NotFound): pods \"winpool-0\" not found' >&2\nexit 1\n")
    kubectl.chmod(0o755)
    ended = plugin("--kubeconfig", str(host.folder / "config"), "memory", *more)
    assert (ended.code, ended.out) == (2, [])
    assert 'pods "winpool-0" not found' in ended.err[-1]
