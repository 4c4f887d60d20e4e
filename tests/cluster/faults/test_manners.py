"""How a proxy ends, what it does with faults in tests, and with an API server that is gone."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable

import pytest

from cluster.faults.client import BROKEN, GUARD_SECONDS, MAPS, Client, value_of
from testbed.cluster import Testbed
from testbed.faults import FaultError, FaultProxy, Record, call, delay, on, silence, stall


def test_it_ends_at_once_whatever_it_holds(testbed: Testbed, tester: str, name: str) -> None:
    tls = ssl.create_default_context(cafile=str(testbed.ca_file))
    with FaultProxy(testbed) as proxy:
        clients = [Client(proxy.server, tls=tls, token=tester) for _ in range(4)]
        proxy.add(on("patch"), stall())
        proxy.add(on("get"), stall(when="after"))
        proxy.add(on("delete"), delay(600))
        ask = [
            lambda: clients[0].patch(name, "new"),
            lambda: clients[1].get(f"{MAPS}/{name}"),
            lambda: clients[2].ask("DELETE", f"{MAPS}/{name}"),
        ]
        failed: list[BaseException] = []
        threads = [threading.Thread(target=_note_failure, args=(each, failed)) for each in ask]
        for thread in threads:
            thread.start()
        proxy.wait_for(lambda each: bool(each.actions), count=3)
        with clients[3].watch() as watch:
            watch.readline()
            proxy.add(on("watch"), silence())
            server = proxy.server
            begin = time.monotonic()
            proxy.__exit__(None, None, None)
            assert time.monotonic() - begin < 1
        for thread in threads:
            thread.join(timeout=GUARD_SECONDS)
        assert len(failed) == 3
        with pytest.raises(ConnectionRefusedError), Client(server, tls=tls, token=tester) as late:
            late.get(MAPS)
        for client in clients:
            client.__exit__()
    assert not [each for each in threading.enumerate() if each.name.startswith("fault-proxy")]
    assert value_of(testbed, name) == "old"


def _note_failure(function: Callable[[], object], failed: list[BaseException]) -> None:
    try:
        function()
    except BROKEN as error:
        failed.append(error)


def test_a_function_that_fails_fails_the_test(testbed: Testbed, tester: str, name: str) -> None:
    tls = ssl.create_default_context(cafile=str(testbed.ca_file))

    def fail(_: Record) -> None:
        raise LookupError("of the test's own making")

    def misuse() -> None:
        with FaultProxy(testbed) as proxy, Client(proxy.server, tls=tls, token=tester) as client:
            proxy.add(on("patch"), call(fail))
            with pytest.raises(BROKEN):
                client.patch(name, "new")

    with pytest.raises(FaultError, match="function that was given to the proxy failed") as raised:
        misuse()
    assert isinstance(raised.value.__cause__, LookupError)


def test_waiting_in_vain_shows_what_came(proxy: FaultProxy, client: Client, name: str) -> None:
    client.get(f"{MAPS}/{name}")
    with pytest.raises(FaultError, match=rf"1 get configmaps {name}: 200"):
        proxy.wait_for(on("patch"), seconds=0.05)
    proxy.clear()
    assert proxy.log == ()
