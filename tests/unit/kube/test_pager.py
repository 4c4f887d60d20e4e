"""Lists of pools, nodes, pods and labelled nodes: one set of rules, whoever asks."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winpool.api.keys import API_VERSION, KIND
from winpool.kube.client import Transport
from winpool.kube.errors import ApiError, Gone, StreamGarbled, TooLarge, Unavailable
from winpool.kube.lists import LIST_ATTEMPTS, Listing, Pager, PageTooLarge
from winpool.kube.nodes import WINDOWS_NODES, list_labelled, list_strays
from winpool.kube.pods import PodLister
from winpool.kube.request import Request
from winpool.kube.watch import ListWatch
from winpool.kube.writer import Writer

Object = dict[str, Any]
Answer = bytes | ApiError
Ask = Callable[[Request], Awaitable[bytes | bytearray]]

EXPIRED = Gone("410 the provided continue parameter is too old", status=410, reason="Expired")
CREATED = "2026-11-01T12:00:00Z"


def a_node(name: str) -> Object:
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "1"}}


def a_pod(name: str) -> Object:
    return {"metadata": {"namespace": "shop", "name": name}, "spec": {"nodeName": "w1"}}


def a_pool(name: str) -> Object:
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", "creationTimestamp": CREATED}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": {"nodeSelector": {}}}


async def node_names(ask: Ask) -> list[str]:
    return await NodeNames(ask).list()


class NodeNames:
    """Lists nodes again and again as the watch of nodes does."""

    def __init__(self, ask: Ask) -> None:
        self.watch = ListWatch(over(ask), WINDOWS_NODES, on_change=lambda _old, _new: None)

    async def list(self) -> list[str]:
        await self.watch._list()
        return sorted(self.watch.objects)


class Asker:
    """All of a transport that lists need."""

    def __init__(self, ask: Ask) -> None:
        self.request = ask


def over(ask: Ask) -> Transport:
    return cast("Transport", Asker(ask))


async def pod_names(ask: Ask) -> list[str]:
    seen: list[str] = []
    await PodLister(ask).list_all(see=lambda pod: seen.append(pod.name))
    return seen


async def pool_names(ask: Ask) -> list[str]:
    return [pool["metadata"]["name"] for pool in (await Writer(over(ask)).list_pools(tuple)).items]


async def stray_names(ask: Ask) -> list[str]:
    return [node.name for node in await list_strays(over(ask))]


async def labelled_names(ask: Ask) -> list[str]:
    return [node.name for node in await list_labelled(over(ask), pool_name="web")]


@dataclass(frozen=True)
class Kind:
    """One of the lists that the operator makes."""

    names: Callable[[Ask], Awaitable[list[str]]]
    item: Callable[[str], Object]
    kind: str
    api_version: str

    def page(self, *names: str, goes_on: str = "", version: str = "9", **changes: Any) -> bytes:
        metadata = {"resourceVersion": version, "continue": goes_on}
        listed = {"kind": self.kind, "apiVersion": self.api_version, "metadata": metadata}
        items = [self.item(name) for name in names]
        body = {**listed, "items": items, **changes}
        return json.dumps({key: value for key, value in body.items() if value != "absent"}).encode()


KINDS = {
    "nodes": Kind(node_names, a_node, "NodeList", "v1"),
    "pods": Kind(pod_names, a_pod, "PodList", "v1"),
    "pools": Kind(pool_names, a_pool, f"{KIND}List", API_VERSION),
    "strays": Kind(stray_names, a_node, "NodeList", "v1"),
    "labelled nodes": Kind(labelled_names, a_node, "NodeList", "v1"),
}

every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


class Answers:
    """Answers that come in turn, whatever is asked; after the last there is no server any more."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = iter(answers)
        self.asked: list[dict[str, str]] = []

    async def request(self, request: Request) -> bytes:
        self.asked.append(query_of(request))
        answer = next(self._answers, Unavailable("there are no more answers", reason="NoAnswer"))
        if isinstance(answer, ApiError):
            raise answer
        return answer


def query_of(request: Request) -> dict[str, str]:
    return {key: value for key, (value,) in parse_qs(urlsplit(request.path).query).items()}


class Cluster:
    """Objects, as JSON, that are listed by pages of as many as are asked for and may be read at once."""

    def __init__(self, kind: Kind, items: Sequence[bytes]) -> None:
        self._kind = kind
        self.items = list(items)
        self.limits: list[int] = []
        self.refused = 0

    async def request(self, request: Request) -> bytes:
        query = query_of(request)
        limit, start = int(query["limit"]), int(query.get("continue", "0"))
        self.limits.append(limit)
        end = start + limit
        head = self._kind.page(goes_on=str(end) if end < len(self.items) else "").removesuffix(b"[]}")
        body = head + b"[" + b",".join(self.items[start:end]) + b"]}"
        if len(body) > request.reply_limit:
            self.refused += 1
            raise TooLarge(f"an answer of more than {request.reply_limit} bytes")
        return body


# What an answer has to be


