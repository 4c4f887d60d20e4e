"""Asks the API server through the user's own ``kubectl``: whatever that can log in to, the plugin can.

The first call runs alone, with the terminal's stdin, and what an exec plugin writes is shown at once, so that
one that prompts prompts once. At most four of the later calls run at the same time.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Any, Final, Protocol, Self, TypeAlias, TypeVar
from urllib.parse import quote, unquote, urlencode

import msgspec

from winpool.api.keys import API_VERSION, KIND, LEASE, MANIFESTS, NAMESPACE, PLURAL, SHORT_NAME
from winpool.cli.parsing import POOL_RESOURCES, EndError, RefusedError
from winpool.kube.errors import StreamGarbled, parse_permission, rule_text
from winpool.kube.lease_rules import LeaseRecord, read_record
from winpool.kube.wire import BROKEN, server_version

if TYPE_CHECKING:
    from winpool.kube.lists import ListPage

AT_ONCE: Final = 4
"""Calls of kubectl at the same time."""

PAGE_LIMIT: Final = 1000
"""Objects of a page: each page is a call, and one of nodes has up to 50 MB."""

LIST_ATTEMPTS: Final = 3
"""A list begins again where the API server no longer has its moment, after some five minutes."""

END_SECONDS: Final = 2.0
"""How long kubectl may take to end after SIGTERM; then it is killed."""

NO_KUBECTL: Final = "kubectl cannot be started ({why}): install it, since the plugin needs it on the PATH"

NO_CRD: Final = (
    f"this cluster has no {KIND} of {API_VERSION}: install winpool with kubectl apply -f {MANIFESTS} or with "
    "Helm, or choose another cluster with --context"
)
LEASE_PATH: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{LEASE}"
"""Of the Lease that the operator that leads renews."""

GARBLED: Final = (
    "the answer is not from a Kubernetes API server: check the kubeconfig that KUBECONFIG or --kubeconfig "
    "names; without one kubectl asks localhost:8080"
)

_NO_KIND: Final = ("could not find the requested resource", "no matches for kind", "404 page not found")
_REASON: Final = re.compile(r"Error from server \((\w+)\): ")
_EXPIRED: Final = frozenset({"Expired", "Gone"})
_OWN: Final = (
    *(b"Error from server", b"error: ", b"Unable to connect to the server", b"The connection to the server "),
    *(b"Error in configuration: ", b"Server returned an unexpected response: ", b"The request is invalid"),
    *(f'The {each} "'.encode() for each in (KIND, PLURAL)),
)
"""How kubectl begins to say why it fails (k8s.io/kubectl, pkg/cmd/util/helpers.go, checkErr)."""
_LISTENS: Final = re.compile(rb"Forwarding from 127\.0\.0\.1:(\d{1,5}) ->")
_SERVES: Final = re.compile(rb"Starting to serve on ")
_NOT_GET: Final = "^([^G]|G[^E]|GE[^T]|GET.)"
"""The methods that kubectl proxy does not pass on."""
_QUOTED: Final = 4096
"""Characters of what kubectl says that a message has."""

T = TypeVar("T")

Sleep: TypeAlias = Callable[[float], None]


class Page(Protocol):
    """One page of a list; ``continue_token`` is empty on the last."""

    @property
    def continue_token(self) -> str:
        """The token to ask for the next page."""


PageT = TypeVar("PageT", bound=Page)


class NotAskedError(EndError):
    """The API server could not be asked, or did not answer; the text says why and what to do."""


class KubectlError(NotAskedError):
    """kubectl failed. ``said`` is its own message, and ``reason`` that of the API server, if it was one.

    ``is_missing_kind`` says that the server does not know what was asked for. If it is an API server, the CRD
    is not installed.
    """

    def __init__(self, said: str) -> None:
        self.said = said
        found = _REASON.match(said)
        self.reason = found[1] if found else ""
        self.is_missing_kind = any(each in said for each in _NO_KIND)
        super().__init__(f"{said}: {NO_CRD}" if self.is_missing_kind else _with_advice(said, self.reason))


def _advice(name: str) -> str:
    if name.lower() in POOL_RESOURCES:  # as behind kubectl get
        return f"write the name of a pool behind a slash, as {SHORT_NAME}/NAME, or alone"
    return f"list the pools with kubectl get {SHORT_NAME}"


class NoSuchPoolError(RefusedError):
    """The cluster has no pools of these names; the text says so of each."""

    def __init__(self, *names: str) -> None:
        super().__init__(*(f'there is no {KIND} "{name}" in this cluster: {_advice(name)}' for name in names))


class Kubectl:
    """Runs kubectl with the flags of the command line. As a context manager, it ends what still runs."""

    def __init__(self, flags: Sequence[str] = ()) -> None:
        self._flags = tuple(flags)
        self._alone = threading.Lock()
        self._has_run = False
        self._running: set[subprocess.Popen[bytes]] = set()
        self._is_over = False
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="kubectl")

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End every kubectl that still runs."""
        self._is_over = True
        for each in list(self._running):
            _end(each)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def get(self, path: str, **query: str) -> bytes:
        """Return what the API server has at ``path``. Raises KubectlError."""
        return self.run("get", "--raw", _path(path, query))

    def pages(self, path: str, decode: Callable[[bytes], PageT], **query: str) -> Iterator[PageT]:
        """Yield the pages of a list. Raises NotAskedError, at any page: ``complete`` begins again."""
        token = ""
        while True:
            more = {"limit": str(PAGE_LIMIT), **query, **({"continue": token} if token else {})}
            page = decoded(decode, self.get(path, **more))
            yield page
            token = page.continue_token
            if not token:
                return

    def whole(self, path: str, decode: Callable[[bytes], PageT], **query: str) -> list[PageT]:
        """Return all pages of a list. Raises NotAskedError."""
        return complete(lambda: list(self.pages(path, decode, **query)))

    def objects(self, path: str, decode: Callable[[bytes], ListPage[T]], **query: str) -> list[T]:
        """Return the objects of all pages of a list. Raises NotAskedError."""
        return [each for page in self.whole(path, decode, **query) for each in page.items]

    def watch(self, path: str, **query: str) -> Iterator[bytes]:
        """Yield the lines of a watch until the API server ends it. Raises KubectlError."""
        with self._started("get", "--raw", _path(path, {**query, "watch": "1"})) as (it, output, words):
            yield from output
            words.check(it.wait())

    def begin(self, call: Callable[[], T]) -> Future[T]:
        """Run ``call``, which asks, beside others."""
        return self._pool.submit(call)

    def run(self, *arguments: str) -> bytes:
        """Run a command to its end, and return what it prints.

        Raises KubectlError, and NotAskedError where what answers is no API server.
        """
        try:
            with self._alone:
                if not self._has_run:
                    self._has_run = True
                    return self._output(arguments, is_first=True)
            return self._output(arguments, is_first=False)
        except KubectlError as error:
            if error.is_missing_kind:
                self._check_server()
            raise

    def _check_server(self) -> None:
        """Raise NotAskedError where what answers is no API server: kubectl says the same of each 404."""
        try:
            answer = self._output(("get", "--raw", "/version"), is_first=False)
        except KubectlError as error:
            if error.is_missing_kind:
                raise NotAskedError(GARBLED) from None
            return  # as without the right: an API server has said so
        decoded(server_version.decode, answer)

    @contextmanager
    def forwarded(self, pod: str, *, namespace: str, port: str) -> Iterator[int]:
        """Give a port of 127.0.0.1 that leads to ``port`` of a Pod as long as the ``with`` lasts.

        The API server and the kubelet permit and encrypt it, and it ends inside the Pod, so no NetworkPolicy
        has to admit anyone. By ``pods/proxy`` no token gets there, since the API server removes the header.
        Raises KubectlError.
        """
        way = ("--namespace", namespace, "--address", "127.0.0.1", f"pod/{pod}", f":{port}")
        with self._listening("port-forward", *way, ready=_LISTENS) as found:
            yield int(found[1])

    @contextmanager
    def proxied(self, path: str) -> Iterator[str]:
        """Give a Unix socket that answers GET of ``path`` alone, as long as the ``with`` lasts.

        What the API server answers is passed on as it is. ``get`` follows a redirect instead, and sends the
        token of the person to wherever it leads. Only this user may connect. Raises NotAskedError.
        """
        try:
            made = TemporaryDirectory()
        except OSError as error:
            raise NotAskedError(f"a temporary folder cannot be made: {error.strerror}") from None
        with made as folder:
            address = f"{folder}/s"
            only = (f"--accept-paths=^{re.escape(unquote(path))}$", f"--reject-methods={_NOT_GET}")
            with self._listening("proxy", f"--unix-socket={address}", *only, ready=_SERVES):
                yield address

    @contextmanager
    def _listening(self, *arguments: str, ready: re.Pattern[bytes]) -> Iterator[re.Match[bytes]]:
        """Run a command that listens, and give the line that says so. Raises KubectlError where none does."""
        with self._started(*arguments) as (it, output, words):
            found = next((match for line in output if (match := ready.search(line))), None)
            if found is None:
                words.check(it.wait() or 1)
            assert found is not None
            # kubectl writes a line for each connection, and must not have to wait for us.
            threading.Thread(target=_drain, args=(output,), daemon=True).start()
            yield found

    def _output(self, arguments: Sequence[str], *, is_first: bool) -> bytes:
        with self._started(*arguments, is_first=is_first) as (it, output, words):
            answer = output.read()
            words.check(it.wait())
        return answer

    @contextmanager
    def _started(
        self, *arguments: str, is_first: bool = False
    ) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes], _Words]]:
        """Run a command as long as the ``with`` lasts; give it, its output, and what reads its errors."""
        command = ("kubectl", *self._flags, *arguments)
        stdin = None if is_first else subprocess.DEVNULL
        try:
            process = subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise NotAskedError(NO_KUBECTL.format(why=why)) from None
        assert process.stdout is not None
        assert process.stderr is not None
        self._running.add(process)
        if self._is_over:  # it was being started while the others were ended
            _end(process)
        try:
            yield process, process.stdout, _Words(process.stderr, is_live=is_first)
        finally:
            _end(process)
            self._running.discard(process)
            process.stdout.close()


