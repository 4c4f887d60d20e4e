"""Asks the API server whose a bearer token is, and whether that user may get a path.

These are two requests: a TokenReview, and for the user that it names a SubjectAccessReview. Neither creates
anything. The TokenReview names no audience, so a token must be one for the API server itself.

Anyone who reaches our port can send tokens, so the number of reviews is limited (P7). A token is never part
of a message, and is not kept.

Apart from that, ``review_deletions`` asks whether the operator itself may delete pods.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final, Literal

import msgspec

from winpool.api.keys import OPERATOR_USER
from winpool.kube.backoff import Budgets, Outage
from winpool.kube.client import Transport
from winpool.kube.errors import ApiError, Forbidden, NoAnswer, Permission, StreamGarbled, explained
from winpool.kube.request import Request, Send
from winpool.kube.wire import BROKEN, Base

log = logging.getLogger(__name__)

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


def token_request(token: str) -> Request:
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
        answer = await self._transport.request(token_request(token))
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
