"""The endpoints of nodes over real sockets, as far as they need no API server."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import aiohttp
import pytest
from cryptography.hazmat.primitives import serialization

from testbed.memory.workloads import OsLeak
from testbed.pki import Pair, Pki
from testbed.signing import Signer
from testbed.winsim.clock import SystemClock
from testbed.winsim.endpoint.certificates import Certificates
from testbed.winsim.endpoint.faults import EndpointName, Fault, FaultKind
from testbed.winsim.endpoint.options import EndpointOptions
from testbed.winsim.endpoint.server import Endpoint
from testbed.winsim.machines import Machine, build_machine
from testbed.winsim.wire import Wire

CA = Signer.new(common_name="kubelets", now=datetime.now(UTC))
GUARD_SECONDS = 20.0
"""Against waiting for ever; answers come in milliseconds."""
FIRST, SECOND, NOBODY = "127.77.3.1", "127.77.3.2", "127.77.3.3"


def a_machine(name: str, address: str) -> Machine:
    return build_machine(name, index=0, windows=True, address=address, kubelet_version="v1.37.1", labels={})


class Ahead(SystemClock):
    """The clocks of this machine, and so many seconds."""

    seconds = 0.0

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return super().monotonic() + self.seconds


@asynccontextmanager
async def serving(
    clock: SystemClock | None = None, *, clients: Path | None = None
) -> AsyncIterator[Endpoint]:
    """Two nodes, and an API server that is out of reach."""
    clock = clock or SystemClock()
    options = EndpointOptions(ca=Path(), ca_key=Path(), exporter_port=0)
    tls = ssl.create_default_context()
    nowhere = "https://127.0.0.1:1"
    async with Wire(nowhere, tls=tls, clock=clock, random=Random(1), say=lambda _text: None) as wire:
        endpoint = Endpoint(
            options,
            certificates=Certificates(CA, clients=clients),
            wire=wire,
            clock=clock,
            say=lambda _text: None,
        )
        endpoint.attend(a_machine("w01", FIRST), {})
        endpoint.attend(a_machine("w02", SECOND), {})
        running = asyncio.create_task(endpoint.run(press=lambda _node, _pressed: None))
        try:
            yield endpoint
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def trusting() -> ssl.SSLContext:
    return ssl.create_default_context(cadata=CA.certificate.public_bytes(serialization.Encoding.PEM).decode())


async def got(url: str, *, by: Pair | None = None) -> tuple[int, bytes]:
    guard = aiohttp.ClientTimeout(total=GUARD_SECONDS)
    tls = trusting()
    if by is not None:
        tls.load_cert_chain(by.certificate, by.key)
    async with (
        aiohttp.ClientSession(timeout=guard) as session,
        session.get(url, ssl=tls, allow_redirects=False) as answer,
    ):
        return answer.status, await answer.read()


def summary_of(endpoint: Endpoint, address: str = FIRST) -> str:
    return f"https://{address}:{endpoint.port}/stats/summary"


def metrics_of(endpoint: Endpoint, address: str = FIRST) -> str:
    return f"http://{address}:{endpoint.exporter_port}/metrics"


def break_first(endpoint: Endpoint, fault: Fault, *, on: EndpointName = "kubelet") -> None:
    endpoint.set_faults("w01", {on: fault})


async def test_who_shows_no_token_is_nobody() -> None:
    async with serving() as endpoint:
        assert await got(summary_of(endpoint)) == (401, b"Unauthorized")


async def test_who_shows_a_certificate_of_the_cluster_is_its_common_name(tmp_path: Path) -> None:
    pki = Pki(tmp_path)
    pki.create()
    async with serving(clients=pki.ca.certificate) as endpoint:
        status, said = await got(summary_of(endpoint), by=pki.kubelet_client)
        assert status == 500, "only the API server knows what that user may do"
        assert b"user=system:kube-apiserver-kubelet-client, verb=get" in said
        assert await got(summary_of(endpoint)) == (401, b"Unauthorized")
        with pytest.raises((aiohttp.ClientError, ssl.SSLError)):
            await got(summary_of(endpoint), by=pki.front_proxy_client)


async def test_what_is_asked_is_counted_whatever_becomes_of_it() -> None:
    async with serving() as endpoint:
        break_first(endpoint, Fault(kind="hang"))
        hanging = [asyncio.create_task(got(summary_of(endpoint))) for _ in range(2)]
        await got(summary_of(endpoint, SECOND))
        async with asyncio.timeout(GUARD_SECONDS):
            while endpoint.tally.most_of_a_node < 2:  # noqa: ASYNC110 - a tally sets no asyncio.Event
                await asyncio.sleep(0.01)
        for each in hanging:
            each.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)
        assert endpoint.tally.requests == {"/stats/summary": 3}
        assert endpoint.connections == 3


async def test_each_node_has_a_certificate_for_its_own_address_and_name() -> None:
    async with serving() as endpoint:
        for name, address in (("w01", FIRST), ("w02", SECOND)):
            reader, writer = await asyncio.open_connection(address, endpoint.port, ssl=trusting())
            names = writer.get_extra_info("peercert")["subjectAltName"]
            assert names == (("DNS", name), ("IP Address", address))
            writer.close()
            await writer.wait_closed()
            assert await reader.read() == b""


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [("wrong_certificate", "IP address mismatch"), ("unknown_authority", "unable to get local issuer|self")],
)
async def test_a_wrong_certificate_is_wrong_on_that_node_only_and_until_it_is_healed(
    kind: FaultKind, sentence: str
) -> None:
    async with serving() as endpoint:
        break_first(endpoint, Fault(kind=kind))
        with pytest.raises(aiohttp.ClientConnectorCertificateError, match=sentence):
            await got(summary_of(endpoint))
        assert (await got(summary_of(endpoint, SECOND)))[0] == 401
        endpoint.set_faults("w01", {})
        assert (await got(summary_of(endpoint)))[0] == 401


async def test_nobody_answers_at_the_address_of_no_node_or_of_a_stopped_one() -> None:
    async with serving() as endpoint:
        reader, writer = await asyncio.open_connection(FIRST, endpoint.port, ssl=trusting())
        endpoint.desert("w01")
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await asyncio.wait_for(reader.readexactly(1), GUARD_SECONDS)
        writer.close()
        for address in (FIRST, NOBODY):
            for url in (summary_of(endpoint, address), metrics_of(endpoint, address)):
                with pytest.raises(aiohttp.ClientError):
                    await got(url)
        assert (await got(metrics_of(endpoint, SECOND)))[0] == 200


async def test_only_this_machine_reaches_the_port() -> None:
    async with serving() as endpoint:
        assert (await got(metrics_of(endpoint)))[0] == 200
        device = endpoint._kubelets._socket.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16)
        assert device.rstrip(b"\0") == b"lo"


async def test_refusals_by_fault_need_no_api_server() -> None:
    async with serving() as endpoint:
        break_first(endpoint, Fault(kind="forbidden"))
        code, text = await got(summary_of(endpoint))
        assert (code, text.startswith(b"Forbidden (user=")) == (403, True)
        break_first(endpoint, Fault(kind="unauthorized"))
        assert (await got(summary_of(endpoint)))[0] == 401


async def test_a_node_that_hangs_keeps_nobody_else_waiting_and_forgets_who_hung_up() -> None:
    async with serving() as endpoint:
        break_first(endpoint, Fault(kind="hang"), on="exporter")
        hanging = asyncio.create_task(got(metrics_of(endpoint)))
        assert (await got(metrics_of(endpoint, SECOND)))[0] == 200
        assert not hanging.done()
        hanging.cancel()
        await asyncio.gather(hanging, return_exceptions=True)
        endpoint.set_faults("w01", {})
        assert (await got(metrics_of(endpoint)))[0] == 200


@pytest.mark.slow
async def test_a_slow_node_answers_late_and_a_trickling_one_byte_by_byte() -> None:
    async with serving() as endpoint:
        loop = asyncio.get_running_loop()
        break_first(endpoint, Fault(kind="slow", seconds=0.2), on="exporter")
        began = loop.time()
        _, slow = await got(metrics_of(endpoint))
        assert loop.time() - began >= 0.2
        break_first(endpoint, Fault(kind="trickle", seconds=0.0), on="exporter")
        _, trickled = await got(metrics_of(endpoint))
        assert trickled.count(b"\n") == slow.count(b"\n")
        break_first(endpoint, Fault(kind="trickle", seconds=600), on="exporter")
        async with aiohttp.ClientSession() as session, session.get(metrics_of(endpoint)) as answer:
            assert len(await answer.content.readany()) == 1


async def test_an_exporter_breaks_alone() -> None:
    async with serving() as endpoint:
        break_first(endpoint, Fault(kind="server_error"), on="exporter")
        assert (await got(metrics_of(endpoint)))[0] == 500
        assert (await got(summary_of(endpoint)))[0] == 401
        break_first(endpoint, Fault(kind="redirect"), on="exporter")
        assert (await got(metrics_of(endpoint)))[0] == 302


async def test_frozen_numbers_stay_as_they_were_until_the_node_is_healed() -> None:
    clock = Ahead()
    async with serving(clock) as endpoint:
        for name in ("w01", "w02"):
            endpoint.lose_memory(name, OsLeak.model_validate({"growth_per_minute": "10Mi"}))
        break_first(endpoint, Fault(kind="frozen"), on="exporter")
        first, other = await got(metrics_of(endpoint)), await got(metrics_of(endpoint, SECOND))
        clock.seconds = 600.0
        assert await got(metrics_of(endpoint)) == first
        assert await got(metrics_of(endpoint, SECOND)) != other
        endpoint.set_faults("w01", {})
        assert await got(metrics_of(endpoint)) != first
