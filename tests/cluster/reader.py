"""The token that kubelets are shown, got as the operator gets it: by its own account and transport."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from cluster.door import a_transport
from harness.documents import ROOT
from testbed.cluster import Testbed
from winpool.kube.backoff import Backoff
from winpool.kube.tokens import ReaderToken

COMPONENT: Final = ROOT / "deploy" / "components" / "memory"
RIGHTS: Final = str(COMPONENT / "memory-rights.yaml")
ACCOUNT: Final = str(COMPONENT / "kubelet-reader.yaml")


def asked(testbed: Testbed) -> tuple[str | None, str]:
    """Ask for the token; return it, and what is missing where there is none."""

    async def ask() -> tuple[str | None, str]:
        async with a_transport(testbed.kubeconfig("winpool")) as transport:
            token = ReaderToken(transport, monotonic=time.monotonic, backoff=Backoff(first=0.1, cap=0.1))
            try:
                return await token(), token.problem
            finally:
                await token.close()

    return asyncio.run(ask())


def token_of(testbed: Testbed) -> str:
    """Return a token, which the cluster gives."""
    found, problem = asked(testbed)
    assert found, problem
    return found
