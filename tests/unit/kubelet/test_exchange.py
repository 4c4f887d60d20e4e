"""Whatever a server sends, a request ends with a body or with the one error, and in time."""

from __future__ import annotations

import asyncio
import traceback
from typing import Final

from hypothesis import given

from harness.answers import ANSWERS, CHUNKED, GOOD, TOKEN
from harness.hostile_server import a_server, answering
from winpool.kubelet.connection import Wire, request_of, within
from winpool.kubelet.samples import Outcome, PollError

LIMIT: Final = 1000
DEADLINE: Final = 0.2
"""Many answers have no end, so it is short. Whether it is a timeout or another outcome does not matter."""
AMPLE: Final = 30.0


async def asked(content: bytes, *, deadline: float) -> bytes | PollError:
    async with a_server(None, answering(content)) as server:
        wire = Wire(context=None, name="")
        try:
            async with within(deadline):
                await wire.connect("127.0.0.1", server.port)
                request = request_of("127.0.0.1", server.port, "/", authorization=f"Bearer {TOKEN}")
                return bytes((await wire.ask(request, limit=LIMIT))[0])
        except PollError as error:
            return error
        finally:
            wire.close()


@given(content=ANSWERS)
def test_any_answer_is_a_body_or_the_one_error_without_the_token(content: bytes) -> None:
    got = asyncio.run(asked(content, deadline=DEADLINE))
    if isinstance(got, PollError):
        assert got.outcome in Outcome
        assert TOKEN not in "".join(traceback.format_exception(got)) + repr(got)
    else:
        assert len(got) <= LIMIT


def test_a_good_answer_is_a_body() -> None:
    assert asyncio.run(asked(GOOD, deadline=AMPLE)) == b'{"node": {}}'
    assert asyncio.run(asked(CHUNKED, deadline=AMPLE)) == b"hello"
