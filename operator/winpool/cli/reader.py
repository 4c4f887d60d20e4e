"""Reads pools, nodes, the version of the API server, who leads, and lists of objects, by kubectl.

Pools are also watched.
"""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import Future, wait
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from winpool.api.keys import LEASE, NAMESPACE
from winpool.api.model import InvalidSpecError
from winpool.api.spec import WindowsNodePool
from winpool.api.text import written_moment
from winpool.cli.counts import counted
from winpool.cli.kubectl import (
    GARBLED,
    Kubectl,
    KubectlError,
    NoSuchPoolError,
    NotAskedError,
    complete,
    decoded,
    read_lease,
)
from winpool.cli.lenient import Fields
from winpool.kube.errors import parse_permission
from winpool.kube.lists import ListPage
from winpool.kube.nodes import NODES_PATH, decode_page
from winpool.kube.pools import LISTING, POOLS_PATH, PoolObject
from winpool.kube.wire import server_version
from winpool.model.pool import NO_ROOM, Pool, read_pool

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from winpool.api.selector import NodeSelector
    from winpool.model.node import Node


@dataclass(frozen=True, slots=True)
class Nodes:
    """Nodes by name, and what is wrong with those that cannot be read."""

    nodes: tuple[Node, ...]
    unread: tuple[str, ...]


def list_pools(kubectl: Kubectl, **query: str) -> ListPage[Mapping[str, Any]]:
    """Return all pools that ``query`` selects, by name. Raises NotAskedError."""
    pages = kubectl.whole(POOLS_PATH, LISTING.decode, **query)
    found = (pool for page in pages for pool in page.items)
    pools = tuple(sorted(found, key=lambda each: str(each["metadata"]["name"])))
    return ListPage(pools, pages[0].resource_version)


def read_pools(kubectl: Kubectl) -> tuple[Pool, ...]:
    """Return all pools, read. Raises NotAskedError."""
    try:
        return tuple([read_pool(each, refusal=_no_room(each)) for each in list_pools(kubectl).items])
    except InvalidSpecError as error:
        raise NotAskedError(f"{GARBLED} ({error})") from error


def _no_room(body: Mapping[str, Any]) -> str:
    """Return that the operator does not read this spec for want of room, if it says so of this generation."""
    conditions = (body.get("status") or {}).get("conditions") or ()
    said = {(each.get("observedGeneration"), each.get("message")) for each in conditions}
    return NO_ROOM if (body["metadata"].get("generation"), NO_ROOM) in said else ""


def list_nodes(kubectl: Kubectl, selector: str = "", *, name: str = "") -> Nodes:
    """Return the nodes that have these labels, or the one of that name. Raises NotAskedError."""
    query = {"fieldSelector": f"metadata.name={name}"} if name else {}
    if selector:
        query["labelSelector"] = selector
    pages = kubectl.whole(NODES_PATH, decode_page, **query)
    return Nodes(
        tuple(sorted((node for page in pages for node in page.items), key=lambda each: each.name)),
        tuple(sorted(str(error) for page in pages for error in page.unreadable)),
    )


def read_version(kubectl: Kubectl) -> str:
    """Return the ``gitVersion`` of the API server. Raises NotAskedError."""
    return decoded(server_version.decode, kubectl.get("/version")).git_version


RENEWALS_SECONDS: Final = 5.0
"""In which a holder renews its Lease twice, of which one may fail (``lease_rules.RETRY_SECONDS``)."""


def leader_problem(kubectl: Kubectl) -> str:
    """Return why no operator leads, in a sentence; empty where one renews its Lease.

    One that looks old, or of the future, is read again after ``RENEWALS_SECONDS``: the clock here may be
    wrong. Raises NotAskedError where it cannot be read, also where there is none: an operator without leader
    election may run.
    """
    seen = read_lease(kubectl)
    age = (datetime.now(UTC) - seen.renewed).total_seconds() if seen.renewed is not None else -1.0
    if seen.holder and not 0 <= age <= seen.seconds:
        time.sleep(RENEWALS_SECONDS)
        before, seen = seen, read_lease(kubectl)
        if seen.mark == before.mark:
            last = written_moment(seen.renewed) if seen.renewed is not None else "not readable"
            return f"No operator leads: {seen.shown} does not renew its Lease (last renewal: {last})."
    return "" if seen.holder else f"No operator leads: no one holds the Lease {NAMESPACE}/{LEASE}."


