"""Asks the API server for many things at the same time, and notes what cannot be read and why."""

from __future__ import annotations

import sys
import time
from concurrent.futures import wait
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from winpool.cli.counts import counted
from winpool.cli.kubectl import Kubectl, KubectlError, NotAskedError, complete
from winpool.kube.errors import parse_permission

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from concurrent.futures import Future

T = TypeVar("T")

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