class _Words:
    """Reads what kubectl writes to stderr: its own error is kept, and the words of others are shown at once.

    Those of others are the prompts of an exec plugin and warnings; without ``is_live`` they are kept too.
    """

    def __init__(self, stream: IO[bytes], *, is_live: bool) -> None:
        self._is_live = is_live
        self._own: list[bytes] = []
        self._others: list[bytes] = []
        self._reader = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._reader.start()

    def check(self, code: int) -> None:
        """Wait until all is read. Raises KubectlError where kubectl has failed, with its own message."""
        # A process that an exec plugin has left behind may keep the pipe open.
        self._reader.join(END_SECONDS)
        if not code:
            self._show(b"".join(self._own))
            return
        words = self._own or ([] if self._is_live else self._others)
        said = " ".join(b"".join(words).decode(errors="replace").split())
        raise KubectlError(said[:_QUOTED] or f"kubectl ended with exit code {code}")

    def _read(self, stream: IO[bytes]) -> None:
        line, shown = b"", 0
        with stream:
            while chunk := os.read(stream.fileno(), 4096):
                for part in chunk.splitlines(keepends=True):
                    line += part
                    is_whole = line.endswith(b"\n")
                    is_own = self._is_own(line, is_whole=is_whole)
                    if not is_own:
                        self._show(line[shown:])
                        shown = len(line)
                    if is_whole:
                        (self._own if is_own else self._others).append(line)
                        line, shown = b"", 0
        if self._is_own(line, is_whole=True):
            self._own.append(line)
        else:
            self._show(line[shown:])
            self._others.append(line)

    def _is_own(self, line: bytes, *, is_whole: bool) -> bool:
        """Whether a line is a part of kubectl's own error, or may become one."""
        if line.startswith(b"* ") and self._own:
            return True
        return any(line.startswith(each) or (not is_whole and each.startswith(line)) for each in _OWN)

    def _show(self, words: bytes) -> None:
        if self._is_live and words:
            sys.stderr.write(words.decode(errors="replace"))
            sys.stderr.flush()


