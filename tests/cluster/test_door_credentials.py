"""Tokens that change, and rights that come late: no restart is needed for either."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.door import a_node_manifest, a_reflector, a_transport, until
from harness.clock import Seconds
from harness.world import World
from winpool.kube.client import Transport
from winpool.kube.credentials import load_connection
from winpool.kube.errors import CredentialsError, Forbidden, Unauthorized, explain
from winpool.kube.request import Request
from winpool.kube.writer import Writer

LIST = Request(verb="list", resource="nodes", path="/api/v1/nodes?limit=1")
WHO_AM_I = Request(
    verb="create",
    resource="selfsubjectreviews",
    path="/apis/authentication.k8s.io/v1/selfsubjectreviews",
    body=b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}',
)
EXPIRED_SECONDS = -3600.0
"""Well beyond the leeway of about a minute that the API server grants."""


def put(token: Path, text: str) -> None:
    """Renew the token file."""
    token.write_text(text)


@pytest.fixture
def token(world: World, tmp_path: Path) -> Path:
    return tmp_path / "token"


@pytest.fixture
def kubeconfig(world: World, tmp_path: Path, token: Path) -> Path:
    """The operator's kubeconfig, with a token file that is this test's own."""
    text = world.testbed.kubeconfig("winpool").read_text()
    path = tmp_path / "kubeconfig"
    path.write_text(text.replace(str(world.testbed.layout.token), str(token)))
    assert str(token) in path.read_text()
    return path


async def test_a_token_that_expires_is_replaced_at_the_first_401(
    world: World, kubeconfig: Path, token: Path
) -> None:
    put(token, world.testbed.mint_token(lifetime_seconds=EXPIRED_SECONDS))
    async with a_transport(kubeconfig) as transport:
        with pytest.raises(Unauthorized):
            await transport.request(LIST)
        assert transport.stats.requests["list", "nodes", "401"] == 1, "the same token is not tried twice"
        put(token, world.testbed.mint_token(lifetime_seconds=600) + "\n")
        await transport.request(LIST)
        put(token, "not.a.token")
        await transport.request(LIST)  # what is on disk does not matter while what we hold is good
    assert dict(transport.stats.requests) == {("list", "nodes", "401"): 2, ("list", "nodes", "200"): 2}


async def test_a_guest_of_the_transport_needs_no_login_of_its_own(
    world: World, kubeconfig: Path, token: Path
) -> None:
    put(token, world.testbed.mint_token(lifetime_seconds=EXPIRED_SECONDS))
    url = f"{world.testbed.server}/apis/winpool.dev/v1alpha1/windowsnodepools?limit=1"
    async with a_transport(kubeconfig) as transport:
        async with transport.guest_session() as guest:
            async with guest.get(url) as answer:
                assert answer.status == 401
            put(token, world.testbed.mint_token(lifetime_seconds=600))
            async with guest.get(url) as answer:
                assert answer.status == 200
        await transport.request(LIST)  # the guest has left, the connections are still ours


async def test_a_reflector_waits_for_a_good_token_and_then_works(
    world: World, kubeconfig: Path, token: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_transport(kubeconfig) as transport, a_reflector(transport, sync=False) as reflected:
        reflector = reflected.reflector
        await until(lambda: isinstance(reflector.last_error, CredentialsError), what="no token is told")
        assert not transport.stats.requests, "nothing is asked as an anonymous user"
        put(token, world.testbed.mint_token(lifetime_seconds=EXPIRED_SECONDS))
        await until(lambda: isinstance(reflector.last_error, Unauthorized), what="a bad token is told")
        assert not reflector.synced
        good = world.testbed.mint_token(lifetime_seconds=600)
        put(token, good)
        await until(lambda: reflector.synced and reflector.last_error is None, what="it works")
        assert good not in caplog.text
    asked = transport.stats.requests
    assert asked["list", "nodes", "401"] <= 5, "pauses grow, there is no storm"


async def test_a_watch_outlives_its_token(world: World, kubeconfig: Path, token: Path) -> None:
    put(token, world.testbed.mint_token(lifetime_seconds=600))
    name = f"w-{world.suffix}"
    async with a_transport(kubeconfig) as transport, a_reflector(transport) as reflected:
        put(token, world.testbed.mint_token(lifetime_seconds=EXPIRED_SECONDS))
        manifest = a_node_manifest(name, labels=world.selector)
        await asyncio.to_thread(world.kubectl, "create", "-f", "-", stdin=manifest)
        await until(lambda: name in reflected.reflector.objects, what="events still come")
        await asyncio.to_thread(world.kubectl, "delete", "node", name)
        await until(lambda: name not in reflected.reflector.objects, what="all of them")


@pytest.fixture
def nobody(world: World) -> Iterator[str]:
    """A user without any rights of its own, by name."""
    yield f"nobody-{world.suffix}"
    world.kubectl("delete", "clusterrolebinding", f"late-{world.suffix}", "--ignore-not-found")


async def test_rights_that_come_late_are_enough(world: World, nobody: str) -> None:
    kubeconfig = world.testbed.user_kubeconfig(nobody)
    async with a_transport(kubeconfig) as transport, a_reflector(transport, sync=False) as reflected:
        reflector = reflected.reflector
        error = await until(lambda: reflector.last_error, what="the refusal is told")
        assert isinstance(error, Forbidden)
        assert explain(error) == (
            f"{nobody} may not list nodes in the whole cluster. Add the rule"
            ' {apiGroups: [""], resources: ["nodes"], verbs: ["list"]} to a ClusterRole that is bound to it.'
        )
        with pytest.raises(Forbidden, match="cannot list resource"):
            await Writer(transport).list_pools(tuple)
        binding = ("create", "clusterrolebinding", f"late-{world.suffix}")
        await asyncio.to_thread(world.kubectl, *binding, "--clusterrole=winpool", f"--user={nobody}")
        await until(lambda: reflector.synced and reflector.last_error is None, what="it works")
        await Writer(transport).list_pools(tuple)


async def who_we_are(transport: Transport) -> dict[str, Any]:
    """Return as whom the API server knows us."""
    answer: dict[str, Any] = json.loads(await transport.request(WHO_AM_I))
    user: dict[str, Any] = answer["status"]["userInfo"]
    return user


async def test_a_client_certificate_that_is_renewed_is_shown_without_a_restart(world: World) -> None:
    name, clock = f"renewed-{world.suffix}", Seconds()
    kubeconfig = world.testbed.user_kubeconfig(name, groups=["before"])
    connection = await load_connection(kubeconfig=str(kubeconfig), monotonic=clock)
    async with Transport(connection) as transport:
        assert set((await who_we_are(transport))["groups"]) == {"before", "system:authenticated"}
        world.testbed.user_kubeconfig(name, groups=["after"])
        clock.now += 10
        assert set((await who_we_are(transport))["groups"]) == {"after", "system:authenticated"}


async def test_a_kubeconfig_that_says_as_makes_us_somebody_else(world: World, tmp_path: Path) -> None:
    config = yaml.safe_load(world.testbed.kubeconfig("admin").read_text())
    config["users"][0]["user"] |= {
        "as": "jane",
        "as-uid": "u-1",
        "as-groups": ["dev", "ops"],
        "as-user-extra": {"example.com/50%": ["a", "b"]},
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    async with a_transport(path) as transport:
        told = await who_we_are(transport)
        assert (told["username"], told["uid"]) == ("jane", "u-1")
        assert set(told["groups"]) == {"dev", "ops", "system:authenticated"}
        assert told["extra"]["example.com/50%"] == ["a", "b"]
        with pytest.raises(Forbidden, match='User "jane" cannot list'):
            await transport.request(LIST)
        async with (
            transport.guest_session() as guest,
            guest.get(f"{world.testbed.server}/api/v1/nodes") as answer,
        ):
            assert answer.status == 403
