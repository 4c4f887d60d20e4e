"""What the operator gives to Kopf: two handlers, a login and the feed, and settings with their reasons."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

import kopf

from winpool.api.keys import CRD_NAME, GROUP, KOPF_FINALIZER, PLURAL, VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import aiohttp

LOGIN_PAUSE_SECONDS: Final = 5.0
"""Least time between two logins. Kopf logs in again after every 401 and does not wait by itself: with
credentials that stay invalid it would send hundreds of requests a second."""


def make_registry(
    *,
    accept: Callable[[Mapping[str, Any]], None],
    forget: Callable[[Mapping[str, Any]], None],
    server: str,
    make_session: Callable[[], aiohttp.ClientSession],
) -> kopf.OperatorRegistry:
    """Return a fresh registry with the two handlers: login, and the feed.

    ``accept`` gets each object that exists, ``forget`` each that was deleted.
    """
    registry = kopf.OperatorRegistry()
    last_login = float("-inf")

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:
        nonlocal last_login
        await asyncio.sleep(max(0.0, last_login + LOGIN_PAUSE_SECONDS - time.monotonic()))
        last_login = time.monotonic()
        return kopf.AiohttpSession(server=server, aiohttp_session=make_session())

    @kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)
    async def feed(event: kopf.RawEvent, **_: Any) -> None:
        if event["type"] == "DELETED":
            forget(event["object"])
        else:
            accept(event["object"])

    return registry


def make_settings() -> kopf.OperatorSettings:
    """Return Kopf's settings, each with its reason."""
    settings = kopf.OperatorSettings()
    # By default, Kopf ends the whole process 600 s after the feed first failed, even if it has recovered.
    settings.process.ultimate_exiting_timeout = None
    # Without scanning, Kopf never watches a CRD that is missing at the start. Scanning is restricted to ours.
    settings.scanning.disabled = False
    settings.watching.field_selectors["apiextensions.k8s.io/v1", "customresourcedefinitions"] = (
        f"metadata.name={CRD_NAME}"
    )
    # A few quick tries; after them the supervisor starts the feed again, with its own pauses.
    settings.networking.error_backoffs = (0.5, 1, 2)
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 10
    # Less than the 5 minutes after which some load balancers cut a connection without a notice.
    settings.watching.server_timeout = 290
    settings.watching.connect_timeout = 10
    # Bookmarks come every minute, so 70 s of silence is a dead connection.
    settings.watching.inactivity_timeout = 70
    settings.watching.chunk_size = 500
    # kubectl describe does not show Kopf's events of cluster-scoped objects; we write our own.
    settings.posting.enabled = False
    settings.peering.standalone = True
    # Kopf removes this finalizer from every object that has it, so it must never be ours.
    settings.persistence.finalizer = KOPF_FINALIZER
    return settings