def complete(read: Callable[[], T]) -> T:
    """Return what ``read`` does, which reads a list. Begins again where its moment is no longer known."""
    for _ in range(LIST_ATTEMPTS - 1):
        try:
            return read()
        except KubectlError as error:
            if error.reason not in _EXPIRED:
                raise
    return read()


def known(read: Callable[[], T]) -> tuple[T | None, str]:
    """Return what ``read`` does, or None and why the API server could not be asked."""
    try:
        return read(), ""
    except NotAskedError as error:
        return None, str(error)


def polled(read: Callable[[], T], *, seconds: float, sleep: Sleep = time.sleep) -> Iterator[tuple[T, str]]:
    """Yield what ``read`` returns every few seconds, and why it is not newer than that; empty where it is.

    Raises NotAskedError for the first time only.
    """
    found, trouble = read(), ""
    while True:
        yield found, trouble
        sleep(seconds)
        try:
            found, trouble = read(), ""
        except NotAskedError as error:
            trouble = str(error)


def decoded(decode: Callable[[bytes], T], answer: bytes) -> T:
    """Return the answer as ``decode`` reads it. Raises NotAskedError where it cannot be read."""
    try:
        return decode(answer)
    except (StreamGarbled, *BROKEN) as error:
        raise NotAskedError(f"{GARBLED} ({error})") from error


