"""When kubelets say of a token that it is no good: only most of them together."""

from __future__ import annotations

import json
import ssl

from hypothesis import given
from hypothesis import strategies as st

from harness.hostile_server import a_server, answering, response
from harness.kubelet_payloads import a_summary
from harness.polling import AMPLE, TOKEN, at, refused, the_token, trusted
from testbed.pki import Authority
from winpool.kubelet.client import Acceptance, KubeletClient
from winpool.kubelet.samples import Outcome

UNAUTHORIZED = response(b"Unauthorized", status="401 Unauthorized")


@given(words=st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["accepts", "refuses", "forget"]))))
def test_the_last_word_of_each_kubelet_counts_once(words: list[tuple[int, str]]) -> None:
    acceptance, last = Acceptance(), dict[int, str]()
    for node, word in words:
        getattr(acceptance, word)(f"w{node}")
        last[node] = word
        ends = list(last.values())
        assert acceptance.is_refused == (ends.count("refuses") > ends.count("accepts"))


async def test_one_kubelet_that_refuses_among_others_is_no_reason_for_another_token(
    authority: Authority, tls: ssl.SSLContext
) -> None:
    told: list[str] = []
    well, bad = answering(response(a_summary("w1"))), answering(UNAUTHORIZED)
    async with (
        a_server(tls, well) as kubelet,
        a_server(tls, bad) as hostile,
        KubeletClient(token=the_token, context=trusted(authority), on_refused=told.append) as client,
    ):
        await client.summary(at(kubelet), deadline=AMPLE)
        for _ in range(20):
            assert (
                await refused(client.summary(at(hostile, node="h1"), deadline=AMPLE)) is Outcome.UNAUTHORIZED
            )
        assert told == []
        assert await refused(client.summary(at(hostile, node="h2"), deadline=AMPLE)) is Outcome.UNAUTHORIZED
        assert told == [TOKEN]
        await client.forget("h2")
        await refused(client.summary(at(hostile, node="h1"), deadline=AMPLE))
        assert told == [TOKEN]


async def test_a_kubelet_that_refuses_its_settings_only_accepts_the_token(
    authority: Authority, tls: ssl.SSLContext
) -> None:
    """Before Kubernetes 1.33 a kubelet answers 403 to the question for its settings."""
    told: list[str] = []
    for status in ("403 Forbidden", "500 Internal Server Error", "302 Found"):
        async with (
            a_server(tls, answering(response(b"", status=status))) as server,
            KubeletClient(token=the_token, context=trusted(authority), on_refused=told.append) as client,
        ):
            await refused(client.eviction(at(server), deadline=AMPLE))
    assert told == []
    body = json.dumps({"kubeletconfig": {}}).encode()
    async with (
        a_server(tls, answering(response(body))) as server,
        a_server(tls, answering(UNAUTHORIZED)) as hostile,
        KubeletClient(token=the_token, context=trusted(authority), on_refused=told.append) as client,
    ):
        await client.eviction(at(server), deadline=AMPLE)
        await refused(client.summary(at(hostile, node="h1"), deadline=AMPLE))
        assert told == []