@every_kind
async def test_all_pages_are_read(kind: Kind) -> None:
    pages = [kind.page("a", "b", goes_on="1"), kind.page(goes_on="2"), kind.page("c")]
    source = Answers(*pages)
    assert await kind.names(source.request) == ["a", "b", "c"]
    assert [asked.get("continue") for asked in source.asked] == [None, "1", "2"]


@every_kind
async def test_none_is_written_as_an_empty_list_or_as_null(kind: Kind) -> None:
    assert await kind.names(Answers(kind.page()).request) == []
    assert await kind.names(Answers(kind.page(items=None)).request) == []


@every_kind
@pytest.mark.parametrize(
    "changes",
    [
        {"items": "absent"},
        {"items": {}},
        {"kind": "absent"},
        {"kind": "ConfigMapList"},
        {"apiVersion": "absent"},
        {"apiVersion": "winpool.dev/v9"},
        {"metadata": "absent"},
        {"metadata": {}},
        {"metadata": {"resourceVersion": ""}},
    ],
    ids=json.dumps,
)
async def test_an_answer_that_is_no_such_list_is_no_empty_list(kind: Kind, changes: Object) -> None:
    with pytest.raises(StreamGarbled, match=r"^list "):
        await kind.names(Answers(kind.page(**changes)).request)


@dataclass(frozen=True)
class Numbers:
    """The smallest page there is."""

    numbers: tuple[int, ...]
    continue_token: str = ""
    resource_version: str = "9"


def decode_numbers(body: bytes | bytearray) -> Numbers:
    return Numbers(**{**(read := json.loads(body)), "numbers": tuple(read["numbers"])})


def numbers(*found: int, goes_on: str = "") -> bytes:
    return json.dumps({"numbers": found, "continue_token": goes_on}).encode()


def a_pager(ask: Ask, *, limit: int = 64, page_bytes: int = 1000) -> Pager[Numbers]:
    listing = Listing(
        resource="numbers",
        collection="/numbers",
        decode=decode_numbers,
        page_limit=limit,
        page_bytes=page_bytes,
    )
    return Pager(ask, listing)


# What is held in memory


class Body(bytearray):
    """An answer that can be watched for being let go."""


@pytest.mark.slow
async def test_one_page_is_held_at_a_time() -> None:
    """Neither its bytes nor what was read from them, when the next one is asked for."""
    alive: list[weakref.ref[Any]] = []
    at_once: list[int] = []
    bodies = iter([numbers(1, goes_on=str(page)) for page in range(1, 6)] + [numbers(2)])

    async def ask(_: Request) -> bytearray:
        gc.collect()
        at_once.append(sum(each() is not None for each in alive))
        body = Body(next(bodies))
        alive.append(weakref.ref(body))
        return body

    await a_pager(ask).show(lambda page: alive.append(weakref.ref(page)))
    assert at_once == [0] * 6
    assert len(alive) == 12


async def test_of_a_pool_is_held_what_is_read() -> None:
    pool = a_pool("web")
    pool["metadata"] |= {"annotations": {"note": "x" * 1000}, "managedFields": [{}], "generation": 7}
    body = KINDS["pools"].page(items=[{**pool, "status": {"nodes": 1}}])
    (listed,) = (await Writer(over(Answers(body).request)).list_pools(tuple)).items
    assert listed == {
        **a_pool("web"),
        "metadata": {**a_pool("web")["metadata"], "generation": 7},
        "status": {"nodes": 1},
    }


# How large a page is


@pytest.mark.slow
async def test_pools_with_all_the_annotations_they_may_have_are_listed() -> None:
    """130 of them are more than the 32 MiB that are held at once."""
    note = "x" * (256 * 1024 - len("note"))
    items = []
    for number in range(130):
        pool = a_pool(f"pool-{number}")
        pool["metadata"]["annotations"] = {"note": note}
        items.append(json.dumps(pool).encode())
    cluster = Cluster(KINDS["pools"], items)
    writer = Writer(over(cluster.request))
    assert len((await writer.list_pools(tuple)).items) == 130
    assert cluster.limits == [50, 50, 50]


SMALL_POD = json.dumps({**a_pod("p"), "note": "x" * 8_000}).encode()
LARGE_POD = json.dumps({**a_pod("p"), "note": "x" * 1_000_000}).encode()


async def list_pods(cluster: Cluster, *, lister: PodLister) -> int:
    """List, again while pages are too large; return how many requests the list took that came to its end."""
    while True:
        before = len(cluster.limits)
        try:
            await lister.list_all(see=lambda _: None)
        except TooLarge:
            continue
        return len(cluster.limits) - before