def _with_advice(said: str, reason: str) -> str:
    """Return what kubectl says, and what to do about it."""
    permission = parse_permission(said) if reason == "Forbidden" or "is forbidden: " in said else None
    if permission is not None:
        role = "a ClusterRole" if permission.namespace is None else f"a Role in {permission.namespace}"
        return f"{said}: add the rule {rule_text(permission)} to {role} that is bound to {permission.user}"
    if reason:
        return said
    return f"{said} (check that kubectl get {SHORT_NAME} works with the same flags)"


def read_lease(kubectl: Kubectl) -> LeaseRecord:
    """Return what the Lease says that the operator that leads renews. Raises NotAskedError."""
    return record_in(lease_object(kubectl))


def record_in(lease: Mapping[str, Any]) -> LeaseRecord:
    """Return what a Lease says, as far as it can be read."""
    spec = lease.get("spec")
    return read_record(spec if isinstance(spec, dict) else {})


def lease_object(kubectl: Kubectl) -> dict[str, Any]:
    """Return that Lease as the API server has it. Raises NotAskedError."""
    try:
        answer = kubectl.get(LEASE_PATH)
    except KubectlError as error:
        if error.reason != "NotFound":
            raise
        raise NotAskedError(
            f"no operator has created the Lease {NAMESPACE}/{LEASE}: check that one runs with "
            f"kubectl -n {NAMESPACE} get pods"
        ) from None
    return decoded(msgspec.json.Decoder(dict[str, Any]).decode, answer)


def _path(path: str, query: dict[str, str]) -> str:
    return f"{path}?{urlencode(query, quote_via=quote)}" if query else path


def _drain(stream: IO[bytes]) -> None:
    with suppress(ValueError):  # it was closed
        while stream.read(65536):
            pass


def _end(process: subprocess.Popen[Any]) -> None:
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
