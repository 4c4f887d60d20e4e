"""The token that kubelets are shown: that of the ServiceAccount ``winpool-kubelet-reader``, by TokenRequest.

A program that listens at the address of a node reads the token that is sent there. So it is never the
operator's own, but that of an account that may read statistics of nodes and nothing else. It is for the API
server's own audience, because kubelets review a token at the API server without naming another one.

It lives as short as the API server permits, and dies with its ServiceAccount: the API server compares the UID
in it. It cannot be bound to the Pod of the operator, since that runs as another ServiceAccount.

It is kept in memory only, and no message has it.
Source: https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-request-v1/
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Final, Literal

import msgspec

from winpool.api.keys import MEMORY_MANIFESTS, NAMESPACE, READER_ACCOUNT
from winpool.kube.backoff import Backoff, Outage
from winpool.kube.client import Transport
from winpool.kube.errors import ApiError, Forbidden, NotFound, StreamGarbled, explain, explained
from winpool.kube.request import Request
from winpool.kube.wire import BROKEN, Base

log = logging.getLogger(__name__)

LIFE_SECONDS: Final = 600
"""What is asked for: the shortest life that the API server gives, so that a stolen one is of use for ten
minutes at most. A longer one would gain nothing: kubelets have it reviewed every two minutes, so without the
API server they accept none. An answer that names a shorter life is not of the API server.
https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-request-v1/"""

RENEWED_AT: Final = 0.8
"""The part of its life after which it is renewed, as the kubelet renews the tokens of Pods. The rest, two
minutes, is for attempts."""

EARLY_SECONDS: Final = 300.0
"""Between two renewals before that time, because kubelets refuse the token. A node that keeps failing is
polled within five minutes, so each has been shown the new token by then. However many kubelets refuse
whatever they are shown, this makes twelve requests an hour at most."""

LONGEST_PAUSE_SECONDS: Final = 60.0
"""Between two attempts: who adds a rule or the account that was missing waits a minute at most."""

WANTED_SECONDS: Final = 600.0
"""After so long without a poll no one needs it: twice the longest pause between two polls of a node."""

ANSWER_BYTES: Final = 64 * 1024
"""Of an answer: a token has some 1.5 kB."""

_BROUGHT_BY: Final = (
    f"Apply {MEMORY_MANIFESTS} of this version, or with the Helm chart set memory.enabled=true."
)


class _Spec(Base):
    expiration_seconds: int


class _Status(Base):
    token: str


class _TokenRequest(Base):
    """authentication/v1 TokenRequest. The server writes into ``spec`` how long the token lives."""

    kind: Literal["TokenRequest"]
    api_version: Literal["authentication.k8s.io/v1"]
    spec: _Spec
    status: _Status


_answer: Final = msgspec.json.Decoder(_TokenRequest)


def token_request() -> Request:
    """Return the request for a token of the reader. Without audiences it is for the API server."""
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": LIFE_SECONDS},
    }
    return Request(
        verb="create",
        resource="serviceaccounts/token",
        name=READER_ACCOUNT,
        path=f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{READER_ACCOUNT}/token",
        body=msgspec.json.encode(body),
        reply_limit=ANSWER_BYTES,
    )


@dataclass(eq=False)
class ReaderToken:
    """Returns the token to show to a kubelet, and renews it. Nothing is asked for before the first call.

    ``problem`` is the sentence of MissingPermission, empty where nothing is missing: a right of the operator,
    or the account. ``on_problem`` is called when it has changed. ``monotonic`` has to run on while the
    machine sleeps, since a token expires meanwhile.
    """

    transport: Transport
    _: KW_ONLY
    monotonic: Callable[[], float]
    on_problem: Callable[[], None] = lambda: None
    backoff: Backoff = field(default_factory=lambda: Backoff(cap=LONGEST_PAUSE_SECONDS))
    problem: str = field(default="", init=False)
    _token: str | None = field(default=None, init=False)
    _expires_at: float = field(default=float("-inf"), init=False)
    _due_at: float = field(default=float("-inf"), init=False)
    _early_at: float = field(default=float("-inf"), init=False)
    _wanted_at: float = field(default=float("-inf"), init=False)
    _renewal: asyncio.Task[None] | None = field(default=None, init=False)
    _answered: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    """Set once the renewal has had its first answer, or has ended."""

    def __post_init__(self) -> None:
        """Begin without a token."""
        what = f"the token of the ServiceAccount {NAMESPACE}/{READER_ACCOUNT}"
        self._outage = Outage(what, log, self.monotonic, "no kubelet is polled without it")

    async def __call__(self) -> str | None:
        """Return the token, None where there is none now; why is in the log, and in ``problem``.

        All who ask at once wait for the same answer. While a token is renewed, it is used on.
        """
        self._wanted_at = self.monotonic()
        if self._renewal is None and self._wanted_at >= self._due_at:
            self._answered.clear()
            self._renewal = asyncio.create_task(self._renew(), name="token of the kubelet reader")
        if self._present() is None:
            # Not the task itself: a poll that gives up waiting must not end the request for the others.
            await self._answered.wait()
        return self._present()

    def refused(self, token: str) -> None:
        """Renew the token with the next poll if it is this one, which most kubelets refuse.

        Until there is a new one it is used on: those that refuse it may be wrong.
        """
        now = self.monotonic()
        if token == self._token and now < self._due_at and now - self._early_at >= EARLY_SECONDS:
            self._due_at = self._early_at = now
            log.info(
                "most kubelets refuse the token of the ServiceAccount %s/%s; winpool asks for a new one",
                NAMESPACE,
                READER_ACCOUNT,
            )

    async def close(self) -> None:
        """End a request that is under way."""
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.gather(self._renewal, return_exceptions=True)

    def _present(self) -> str | None:
        return self._token if self.monotonic() < self._expires_at else None

    async def _renew(self) -> None:
        """Ask until there is a token, or no one has wanted one for a while.

        Polls of a node that fails are minutes apart. So they do not decide when this is tried again.
        """
        try:
            while (pause := await self._ask()) is not None:
                self._answered.set()
                await asyncio.sleep(pause)
                if self.monotonic() - self._wanted_at > WANTED_SECONDS:
                    return
        finally:
            self._renewal = None
            self._answered.set()

    async def _ask(self) -> float | None:
        """Ask once; return the pause before the next attempt, None where there is a token."""
        # Its life counts from before the request, so that it never ends earlier than is believed here.
        asked_at = self.monotonic()
        try:
            found = _read(await self.transport.request(token_request()))
        except ApiError as error:
            self._note(error)
            return self.backoff.next(asked=error.retry_after)
        self._token, self._expires_at = found.status.token, asked_at + LIFE_SECONDS
        self._due_at = asked_at + RENEWED_AT * LIFE_SECONDS
        self.backoff.reset()
        self._outage.ended()
        self._tell("")
        return None

    def _note(self, error: ApiError) -> None:
        self._outage.failed(explained(error, name=READER_ACCOUNT))
        if isinstance(error, Forbidden):
            self._tell(f"{explain(error, name=READER_ACCOUNT)} {_BROUGHT_BY}")
        elif isinstance(error, NotFound):
            self._tell(f"The ServiceAccount {NAMESPACE}/{READER_ACCOUNT} does not exist. {_BROUGHT_BY}")

    def _tell(self, problem: str) -> None:
        if problem != self.problem:
            self.problem = problem
            self.on_problem()


def _read(body: bytes | bytearray) -> _TokenRequest:
    """Read the answer. Raises StreamGarbled, without a word of the answer: it has the token."""
    try:
        found = _answer.decode(body)
    except BROKEN:
        raise StreamGarbled(f"{token_request().label}: the answer is not a TokenRequest") from None
    if found.spec.expiration_seconds < LIFE_SECONDS or not found.status.token:
        raise StreamGarbled(f"{token_request().label}: the answer has no token that lives ten minutes")
    return found
