"""Asks the API server for the token that kubelets are shown, and whose a token is that someone else shows.

A program that listens at the address of a node reads the token that is sent there. So it is never the
operator's own, but that of the ServiceAccount ``winpool-kubelet-reader``, by TokenRequest, which may read
statistics of nodes and nothing else. It is for the API server's own audience, because kubelets review a token
at the API server without naming another one. It lives as short as the API server permits, and dies with its
ServiceAccount: the API server compares the UID in it. It cannot be bound to the Pod of the operator, since
that runs as another ServiceAccount. It is kept in memory only, and no message has it.
Source: https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-request-v1/

A review of another's token is two requests: a TokenReview, and for the user that it names a
SubjectAccessReview. Neither creates anything. The TokenReview names no audience, so a token must be one for
the API server itself. Anyone who reaches our port can send tokens, so the number of reviews is limited (P7).
A token is never part of a message, and is not kept.

Apart from that, ``review_deletions`` asks whether the operator itself may delete pods.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Final, Literal

import msgspec

from winpool.api.keys import MEMORY_MANIFESTS, NAMESPACE, OPERATOR_USER, READER_ACCOUNT
from winpool.kube.backoff import Backoff, Budgets, Outage
from winpool.kube.client import Transport
from winpool.kube.errors import (
    ApiError,
    Forbidden,
    NoAnswer,
    NotFound,
    Permission,
    StreamGarbled,
    explain,
    explained,
)
from winpool.kube.request import Request, Send
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


def reader_request() -> Request:
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
            found = _read(await self.transport.request(reader_request()))
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
        raise StreamGarbled(f"{reader_request().label}: the answer is not a TokenRequest") from None
    if found.spec.expiration_seconds < LIFE_SECONDS or not found.status.token:
        raise StreamGarbled(f"{reader_request().label}: the answer has no token that lives ten minutes")
    return found


Verdict = Literal["Permitted", "Forbidden", "Invalid", "Failed", "RateLimited"]
"""``Invalid``: the token is of no user. ``Failed``: the API server did not say. ``RateLimited``: it was not
asked, since there are too many reviews."""

AUTHENTICATION: Final = "authentication.k8s.io/v1"
AUTHORIZATION: Final = "authorization.k8s.io/v1"

REVIEW_SECONDS: Final = 5.0
"""For both requests. A Prometheus waits 10 s for a scrape by default, and should read why it failed. The API
server needs milliseconds; a webhook that it asks may need a second."""

REVIEW_BYTES: Final = 1024 * 1024
"""Of an answer, which repeats the token (4 kB at most) and has the groups of its user, of 253 characters
each."""

PER_SECOND: Final = 5.0
BURST: Final = 20
"""Reviews of all tokens together. Ten scrapers, each with a review a minute and a new token every hour, need
one in six seconds. The API server itself answers hundreds a second."""

KEPT_FOR_KNOWN: Final = 10
"""Of the burst, for tokens that were permitted in their last review. New tokens, which may be a flood of
invented ones, cannot use them."""

OF_ADDRESS_PER_SECOND: Final = 1.0
OF_ADDRESS_BURST: Final = 5
"""Reviews of new tokens from one address: a scraper gets a new token at most every few minutes. A client that
invents tokens uses up its own reviews first. The four addresses that can fill the port (``serve``) do not use
up those of all."""

IN_FLIGHT: Final = 8
"""Reviews at once, of the 64 connections to the API server. So a slow API server keeps few of them busy."""

IN_FLIGHT_KEPT: Final = 4
"""Of these, for tokens that were permitted in their last review."""

_QUOTED: Final = 16
"""Characters of a token that do not occur in a message by chance. A message may have been cut in the middle
of a token. A shorter text is no token of Kubernetes, and could be sent to hide messages."""


class _User(Base):
    """authentication/v1 UserInfo: all of it is part of the question what the user may do."""

    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _TokenStatus(Base):
    authenticated: bool = False
    user: _User | None = None


class _TokenReview(Base):
    kind: Literal["TokenReview"]
    api_version: Literal["authentication.k8s.io/v1"]
    status: _TokenStatus


class _AccessStatus(Base):
    allowed: bool


class _AccessReview(Base):
    kind: Literal["SubjectAccessReview", "SelfSubjectAccessReview"]
    api_version: Literal["authorization.k8s.io/v1"]
    status: _AccessStatus


_token_review: Final = msgspec.json.Decoder(_TokenReview)
_access_review: Final = msgspec.json.Decoder(_AccessReview)


def review_request(token: str) -> Request:
    """Return the request that asks whose ``token`` is."""
    body = {"apiVersion": AUTHENTICATION, "kind": "TokenReview", "spec": {"token": token}}
    return _create("tokenreviews", group_version=AUTHENTICATION, body=body)


def access_request(user: _User, *, path: str) -> Request:
    """Return the request that asks whether ``user`` may get ``path``."""
    spec = {
        "user": user.username,
        "uid": user.uid,
        "groups": user.groups or [],
        "extra": user.extra or {},
        "nonResourceAttributes": {"path": path, "verb": "get"},
    }
    body = {"apiVersion": AUTHORIZATION, "kind": "SubjectAccessReview", "spec": spec}
    return _create("subjectaccessreviews", group_version=AUTHORIZATION, body=body)


_OWN_REVIEW: Final = "selfsubjectaccessreviews"


async def review_deletions(send: Send) -> None:
    """Raise Forbidden, with the permission, where the operator may not delete pods of all namespaces.

    Of other rights a refusal shows that they are missing (``errors``). This one is used at the end of a
    drain, an hour after the cordon. Raises other ApiErrors where the API server does not say it.
    """
    asked = {"verb": "delete", "resource": "pods"}
    body = {
        "apiVersion": AUTHORIZATION,
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    answer = await send(_create(_OWN_REVIEW, group_version=AUTHORIZATION, body=body))
    try:
        may = _access_review.decode(answer).status
    except BROKEN as error:
        raise StreamGarbled(f"create {_OWN_REVIEW}: unreadable answer: {error}") from None
    if not may.allowed:
        refusal = Forbidden("the operator may not delete pods")
        refusal.permission = Permission(
            verb="delete", resource="pods", group="", namespace=None, user=OPERATOR_USER
        )
        raise refusal


def _create(resource: str, *, group_version: str, body: Mapping[str, object]) -> Request:
    return Request(
        verb="create",
        resource=resource,
        path=f"/apis/{group_version}/{resource}",
        body=msgspec.json.encode(body),
        reply_limit=REVIEW_BYTES,
    )


class Reviews:
    """Reviews bearer tokens for those who want to get ``path``."""

    def __init__(self, transport: Transport, *, path: str, monotonic: Callable[[], float]) -> None:
        self._transport = transport
        self._path = path
        self._of_all = Budgets(per_second=PER_SECOND, burst=BURST, monotonic=monotonic)
        self._of_address = Budgets(
            per_second=OF_ADDRESS_PER_SECOND, burst=OF_ADDRESS_BURST, monotonic=monotonic
        )
        self._in_flight = 0
        self._outage = Outage(
            f"reviews of the tokens that are sent to {path}",
            log,
            monotonic,
            f"{path} answers 503 until a token can be reviewed, except to tokens that were "
            "permitted a short time ago",
        )

    async def review(self, token: str, *, address: str, known: bool) -> Verdict:
        """Return what the API server says of ``token``; it never raises an ApiError.

        ``address`` is where the token came from. ``known`` says that it was permitted in its last review.
        """
        if not self._has_room(address=address, known=known):
            return "RateLimited"
        self._in_flight += 1
        try:
            async with asyncio.timeout(REVIEW_SECONDS):
                verdict = await self._asked(token)
        except TimeoutError:
            self._outage.failed(NoAnswer(f"no answer within {REVIEW_SECONDS:.0f} s"))
            return "Failed"
        except ApiError as error:
            self._outage.failed(_shown(error, token=token))
            return "Failed"
        finally:
            self._in_flight -= 1
        self._outage.ended()
        return verdict

    def _has_room(self, *, address: str, known: bool) -> bool:
        if known:
            return self._in_flight < IN_FLIGHT and self._of_all.take("")
        if self._in_flight >= IN_FLIGHT - IN_FLIGHT_KEPT:
            return False
        return self._of_address.take(address) and self._of_all.take("", leaving=KEPT_FOR_KNOWN)

    async def _asked(self, token: str) -> Verdict:
        answer = await self._transport.request(review_request(token))
        try:
            who = _token_review.decode(answer).status
        except BROKEN:
            # The decoder's own message may quote the answer, which contains the token.
            raise StreamGarbled("create tokenreviews: the answer is not a TokenReview") from None
        if not who.authenticated or who.user is None or not who.user.username:
            return "Invalid"
        answer = await self._transport.request(access_request(who.user, path=self._path))
        try:
            may = _access_review.decode(answer).status
        except BROKEN:
            raise StreamGarbled(
                "create subjectaccessreviews: the answer is not a SubjectAccessReview"
            ) from None
        return "Permitted" if may.allowed else "Forbidden"


def _shown(error: ApiError, *, token: str) -> ApiError:
    """Return the error to log: with the rule that is missing, and never with ``token`` in it."""
    if len(token) >= _QUOTED and token[:_QUOTED] in error.message:
        return ApiError(
            "create tokenreviews: the answer is an error that repeats the token, so it is not shown",
            status=error.status,
            reason=error.reason,
        )
    return explained(error)
