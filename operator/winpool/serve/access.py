"""Decides who may read /metrics or /memory: a token's user who has the right to get that path.

A review of a token is made by a function that is passed in; here its result is kept for a short time, so that
the API server is not asked at each scrape. Tokens themselves are not kept: results are found by a SHA-256 of
them.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, Literal, Protocol

from aiohttp import hdrs, web

from winpool.loops import keep_newest

Result = Literal["Permitted", "Forbidden", "Invalid", "Failed", "RateLimited"]
"""``Forbidden``: the user of the token has no right. ``Invalid``: the token is of no user. ``Failed``: the
API server did not say. ``RateLimited``: it was not asked, since there are too many reviews."""

PERMITTED_SECONDS: Final = 60.0
"""How long a permission is used, and so how long a scraper can still read after its right was removed. A
scraper asks every 15 to 60 s, so this is one review a minute for each."""

REFUSED_SECONDS: Final = 10.0
"""How long a refusal is used: a person who adds the right sees the effect at once, and a wrongly configured
scraper causes at most six reviews a minute."""

MOST_PERMITTED: Final = 64
"""Tokens that are remembered as permitted: ten scrapers, each of which gets a new token now and then. One
more replaces the one that was reviewed longest ago, which is then reviewed again."""

MOST_REFUSED: Final = 256
"""Tokens that are remembered as refused, several times as many as can be reviewed in REFUSED_SECONDS. They
are kept apart from those that are permitted and cannot replace any of them."""

_BEARER: Final = re.compile(r"(?i:bearer) +([A-Za-z0-9\-._~+/]+=*)")
"""The header with a token (RFC 6750, 2.1). What is not of this form needs no review."""

RETRY_SECONDS: Final = {"Failed": 5, "RateLimited": 1}
"""When to ask again: a failure of the API server lasts longer than a second's budget."""


_REFUSALS: Final = {
    "Invalid": (
        401,
        "the API server does not accept this token: it may be expired, of another cluster, or for another "
        "audience than the API server",
    ),
    "Forbidden": (
        403,
        "the user of this token may not get {path}: bind a ClusterRole with the rule "
        '{{nonResourceURLs: ["{path}"], verbs: ["get"]}} to it, such as {role}',
    ),
    "RateLimited": (429, "too many tokens wait for a review: ask again, with the same token"),
    "Failed": (503, "the operator could not review this token: its log has the reason"),
}


class Review(Protocol):
    """Reviews a token."""

    async def __call__(self, token: str, *, address: str, known: bool) -> Result:
        """Return the result for ``token``, which came from ``address``.

        ``known`` says that the last review permitted it.
        """


class Access:
    """Decides who may read ``path``. ``results`` counts reviews by their result.

    ``role`` is the ClusterRole with that right, which comes with the operator. A token that is not permitted
    now is never let in: where the review fails, a permission is used until it is PERMITTED_SECONDS old, and
    no longer. Make it inside a running event loop.
    """

    def __init__(self, review: Review, *, path: str, role: str, monotonic: Callable[[], float]) -> None:
        self.results: Counter[Result] = Counter()
        self._path = path
        self._role = role
        self._review = review
        self._monotonic = monotonic
        # By SHA-256 of a token: until when its result is used. What is over stays until it is replaced: it
        # says that the last review permitted the token.
        self._permitted: OrderedDict[bytes, float] = OrderedDict()
        self._refused: OrderedDict[bytes, tuple[Result, float]] = OrderedDict()
        self._under_way: dict[bytes, asyncio.Task[Result]] = {}

    async def refusal(self, request: web.BaseRequest) -> web.Response | None:
        """Return the answer to a request that is not permitted; None for one that is."""
        token = token_of(request.headers.getall(hdrs.AUTHORIZATION, ()))
        if token is None:
            said = "a bearer token is required: send it in the header Authorization"
            return _refusal(401, said, {hdrs.WWW_AUTHENTICATE: "Bearer"})
        result = await self.result(token, address=request.remote or "")
        return answer_to(result, path=self._path, role=self._role)

    async def result(self, token: str, *, address: str) -> Result:
        """Return what is known of ``token``; review it where nothing is. Requests share a review."""
        key = hashlib.sha256(token.encode()).digest()
        now = self._monotonic()
        if now < self._permitted.get(key, now):
            return "Permitted"
        refused, until = self._refused.get(key, ("Invalid", now))
        if now < until:
            return refused
        task = self._under_way.get(key)
        if task is None:
            task = asyncio.create_task(self._reviewed(key, token, address=address), name="review")
            self._under_way[key] = task
            task.add_done_callback(lambda _: self._under_way.pop(key, None))
        # A client that leaves does not end the review for the others that wait for it.
        return await asyncio.shield(task)

    async def close(self) -> None:
        """End the reviews that are under way."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _reviewed(self, key: bytes, token: str, *, address: str) -> Result:
        asked_at = self._monotonic()
        result = await self._review(token, address=address, known=key in self._permitted)
        self.results[result] += 1
        if result == "Permitted":
            self._refused.pop(key, None)
            keep_newest(self._permitted, key, asked_at + PERMITTED_SECONDS, most=MOST_PERMITTED)
        elif result in ("Forbidden", "Invalid"):
            self._permitted.pop(key, None)
            keep_newest(self._refused, key, (result, asked_at + REFUSED_SECONDS), most=MOST_REFUSED)
        return result


def token_of(headers: Sequence[str]) -> str | None:
    """Return the bearer token of a request's Authorization headers; None unless there is exactly one."""
    if len(headers) != 1:
        return None
    found = _BEARER.fullmatch(headers[0].strip())
    return found[1] if found else None


def answer_to(result: Result, *, path: str, role: str) -> web.Response | None:
    """Return the answer for a result; None where the request is permitted.

    ``role`` is the ClusterRole that permits to get ``path``.
    """
    if result == "Permitted":
        return None
    status, text = _REFUSALS[result]
    headers: dict[str, str] = {}
    if result in RETRY_SECONDS:
        headers = {hdrs.RETRY_AFTER: str(RETRY_SECONDS[result])}
    if result == "Invalid":
        headers = {hdrs.WWW_AUTHENTICATE: 'Bearer error="invalid_token"'}
    return _refusal(status, text.format(path=path, role=role), headers)


def _refusal(status: int, text: str, headers: dict[str, str]) -> web.Response:
    return web.Response(status=status, text=f"{text}\n", headers=headers)
