"""Reading /memory: from an operator, with a token where it asks for one, and from servers that are none."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from harness.certificates import a_mount
from harness.clock import Seconds
from harness.every import every
from harness.served import HOST, serving
from harness.watched_memory import Known, healthy
from winpool.cli import memory_report
from winpool.cli.kubectl import Kubectl, KubectlError, NotAskedError, lease_object, polled, record_in
from winpool.cli.memory import REFRESH_SECONDS, server_url
from winpool.cli.memory_report import MemoryReader, address_on, pod_of, report_in, speaks_tls
from winpool.kube.lease_rules import host_in_identity
from winpool.model.memory_report import MemoryReport
from winpool.serve.access import Access, Result
from winpool.serve.http import Memory
from winpool.serve.tls import ServingTls

GOOD = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJwZXJzb24ifQ.c2lnbmF0dXJl"


def a_memory(known: Known, *, standby: str = "", access: Access | None = None) -> Memory:
    return Memory(known, standby=lambda: standby, access=access, monotonic=Seconds())


async def review(token: str, *, address: str, known: bool) -> Result:
    return "Permitted" if token == GOOD else "Invalid"


def an_access() -> Access:
    return Access(review, path="/memory", role="winpool-memory-reader", monotonic=Seconds())


async def read(url: str, **given: str) -> MemoryReport:
    def run() -> MemoryReport:
        with MemoryReader(url=url, **given) as reader:
            return reader.read()

    return await asyncio.to_thread(run)


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


@pytest.mark.slow
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


@dataclass
class Host:
    """A host with a kubectl that names the Pods winpool-0, winpool-1 and so on, and forwards to ``port``."""

    folder: Path

    def forward_to(self, port: int, *, lines: str = "", token: str = GOOD) -> None:
        program = self.folder / "kubectl"
        count = f"$(wc -l < {self.folder}/leases)"
        lease = f'echo "{{\\"spec\\": {{\\"holderIdentity\\": \\"winpool-{count}_1\\"}}}}"'
        program.write_text(
            f"""#!/bin/sh
