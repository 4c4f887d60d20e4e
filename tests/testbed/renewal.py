"""Keeps the operator's token file fresh."""

import asyncio
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from testbed import tokens
from testbed.health import Probe
from testbed.paths import write_atomically

log = logging.getLogger("testbed.renewal")

RETRY_SECONDS: Final = 0.5
"""Until the ServiceAccount exists, or the API server answers again: soon, for a person is waiting."""
RENEW_FRACTION: Final = 0.5
"""Renewed at half its life, so that a client always holds one that is good for as long again."""


class TokenRenewal:
    """Writes a token for the operator's ServiceAccount once that exists, and renews it."""

    def __init__(self, probe: Probe, *, key_file: Path, token_file: Path, lifetime_seconds: float) -> None:
        self._probe = probe
        self._key_file = key_file
        self._token_file = token_file
        self._lifetime_seconds = lifetime_seconds
        self._now = asyncio.Event()
        self.written = False

    def renew_now(self, *, lifetime_seconds: float | None = None) -> None:
        """Write a new token at once; a lifetime given here also holds for all later ones."""
        if lifetime_seconds is not None:
            self._lifetime_seconds = lifetime_seconds
        self._now.set()

    async def run(self) -> None:
        """Renew until cancelled."""
        while True:
            self._now.clear()
            delay = self._lifetime_seconds * RENEW_FRACTION if await self._renew() else RETRY_SECONDS
            try:
                async with asyncio.timeout(delay):
                    await self._now.wait()
            except TimeoutError:
                continue

    async def _renew(self) -> bool:
        uid = await self._probe.service_account_uid(namespace=tokens.NAMESPACE, name=tokens.SERVICE_ACCOUNT)
        if uid is None:
            return False
        token = tokens.mint(
            key_file=self._key_file, uid=uid, now=datetime.now(UTC), lifetime_seconds=self._lifetime_seconds
        )
        write_atomically(self._token_file, token)
        if not self.written:
            log.info("wrote a token for %s to %s", tokens.subject(), self._token_file)
        self.written = True
        return True