def pool_and_version(name: str, flags: Sequence[str]) -> tuple[Mapping[str, Any], str]:
    """Return the pool, and the version of the API server. Raises NoSuchPoolError and NotAskedError."""
    with Kubectl(flags) as kubectl:
        return pool_content(kubectl, name), read_version(kubectl)


def pool_selector(kubectl: Kubectl, pool: str) -> NodeSelector:
    """Return the selector of a pool. Raises NoSuchPoolError and NotAskedError."""
    try:
        return WindowsNodePool.from_object(pool_content(kubectl, pool)).spec.node_selector
    except InvalidSpecError as error:
        raise NotAskedError(f"the pool {pool} cannot be read: {'; '.join(error.problems)}") from None


def pool_content(kubectl: Kubectl, name: str) -> Mapping[str, Any]:
    """Return the pool as the API server has it. Raises NoSuchPoolError and NotAskedError."""
    try:
        return dict(decoded(msgspec.json.Decoder(PoolObject).decode, kubectl.get(f"{POOLS_PATH}/{name}")))
    except KubectlError as error:
        if error.reason == "NotFound" and f'"{name}" not found' in error.said:
            raise NoSuchPoolError(name) from error
        raise


T = TypeVar("T")

WATCH_SECONDS: Final = 300
"""How long one watch of pools lasts."""

LASTING_SECONDS: Final = 5.0
"""A watch that lives as long works. One that fails later is begun again at once, and without a word."""

PAUSES: Final = (1.0, 30.0)
"""Seconds until pools are read again after a failure: the first time, and at most."""


