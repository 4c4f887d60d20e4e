"""What the API server itself says to a pool: a create as a dry run, which stores nothing.

A create also where the pool exists already: validation and admission come before the name is looked
up, so AlreadyExists means that the API server had nothing against it.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final

from winpool.api.keys import GROUP, PLURAL, VERSION
from winpool.cli.reasons import NotAskedError, reason_of
from winpool.kube.client import Transport
from winpool.kube.credentials import load_connection
from winpool.kube.errors import AlreadyExists, ApiError, Invalid
from winpool.kube.request import Request

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PATH: Final = (
    f"/apis/{GROUP}/{VERSION}/{PLURAL}?dryRun=All&fieldValidation=Strict&fieldManager=kubectl-winpool"
)

_REFUSES: Final = "is invalid: "
"""What stands before the faults in the answer to an invalid object; they are told by themselves."""


def ask(
    pools: Sequence[Mapping[str, Any]], *, kubeconfig: str | None, context: str | None
) -> tuple[str | None, ...]:
    """Return for each pool what the API server has against it, None where that is nothing.

    Raises NotAskedError where there are no usable credentials, no answer, or no right to ask.
    """
    try:
        return asyncio.run(_ask(pools, kubeconfig=kubeconfig, context=context))
    except ApiError as error:
        raise NotAskedError(reason_of(error)) from error


async def _ask(
    pools: Sequence[Mapping[str, Any]], *, kubeconfig: str | None, context: str | None
) -> tuple[str | None, ...]:
    connection = await load_connection(kubeconfig=kubeconfig, context=context)
    async with Transport(connection) as transport:
        return tuple([await _refusal(pool, transport=transport) for pool in pools])


async def _refusal(pool: Mapping[str, Any], *, transport: Transport) -> str | None:
    body = json.dumps(pool).encode()
    try:
        await transport.request(Request(verb="create", resource=PLURAL, path=_PATH, body=body))
    except AlreadyExists:
        return None
    except Invalid as error:
        return faults_of(error.message)
    return None


def faults_of(message: str) -> str:
    """Return the faults in the API server's answer to an invalid object, or the answer where it is another.

    Several come as a list in brackets. ``cluster/`` keeps the first 1024 characters of an answer, so
    the bracket at its end may be missing, and faults with it.
    """
    _, refused, faults = message.partition(_REFUSES)
    if not refused:
        return message
    if not faults.startswith("["):
        return faults
    told = faults.removeprefix("[")
    return told.removesuffix("]") if told.endswith("]") else f"{told}… and more"