echo "$*" >> {self.folder}/calls
case "$*" in
*create*) echo {token};;
*get*) {lease}; echo >> {self.folder}/leases;;
*) {lines or f"echo 'Forwarding from 127.0.0.1:{port} -> 8080'; exec sleep 600"};;
esac
"""
        )
        program.chmod(0o755)

    def calls(self, word: str) -> list[str]:
        return [each for each in (self.folder / "calls").read_text().splitlines() if word in each]

    async def counts(self, *, reads: int = 1, **given: str) -> list[int]:
        """Return how many nodes each of so many reads of one reader has."""

        def run() -> list[int]:
            with MemoryReader(**given) as reader:
                return [len(reader.read().nodes) for _ in range(reads)]

        return await asyncio.to_thread(run)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    folder = tmp_path / "host"
    folder.mkdir()
    (folder / "leases").touch()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setattr(memory_report, "SERVER_NAME", "localhost")
    return Host(folder)


async def test_without_an_address_it_reads_from_the_pod_that_leads(host: Host) -> None:
    async with serving(memory=a_memory(healthy(3))) as served:
        host.forward_to(served.port)
        assert await host.counts(reads=2) == [3, 3]
    (call,) = host.calls("port-forward")
    assert call == "port-forward --namespace winpool-system --address 127.0.0.1 pod/winpool-0 :metrics"
    assert host.calls("create") == [], "an operator that requires no token gets none"


@pytest.mark.slow
async def test_where_another_operator_leads_the_next_read_is_from_that_one(host: Host) -> None:
    async with (
        serving(memory=a_memory(healthy(1), standby="winpool-1 leads")) as before,
        serving(memory=a_memory(healthy(2))) as after,
    ):

        def run() -> int:
            with MemoryReader() as reader:
                host.forward_to(before.port)
                with pytest.raises(NotAskedError, match="winpool-1 leads"):
                    reader.read()
                host.forward_to(after.port)
                return len(reader.read().nodes)

        assert await asyncio.to_thread(run) == 2
    assert [call.split()[-2] for call in host.calls("port-forward")] == ["pod/winpool-0", "pod/winpool-1"]


async def test_an_operator_with_tls_is_read_by_https_and_verified_with_a_ca_file(
    host: Host, tmp_path: Path
) -> None:
    mounted = a_mount(tmp_path / "pki", now=datetime.now(UTC).replace(microsecond=0))
    a_mount(tmp_path / "other", now=datetime.now(UTC).replace(microsecond=0))
    served_memory = a_memory(healthy(4), access=an_access())
    async with serving(memory=served_memory, tls=ServingTls(mounted.files)) as served:
        host.forward_to(served.port)
        assert await host.counts() == [4]
        assert await host.counts(ca_file=str(tmp_path / "pki" / "ca.crt")) == [4]
        with pytest.raises(NotAskedError, match="the operator's certificate is not believed"):
            await host.counts(ca_file=str(tmp_path / "other" / "ca.crt"))


async def test_with_a_ca_file_nothing_is_sent_in_plain_text(host: Host, tmp_path: Path) -> None:
    a_mount(tmp_path / "pki", now=datetime.now(UTC).replace(microsecond=0))
    async with serving(memory=a_memory(healthy(1))) as served:
        host.forward_to(served.port)
        with pytest.raises(NotAskedError, match="cannot be reached"):
            await host.counts(ca_file=str(tmp_path / "pki" / "ca.crt"))


async def test_a_token_is_created_when_the_operator_asks_and_again_when_it_has_ended(
    host: Host,
) -> None:
    good = ["one", "two"]

    async def judge(token: str, *, address: str, known: bool) -> Result:
        return "Permitted" if token == good[0] else "Invalid"

    clock = Seconds()
    access = Access(judge, path="/memory", role="winpool-memory-reader", monotonic=clock)
    async with serving(memory=a_memory(healthy(1), access=access)) as served:

        def run() -> list[int]:
            found: list[int] = []
            with MemoryReader() as reader:
                for token in ("one", "one", "two"):
                    host.forward_to(served.port, token=token)
                    if token != good[0]:
                        del good[0]
                        clock.now += 3600
                    found.append(len(reader.read().nodes))
            return found

        assert await asyncio.to_thread(run) == [1, 1, 1]
    assert (
        host.calls("create")
        == ["create token winpool-memory-reader --namespace winpool-system --duration=600s"] * 2
    )


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ('error: failed to create token: serviceaccounts "winpool-memory-reader" not found', "--token-file"),
        ("Error from server (Forbidden): no", "the operator requires a token: Error from server (Forbidden)"),
    ],
)
async def test_a_token_that_cannot_be_had_is_told(host: Host, said: str, advice: str) -> None:
    async with serving(memory=a_memory(healthy(1), access=an_access())) as served:
        host.forward_to(served.port)
        program = host.folder / "kubectl"
        program.write_text(program.read_text().replace(f"echo {GOOD}", f"echo '{said}' >&2; exit 1"))
        with pytest.raises(NotAskedError, match=re.escape(said)) as caught:
            await host.counts()
    assert advice in str(caught.value)


# Which scheme, which Pod, which token


async def test_whether_a_forwarded_port_speaks_tls_is_found_by_a_handshake() -> None:
    async with serving() as served:
        assert not await asyncio.to_thread(speaks_tls, served.port)
    with pytest.raises(NotAskedError, match="through kubectl port-forward"):
        speaks_tls(1)


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


class Lease(Kubectl):
    """Gives this answer to who leads."""

    def __init__(self, answer: bytes | KubectlError) -> None:
        super().__init__()
        self._answer = answer

    def get(self, path: str, **query: str) -> bytes:
        assert (path, query) == ("/apis/coordination.k8s.io/v1/namespaces/winpool-system/leases/winpool", {})
        if isinstance(self._answer, KubectlError):
            raise self._answer
        return self._answer


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (KubectlError('Error from server (NotFound): leases "winpool" not found'), "no operator has created"),
        (b"{}", "no operator holds"),
        (b'{"spec": {"holderIdentity": null}}', "no operator holds"),
        (b"<html>", "not from a Kubernetes API server"),
        (KubectlError("Error from server (Forbidden): no"), "Forbidden"),
    ],
)
def test_a_lease_that_names_no_pod_is_told(answer: bytes | KubectlError, said: str) -> None:
    with pytest.raises(NotAskedError, match=said):
        pod_of(record_in(lease_object(Lease(answer))).holder)


HERE = f"{host_in_identity(socket.gethostname())}_1a2b3c4d"


@every(
    ("holder", "annotation", "address"),
    [
        (HERE, "http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        (HERE, "http://localhost:41234/memory", "http://localhost:41234"),
        (HERE, None, ""),
        (HERE, 8080, ""),
        # A Pod has taken over since.
        ("winpool-7d9cbb6f4-abcde_1a2b3c4d", "http://127.0.0.1:8080", ""),
        ("", "http://127.0.0.1:8080", ""),
        (HERE, "http://198.51.100.7:8080", ""),
        (HERE, "https://127.0.0.1:8080", ""),
        (HERE, "http://a:b@127.0.0.1:8080", ""),
        (HERE, "http://127.0.0.1", ""),
        (HERE, "http://127.0.0.1:99999", ""),
    ],
)
def test_the_address_on_the_lease_counts_for_a_holder_on_this_machine(
    holder: str, annotation: object, address: str
) -> None:
    lease = {"metadata": {"annotations": {"winpool.dev/address": annotation}}}
    assert address_on(lease, holder=holder) == address


def test_a_lease_without_annotations_names_no_address() -> None:
    assert address_on({}, holder=HERE) == address_on({"metadata": {}}, holder=HERE) == ""


async def test_without_a_url_the_operator_is_asked_where_its_lease_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with answering(500, b"asked here") as url:
        found = {"metadata": {"annotations": {"winpool.dev/address": url}}, "spec": {"holderIdentity": HERE}}
        reader = MemoryReader()
        reader.kubectl = Lease(msgspec.json.encode(found))
        with pytest.raises(NotAskedError, match="the operator answers 500: asked here"):
            await asyncio.to_thread(reader.read)


@pytest.mark.parametrize("given", ["token_file", "ca_file", ""])
async def test_no_token_goes_where_the_lease_says(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may write the Lease names any port of this machine, where any user of it may listen."""
    seen: list[str | None] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        seen.append(request.headers.get("Authorization"))
        return web.Response(status=401)

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, HOST, 0).start()
    (tmp_path / "file").write_text(GOOD)
    reader = MemoryReader(**({given: str(tmp_path / "file")} if given else {}))
    url = f"http://{HOST}:{runner.addresses[0][1]}"
    found = {"metadata": {"annotations": {"winpool.dev/address": url}}, "spec": {"holderIdentity": HERE}}
    reader.kubectl = Lease(msgspec.json.encode(found))
    monkeypatch.setattr(reader, "_token", GOOD)  # of a Pod that led before
    with pytest.raises(NotAskedError, match="with --url" if given else "requires a token"):
        await asyncio.to_thread(reader.read)
    await runner.cleanup()
    assert seen == ([] if given else [None])


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


