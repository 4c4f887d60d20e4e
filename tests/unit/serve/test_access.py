"""Who may read /metrics, how long an answer about a token is used, and what a hostile scraper gets."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import get_args

import pytest

from harness.clock import Seconds
from harness.served import HOST, connected, serving, until
from winpool.kube.tokens import Verdict
from winpool.serve.access import (
    MOST_PERMITTED,
    MOST_REFUSED,
    PERMITTED_SECONDS,
    REFUSED_SECONDS,
    Access,
    Result,
    answer_to,
    token_of,
)

GOOD = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJzY3JhcGVyIn0.c2lnbmF0dXJl"


@dataclass
class Reviewer:
    """Answers for tokens as a test has set it; ``asked`` are the tokens, and whether they were known."""

    results: dict[str, Result] = field(default_factory=dict)
    asked: list[tuple[str, bool]] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)
    gate: asyncio.Event | None = None

    async def review(self, token: str, *, address: str, known: bool) -> Result:
        self.asked.append((token, known))
        self.addresses.append(address)
        if self.gate is not None:
            await self.gate.wait()
        return self.results.get(token, "Invalid")


@dataclass
class Scene:
    reviewer: Reviewer = field(default_factory=lambda: Reviewer({GOOD: "Permitted"}))
    clock: Seconds = field(default_factory=Seconds)

    def __post_init__(self) -> None:
        self.access = Access(
            self.reviewer.review, path="/metrics", role="winpool-metrics-reader", monotonic=self.clock
        )

    async def result(self, token: str = GOOD) -> Result:
        return await self.access.result(token, address=HOST)


def test_both_sides_speak_of_the_same_results() -> None:
    """serve/ and cluster/ do not import each other."""
    assert get_args(Result) == get_args(Verdict)


# What is answered


async def test_without_a_token_nothing_is_reviewed_and_nothing_rendered() -> None:
    scene = Scene()
    async with serving(access=scene.access) as served:
        status, text, headers = await served.answer()
        assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
        assert "winpool_example" not in text
        assert served.collector.renders == 0
    assert scene.reviewer.asked == []


async def test_with_a_right_the_metrics_are_served() -> None:
    scene = Scene()
    async with serving(access=scene.access) as served:
        status, text, _ = await served.answer(token=GOOD)
        assert status == 200
        assert "winpool_example" in text
    assert scene.reviewer.addresses == [HOST]


@pytest.mark.parametrize(
    ("result", "status", "header"),
    [
        ("Invalid", 401, ("WWW-Authenticate", 'Bearer error="invalid_token"')),
        ("Forbidden", 403, None),
        ("RateLimited", 429, ("Retry-After", "1")),
        ("Failed", 503, ("Retry-After", "5")),
    ],
)
async def test_any_other_result_is_refused(
    result: Result, status: int, header: tuple[str, str] | None
) -> None:
    scene = Scene(Reviewer({GOOD: result}))
    async with serving(access=scene.access) as served:
        found, text, headers = await served.answer(token=GOOD)
        assert found == status
        assert header is None or headers[header[0]] == header[1]
        assert "winpool_example" not in text
        assert GOOD not in text
        assert served.collector.renders == 0


def test_a_refusal_names_the_right_that_is_missing() -> None:
    answer = answer_to("Forbidden", path="/metrics", role="winpool-metrics-reader")
    assert answer is not None
    assert answer.text == (
        "the user of this token may not get /metrics: bind a ClusterRole with the rule "
        '{nonResourceURLs: ["/metrics"], verbs: ["get"]} to it, such as winpool-metrics-reader\n'
    )


async def test_health_is_served_without_a_token() -> None:
    """The kubelet has none."""
    scene = Scene()
    for health_port in (None, 0):
        async with serving(access=scene.access, health_port=health_port) as served:
            for path in ("/healthz", "/readyz"):
                assert await served.status(path, port=served.server.health_port) == 200
    assert scene.reviewer.asked == []


@pytest.mark.parametrize(
    ("headers", "token"),
    [
        ([f"Bearer {GOOD}"], GOOD),
        ([f"bearer   {GOOD} "], GOOD),
        (["Bearer abc=="], "abc=="),
        ([], None),
        (["Bearer"], None),
        (["Bearer "], None),
        ([GOOD], None),
        (["Basic dXNlcjpwYXNzd29yZA=="], None),
        (["Bearer two words"], None),
        (['Bearer {"token"}'], None),
        (["Bearer tök"], None),
        ([f"Bearer {GOOD}", f"Bearer {GOOD}"], None),
    ],
)
def test_only_one_header_of_the_right_form_has_a_token(headers: list[str], token: str | None) -> None:
    assert token_of(headers) == token


# How long it is used


async def test_a_permission_is_used_for_its_time_and_the_removed_right_shows_after_it() -> None:
    scene = Scene()
    assert [await scene.result() for _ in range(20)] == ["Permitted"] * 20
    scene.reviewer.results[GOOD] = "Forbidden"
    scene.clock.now += PERMITTED_SECONDS - 0.1
    assert await scene.result() == "Permitted"
    assert len(scene.reviewer.asked) == 1
    scene.clock.now += 0.1
    assert await scene.result() == "Forbidden"
    assert scene.reviewer.asked == [(GOOD, False), (GOOD, True)]


@pytest.mark.parametrize("result", ["Forbidden", "Invalid"])
async def test_a_refusal_is_used_for_its_time_and_the_added_right_shows_after_it(result: Result) -> None:
    scene = Scene(Reviewer({GOOD: result}))
    assert [await scene.result() for _ in range(20)] == [result] * 20
    scene.reviewer.results[GOOD] = "Permitted"
    scene.clock.now += REFUSED_SECONDS - 0.1
    assert await scene.result() == result
    scene.clock.now += 0.1
    assert await scene.result() == "Permitted"
    assert scene.reviewer.asked == [(GOOD, False), (GOOD, False)]


async def test_a_result_is_as_old_as_its_question() -> None:
    """A right that was removed while the API server took its time is not used for longer."""
    scene = Scene()
    scene.reviewer.gate = asyncio.Event()
    waiting = asyncio.create_task(scene.result())
    await until(lambda: scene.reviewer.asked)
    scene.clock.now += PERMITTED_SECONDS
    scene.reviewer.gate.set()
    assert await waiting == "Permitted"
    assert await scene.result() == "Permitted"
    assert len(scene.reviewer.asked) == 2


async def test_without_an_answer_a_permission_is_used_to_its_end_and_nothing_is_permitted_after_it() -> None:
    scene = Scene()
    await scene.result()
    scene.reviewer.results[GOOD] = "Failed"
    scene.clock.now += PERMITTED_SECONDS - 0.1
    assert await scene.result() == "Permitted"
    assert await scene.result("of-someone-unknown") == "Invalid"
    scene.clock.now += 0.1
    assert await scene.result() == "Failed"
    scene.reviewer.results[GOOD] = "Permitted"
    assert await scene.result() == "Permitted", "a failure is not kept"
    assert [known for token, known in scene.reviewer.asked if token == GOOD] == [False, True, True]


@pytest.mark.parametrize("result", ["Failed", "RateLimited"])
async def test_what_is_not_known_is_not_kept(result: Result) -> None:
    scene = Scene(Reviewer({GOOD: result}))
    assert await scene.result() == result
    scene.reviewer.results[GOOD] = "Permitted"
    assert await scene.result() == "Permitted"


async def test_a_token_that_was_refused_last_is_not_known() -> None:
    scene = Scene()
    await scene.result()
    scene.reviewer.results[GOOD] = "Invalid"
    scene.clock.now += PERMITTED_SECONDS
    await scene.result()
    scene.clock.now += REFUSED_SECONDS
    await scene.result()
    assert [known for _, known in scene.reviewer.asked] == [False, True, False]


async def test_reviews_are_counted_and_answers_from_memory_are_not() -> None:
    scene = Scene()
    for token in (GOOD, GOOD, "a", "a", "b"):
        await scene.result(token)
    assert scene.access.results == {"Permitted": 1, "Invalid": 2}


# Many at once


async def test_requests_with_the_same_token_share_a_review_and_one_that_leaves_does_not_end_it() -> None:
    scene = Scene()
    scene.reviewer.gate = asyncio.Event()
    first = asyncio.create_task(scene.result())
    await until(lambda: scene.reviewer.asked)
    others = [asyncio.create_task(scene.result()) for _ in range(31)]
    await asyncio.sleep(0)
    first.cancel()
    scene.reviewer.gate.set()
    assert await asyncio.gather(*others) == ["Permitted"] * 31
    assert first.cancelled()
    assert len(scene.reviewer.asked) == 1
    assert await scene.result() == "Permitted"
    assert len(scene.reviewer.asked) == 1


async def test_the_end_of_the_server_ends_the_reviews_under_way() -> None:
    scene = Scene()
    scene.reviewer.gate = asyncio.Event()
    before = len(asyncio.all_tasks())
    async with serving(access=scene.access) as served:
        scrape = asyncio.create_task(served.answer(token=GOOD))
        await until(lambda: scene.reviewer.asked)
    await asyncio.gather(scrape, return_exceptions=True)
    assert len(asyncio.all_tasks()) == before


@pytest.mark.slow
async def test_a_flood_of_tokens_is_remembered_in_part_and_those_that_are_permitted_stay() -> None:
    scene = Scene()
    await scene.result()
    for number in range(3 * MOST_REFUSED):
        assert await scene.result(f"invented-{number}") == "Invalid"
    assert await scene.result() == "Permitted"
    assert scene.reviewer.asked.count((GOOD, False)) == 1
    assert len(scene.access._refused) == MOST_REFUSED
    assert len(scene.access._permitted) == 1
    assert scene.access._under_way == {}


async def test_tokens_that_are_permitted_are_remembered_in_part_too() -> None:
    many = [f"minted-{number}" for number in range(2 * MOST_PERMITTED)]
    scene = Scene(Reviewer(dict.fromkeys(many, "Permitted")))
    assert [await scene.result(token) for token in many] == ["Permitted"] * len(many)
    assert len(scene.access._permitted) == MOST_PERMITTED


async def test_tokens_are_not_kept() -> None:
    scene = Scene()
    await scene.result()
    await scene.result("invented")
    assert len(scene.access._permitted) == len(scene.access._refused) == 1
    kept = repr({name: value for name, value in vars(scene.access).items() if name != "_review"})
    assert GOOD not in kept
    assert "invented" not in kept


async def test_a_huge_authorization_header_is_refused_before_it_is_read_as_a_token() -> None:
    scene = Scene()
    async with serving(access=scene.access) as served:
        for size in (5_000, 1_000_000):
            async with connected(served.port) as (reader, writer):
                writer.write(b"GET /metrics HTTP/1.1\r\nAuthorization: Bearer " + size * b"x" + b"\r\n\r\n")
                assert b" 400 " in await reader.readline()
        assert (await served.answer(token=GOOD))[0] == 200
    assert [token for token, _ in scene.reviewer.asked] == [GOOD]


def test_a_refusal_shows_within_seconds_and_a_removed_right_within_a_minute() -> None:
    """Both are promised in docs/operator/metrics.md."""
    assert (REFUSED_SECONDS, PERMITTED_SECONDS) == (10, 60)