class PoolFeed:
    """The pools, or those called ``names``, or with the labels ``selector``; kept up to date by ``run``.

    That runs in a thread of its own. ``changed`` is set when the pools or ``trouble`` have changed; whoever
    reads them clears it before. ``fault`` is what has ended ``run``, which ends by a fault of ours only.
    """

    def __init__(self, kubectl: Kubectl, names: Sequence[str] = (), selector: str = "") -> None:
        self.changed = threading.Event()
        self.fault: BaseException | None = None
        self._kubectl = kubectl
        self._names = names
        # The API server selects one name, or all. Of several the others are left out here.
        self._query = {"fieldSelector": f"metadata.name={names[0]}"} if len(names) == 1 else {}
        if selector:
            self._query["labelSelector"] = selector
        self._pools: dict[str, Mapping[str, Any]] = {}
        # The resourceVersion to go on from; "" asks for a list.
        self._position = ""
        self._trouble = ""
        self._watched_since: float | None = None

    @property
    def pools(self) -> tuple[Mapping[str, Any], ...]:
        """The pools as last seen, by name."""
        names = self._names or self._pools
        return tuple(pool for name, pool in sorted(self._pools.items()) if name in names)

    @property
    def trouble(self) -> str:
        """Why the pools may be out of date; empty where they are not."""
        since = self._watched_since
        return "" if since is not None and time.monotonic() - since >= LASTING_SECONDS else self._trouble

    def list(self) -> None:
        """Read all of them anew. Raises NotAskedError."""
        found = list_pools(self._kubectl, **self._query)
        self._position = found.resource_version
        self._pools = {pool["metadata"]["name"]: pool for pool in found.items}
        self.changed.set()

    def run(self) -> None:
        """Watch for ever; survives everything that the API server may answer."""
        try:
            self._run()
        except BaseException as fault:
            self.fault = fault
            self.changed.set()
            raise

    def _run(self) -> None:
        pause, most = PAUSES
        while True:
            began = time.monotonic()
            try:
                if not self._position:
                    self.list()
                self._watched_since = time.monotonic()
                self._watch()
                trouble = ""
            except NotAskedError as error:
                self._position, trouble = "", str(error)
            finally:
                self._watched_since = None
            if time.monotonic() - began >= LASTING_SECONDS:
                pause = PAUSES[0]
                self._tell("")
                continue
            self._tell(trouble)
            time.sleep(pause)
            pause = min(2 * pause, most)

    def _watch(self) -> None:
        query = {**self._query, "resourceVersion": self._position, "timeoutSeconds": str(WATCH_SECONDS)}
        for line in self._kubectl.watch(POOLS_PATH, allowWatchBookmarks="true", **query):
            self._take(line)

    def _take(self, line: bytes) -> None:
        """Take in one line of the watch."""
        event = Fields.of(decoded(msgspec.json.decode, line))
        pool = event.one("object")
        metadata = pool.one("metadata")
        name = metadata.text("name")
        match event.text("type"):
            case "ERROR":
                raise KubectlError(f"Error from server ({pool.text('reason')}): {pool.text('message')}")
            case "DELETED":
                self._pools.pop(name, None)
                self.changed.set()
            case "ADDED" | "MODIFIED":
                self._pools[name] = pool.content
                self.changed.set()
        self._position = metadata.text("resourceVersion") or self._position

    def _tell(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            self.changed.set()


PAGE: Final = 500
"""Objects of a page. One of pods has up to 10 MB."""

QUIET_SECONDS: Final = 2.0
"""Until then a terminal shows no progress."""
TICK_SECONDS: Final = 0.5
"""Between two looks at how far it is."""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of a list, with what is kept of its objects."""

    items: tuple[T, ...]
    continue_token: str


class Asking:
    """Asks many things at the same time. A thing that cannot be read is a problem, by what it is.

    ``namespaced`` are the resources that one may read in one namespace instead.
    """

    def __init__(self, kubectl: Kubectl, *, namespaced: Collection[str]) -> None:
        self.kubectl = kubectl
        self.problems: dict[str, list[str]] = {}
        self._namespaced = namespaced
        self._calls: list[Future[Any]] = []
        self._seen = 0

    def begin(self, what: str, call: Callable[[], T]) -> Callable[[], T | None]:
        """Begin a call; what is returned waits for it."""
        future = self.kubectl.begin(call)
        self._calls.append(future)

        def result() -> T | None:
            try:
                return future.result()
            except NotAskedError as error:
                self.note(self.why(error), what)
                return None

        return result

    def listed(
        self,
        what: str,
        path: str,
        decode: Callable[[bytes], Page[T]],
        most: int | None = None,
        /,
        **query: str,
    ) -> Callable[[], list[T] | None]:
        """Begin a list, of at most so many pages. That there are more is a problem too."""

        def page(body: bytes) -> Page[T]:
            found = decode(body)
            self._seen += len(found.items)
            return found

        def read() -> list[Page[T]]:
            return complete(
                lambda: list(islice(self.kubectl.pages(path, page, limit=str(PAGE), **query), most))
            )

        pages = self.begin(what, read)

        def result() -> list[T] | None:
            found = pages()
            if found and found[-1].continue_token:
                self.note(f"there are more than {len(found) * PAGE}, and the others were not read", what)
            return None if found is None else [each for one in found for each in one.items]

        return result

    def note(self, why: str, what: str) -> None:
        """Note that something cannot be read."""
        self.problems.setdefault(why, []).append(what)

    def wait(self) -> None:
        """Wait for all, and show a terminal how far they are where that takes long."""
        begun, is_shown = time.monotonic(), False
        while wait(self._calls, TICK_SECONDS).not_done:
            if sys.stderr.isatty() and time.monotonic() - begun > QUIET_SECONDS:
                is_shown = True
                sys.stderr.write(f"\r{counted(self._seen, 'object')} read")
                sys.stderr.flush()
        if is_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def why(self, error: NotAskedError) -> str:
        """Return why something cannot be read: for a missing right, so that several are one reason."""
        said = error.said if isinstance(error, KubectlError) else str(error)
        missing = parse_permission(said)
        if missing is None:
            return str(error)
        where = f"a Role in {missing.namespace}" if missing.namespace else "a ClusterRole"
        said = (
            f"{missing.user} may not {missing.verb} them: add that to {where} that is bound to {missing.user}"
        )
        has_namespace = missing.resource in self._namespaced and not missing.namespace
        return f"{said}, or read one namespace with -n" if has_namespace else said