@pytest.mark.parametrize("flag", ["--ca-file", "--token-file"])
def test_files_that_cannot_be_opened_are_too(flag: str, plugin: Any) -> None:
    ended = plugin("memory", "--url", "https://127.0.0.1:1", flag, "none")
    assert (ended.code, ended.out) == (2, [])
    assert f"{flag} none cannot be read" in ended.err[-1]


def test_a_password_in_an_address_is_refused_and_not_shown(plugin: Any) -> None:
    ended = plugin("memory", "--url", "https://user:hunter2@a")
    assert ended.code == 2
    assert "give a token with --token-file" in ended.err[-1]
    assert "hunter2" not in "".join(ended.err)


# Watching


def test_a_watch_goes_on_after_a_failure_with_the_last_report() -> None:
    reports: list[MemoryReport | NotAskedError] = [
        healthy(1).report(),
        NotAskedError("the operator is gone"),
        healthy(2).report(),
    ]
    seen: list[tuple[int, str]] = []
    pauses: list[float] = []

    class Reader:
        def read(self) -> MemoryReport:
            found = reports.pop(0)
            if isinstance(found, NotAskedError):
                raise found
            return found

    for report, trouble in polled(Reader().read, seconds=REFRESH_SECONDS, sleep=pauses.append):
        seen.append((len(report.nodes), trouble))
        if not reports:
            break
    assert seen == [(1, ""), (1, "the operator is gone"), (2, "")]
    assert pauses == [REFRESH_SECONDS] * 2 == [5, 5]


@pytest.mark.parametrize("more", [(), ("-w",), ("node/a", "-o", "json")])
def test_without_kubectl_it_ends_with_1_and_one_sentence(
    plugin: Callable[..., Any], more: tuple[str, ...]
) -> None:
    ended = plugin("memory", *more)
    assert (ended.code, ended.out) == (1, [])
    assert ended.err[-1].startswith("kubectl winpool memory: kubectl cannot be started")


@pytest.mark.parametrize("more", [(), ("-w",), ("node/a", "-o", "json")])
def test_where_nothing_listens_any_more_it_ends_with_1(
    plugin: Callable[..., Any], more: tuple[str, ...]
) -> None:
    ended = plugin("memory", "--url", f"http://{HOST}:1", *more)
    assert (ended.code, ended.out) == (1, [])
    assert "kubectl winpool memory: the operator cannot be reached" in ended.err[-1]


@pytest.mark.parametrize("more", [(), ("-w",)])
def test_where_the_pod_that_leads_is_gone_it_ends_with_1_and_quotes_kubectl(
    plugin: Callable[..., Any], host: Host, more: tuple[str, ...]
) -> None:
    host.forward_to(1, lines="echo 'Error (NotFound): pods \"winpool-0\" not found' >&2; exit 1")
    ended = plugin("memory", *more)
    assert (ended.code, ended.out) == (1, [])
    assert 'pods "winpool-0" not found' in ended.err[-1]
