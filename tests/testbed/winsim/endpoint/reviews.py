"""Who asks a kubelet, and whether that is allowed: TokenReview and SubjectAccessReview on the API server.

As in a kubelet with webhook authentication and authorization and no anonymous users: each kubelet asks as its
own node, and remembers the answers for a while.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import msgspec

from testbed.winsim.identities import node_identity
from testbed.winsim.wire import ApiError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Sequence

    from testbed.winsim.clock import Clock
    from testbed.winsim.wire import Wire

_TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
# For five thousand nodes, two users and three rights each, with room; about 40 MB at most.
_REMEMBERED_AT_MOST: Final = 65_536
_Answer = TypeVar("_Answer")


class RefusedError(Exception):
    """What a kubelet answers to whom it does not serve."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


def forbidden(user: str, *, verb: str, subresources: Sequence[str]) -> RefusedError:
    """Say in a kubelet's words that a user may not do this."""
    tried = f"subresource(s)=[{' '.join(subresources)}]"
    text = f"Forbidden (user={user}, verb={verb}, resource=nodes, {tried})\n"
    return RefusedError(HTTPStatus.FORBIDDEN, text)


class User(msgspec.Struct, frozen=True, omit_defaults=True):
    """A user as a TokenReview names it."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: User | None = None


class _TokenReview(msgspec.Struct):
    status: _TokenStatus


class _AccessStatus(msgspec.Struct):
    allowed: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """For how many seconds a kubelet remembers an answer (``apis/config/v1beta1/defaults.go``)."""

    token: float = 120.0
    """Whose token it is, or that it is no one's."""
    allowed: float = 300.0
    denied: float = 30.0


class Reviews:
    """Asks the API server about tokens and rights, and remembers what it said."""

    def __init__(self, wire: Wire, *, clock: Clock, trust: Trust) -> None:
        self._wire = wire
        self._clock = clock
        self._trust = trust
        self._known: OrderedDict[Hashable, tuple[float, Any]] = OrderedDict()
        self._asking: dict[Hashable, asyncio.Task[Any]] = {}

    async def admit(
        self, node: str, *, user: User | None, token: str | None, verb: str, subresources: Sequence[str]
    ) -> None:
        """Return where the user, or else the bearer of the token, may do this to a subresource of the node.

        Raises:
            RefusedError: he may not, or it cannot be found out; with the words of a kubelet.

        """
        try:
            if user is None and token:
                user = await self._user(node, token)
        except (ApiError, UnreachableError):
            user = None
        if user is None:
            raise RefusedError(HTTPStatus.UNAUTHORIZED, "Unauthorized")
        for subresource in subresources:
            try:
                allowed = await self._allowed(node, user, verb, subresource)
            except (ApiError, UnreachableError) as error:
                asked = f"user={user.username}, verb={verb}, resource=nodes, subresource={subresource}"
                raise RefusedError(
                    HTTPStatus.INTERNAL_SERVER_ERROR, f"Authorization error ({asked})"
                ) from error
            if allowed:
                return
        raise forbidden(user.username, verb=verb, subresources=subresources)

    async def _user(self, node: str, token: str) -> User | None:
        key = (node, sha256(token.encode()).digest())
        return await self._remembered(
            key, partial(self._ask_user, node, token), lambda _user: self._trust.token
        )

    async def _ask_user(self, node: str, token: str) -> User | None:
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token},
        }
        answer = await self._wire.request("POST", _TOKEN_REVIEWS, identity=node_identity(node), body=body)
        status = msgspec.json.decode(answer, type=_TokenReview).status
        return status.user if status.authenticated else None

    async def _allowed(self, node: str, user: User, verb: str, subresource: str) -> bool:
        # Everything that goes into the question, so that no answer is taken for another user's.
        who = sha256(msgspec.json.encode(user)).digest()
        return await self._remembered(
            (node, who, verb, subresource),
            partial(self._ask_allowed, node, user, verb, subresource),
            lambda allowed: self._trust.allowed if allowed else self._trust.denied,
        )

    async def _ask_allowed(self, node: str, user: User, verb: str, subresource: str) -> bool:
        attributes = {
            "verb": verb,
            "version": "v1",
            "resource": "nodes",
            "subresource": subresource,
            "name": node,
        }
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "resourceAttributes": attributes,
                "user": user.username,
                "uid": user.uid,
                "groups": user.groups,
                "extra": user.extra,
            },
        }
        answer = await self._wire.request("POST", _ACCESS_REVIEWS, identity=node_identity(node), body=body)
        return msgspec.json.decode(answer, type=_AccessReview).status.allowed

    async def _remembered(
        self, key: Hashable, ask: Callable[[], Awaitable[_Answer]], seconds: Callable[[_Answer], float]
    ) -> _Answer:
        """Return what is known, or ask; those who want to know the same meanwhile wait for the one answer."""
        known = self._known.get(key)
        if known is not None and self._clock.monotonic() < known[0]:
            return cast("_Answer", known[1])
        task = self._asking.get(key)
        if task is None:
            task = asyncio.create_task(self._learn(key, ask, seconds))
            self._asking[key] = task
            task.add_done_callback(partial(self._asked, key))
        # A client that hangs up must not cancel the question for the others.
        return cast("_Answer", await asyncio.shield(task))

    async def _learn(
        self, key: Hashable, ask: Callable[[], Awaitable[_Answer]], seconds: Callable[[_Answer], float]
    ) -> _Answer:
        answer = await ask()
        self._known[key] = (self._clock.monotonic() + seconds(answer), answer)
        self._known.move_to_end(key)
        while len(self._known) > _REMEMBERED_AT_MOST:
            self._known.popitem(last=False)
        return answer

    def _asked(self, key: Hashable, task: asyncio.Task[Any]) -> None:
        del self._asking[key]
        if not task.cancelled():
            task.exception()  # retrieved: those who wait have it already
