"""The supervisor's own questions to the cluster: is it healthy, does a ServiceAccount exist."""

import ssl
from types import TracebackType
from typing import Final, Self

import aiohttp

from testbed.kubeconfig import SUPERVISOR
from testbed.pki import Pki

PROBE_TIMEOUT_SECONDS: Final = 2.0
"""A component that needs longer to say that it is well is not well; `status` waits no longer either."""


class Probe:
    """One HTTP session with the cluster's authority and the supervisor's certificate."""

    def __init__(self, *, server: str, pki: Pki) -> None:
        self._server = server
        context = ssl.create_default_context(cafile=str(pki.ca.certificate))
        pair = pki.pair(f"user-{SUPERVISOR}")
        context.load_cert_chain(pair.certificate, pair.key)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                ssl=context, force_close=True
            ),  # a probe must meet the new process
            timeout=aiohttp.ClientTimeout(total=PROBE_TIMEOUT_SECONDS),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._session.close()

    async def healthy(self, url: str | None) -> bool:
        """Tell whether a health URL answers 200; a component without one is taken at its word."""
        if url is None:
            return True
        try:
            async with self._session.get(url) as response:
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    async def service_account_uid(self, *, namespace: str, name: str) -> str | None:
        """Return the UID of a ServiceAccount; None where it does not exist or nobody answers."""
        url = f"{self._server}/api/v1/namespaces/{namespace}/serviceaccounts/{name}"
        try:
            async with self._session.get(url) as response:
                if response.status != 200:
                    return None
                account = await response.json()
        except (aiohttp.ClientError, TimeoutError):
            return None
        uid: str = account["metadata"]["uid"]
        return uid