@pytest.mark.slow
async def test_pages_of_pods_grow_back_after_a_bad_stretch() -> None:
    cluster = Cluster(KINDS["pods"], [SMALL_POD] * 2_000)
    lister = PodLister(cluster.request)
    cluster.items[700:740] = [LARGE_POD] * 40
    await list_pods(cluster, lister=lister)
    assert cluster.limits[-1] == 15, "15 pods of a megabyte fit 16 MiB, and 31 do not"
    refused = cluster.refused
    assert await list_pods(cluster, lister=lister) == -(-2_000 // 15)
    assert cluster.refused == refused, "while they are there, no page is asked for in vain"

    cluster.items[700:740] = [SMALL_POD] * 40
    for _ in range(6):  # each list that leaves the room doubles the pages of the next
        await list_pods(cluster, lister=lister)
    assert await list_pods(cluster, lister=lister) == 4
    assert cluster.limits[-1] == 500


@pytest.mark.slow
async def test_pages_of_nodes_grow_back_after_a_bad_stretch() -> None:
    cluster = Cluster(KINDS["nodes"], [json.dumps(a_node(f"w{number}")).encode() for number in range(600)])
    small = cluster.items[:]
    cluster.items[:70] = [
        json.dumps({**a_node(f"w{number}"), "note": "x" * 1_000_000}).encode() for number in range(70)
    ]
    nodes = NodeNames(cluster.request)
    assert len(await nodes.list()) == 600
    assert cluster.limits[-1] == 31, "31 nodes of a megabyte fit 32 MiB"
    cluster.items = small
    for _ in range(6):
        await nodes.list()
    assert cluster.limits[-2:] == [500, 500]


class Sizes:
    """Numbers that take as many bytes as they say, of which a page may have no more than 1000."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = sizes
        self.limits: list[int] = []
        self.refused = 0

    async def request(self, request: Request) -> bytes:
        query = query_of(request)
        limit, start = int(query["limit"]), int(query.get("continue", 0))
        self.limits.append(limit)
        found = self.sizes[start : start + limit]
        if sum(found) > request.reply_limit:
            self.refused += 1
            raise TooLarge("an answer of more than 1000 bytes")
        goes_on = str(start + limit) if start + limit < len(self.sizes) else ""
        return Bytes(numbers(*found, goes_on=goes_on), size=sum(found))


class Bytes(bytes):
    """An answer that has a size of its own, whatever is in it."""

    size: int

    def __new__(cls, body: bytes, *, size: int) -> Bytes:
        made = super().__new__(cls, body)
        made.size = size
        return made

    def __len__(self) -> int:
        return self.size


@given(st.lists(st.integers(1, 900), min_size=1, max_size=200))
async def test_while_nothing_changes_no_page_is_asked_for_in_vain(sizes: list[int]) -> None:
    """However unevenly large objects lie: a list that came to its end says what is safe for the next."""
    source = Sizes(sizes)
    pager = a_pager(source.request)
    while True:
        try:
            await pager.show(lambda _: None)
        except PageTooLarge:
            continue
        break
    refused, smallest = source.refused, source.limits[-1]
    for _ in range(4):
        await pager.show(lambda _: None)
    assert source.refused == refused
    assert source.limits[-1] >= smallest


async def test_a_list_too_slow_for_its_many_pages_is_asked_for_in_larger_ones() -> None:
    """Or it would never come to its end, and pages grow after lists that did."""
    huge = TooLarge("an answer of more than 1000 bytes")
    source = Answers(
        *[huge] * 4, numbers(1, goes_on="4"), EXPIRED, numbers(1, goes_on="8"), EXPIRED, numbers(1)
    )
    pager = a_pager(source.request)
    for error in (*[PageTooLarge] * 4, Gone, Gone):
        with pytest.raises(error):
            await pager.show(lambda _: None)
    await pager.show(lambda _: None)
    assert [asked["limit"] for asked in source.asked] == ["64", "32", "16", "8", "4", "4", "8", "8", "16"]


async def test_where_not_even_one_object_fits_it_is_said() -> None:
    source = Sizes([5000])
    pager = a_pager(source.request, limit=2)
    for error in (PageTooLarge, TooLarge, TooLarge):
        with pytest.raises(TooLarge) as caught:
            await pager.show(lambda _: None)
        assert type(caught.value) is error


# Lists that are kept whole

kept_whole = pytest.mark.parametrize("kind", [KINDS[name] for name in ("pools", "strays", "labelled nodes")])


@kept_whole
async def test_a_list_that_is_kept_whole_begins_anew_after_an_expired_token(kind: Kind) -> None:
    again: list[Answer] = [kind.page("a", goes_on="1"), EXPIRED] * (LIST_ATTEMPTS - 1)
    source = Answers(*again, kind.page("b", goes_on="1"), kind.page("c"))
    assert await kind.names(source.request) == ["b", "c"]


@kept_whole
async def test_a_token_that_expires_each_time_is_told(kind: Kind) -> None:
    each_time: list[Answer] = [kind.page("a", goes_on="1"), EXPIRED] * (LIST_ATTEMPTS + 1)
    source = Answers(*each_time)
    with pytest.raises(Gone):
        await kind.names(source.request)
    assert len(source.asked) == 2 * LIST_ATTEMPTS


@pytest.mark.parametrize("kind", [KINDS["strays"], KINDS["labelled nodes"]])
async def test_a_labelled_node_that_cannot_be_read_leaves_no_list(kind: Kind) -> None:
    broken = kind.page(items=[{"metadata": {"name": "w1"}}])
    with pytest.raises(StreamGarbled, match="node w1"):
        await kind.names(Answers(kind.page("a", goes_on="1"), broken).request)
