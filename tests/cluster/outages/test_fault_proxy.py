"""A fault proxy whose API server goes away."""

from __future__ import annotations

import ssl

import pytest

from cluster.faults.client import BROKEN, Client
from testbed.cluster import Testbed
from testbed.faults import FaultProxy


@pytest.mark.nightly
def test_the_api_server_gone_looks_like_a_connection_broken_off(fragile: Testbed) -> None:
    with FaultProxy(fragile) as proxy:
        tls = ssl.create_default_context(cafile=str(fragile.ca_file))
        with Client(proxy.server, tls=tls, token="nobody") as client:
            assert client.get("/version").status == 401
            fragile.component("apiserver").kill()
            with pytest.raises(BROKEN):
                client.get("/version")
            assert "Error" in proxy.wait_for(lambda each: each.done, count=2).problem
            fragile.component("apiserver").start()
            fragile.component("apiserver").wait_ready()
            assert client.get("/version").status == 401
