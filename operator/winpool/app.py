"""Makes every part of the operator from its settings, connects them, runs them, and ends them.

It decides nothing. What is missing before the start, such as a file, ends the process with one line in the
log that says what. ``App`` owns the tasks: if one of them ends by itself, a bug, the process ends too.

Python looks for garbage in cycles rarely. An operator holds some hundred thousand objects for as long as it
runs, and each poll of a kubelet makes some hundred that are gone soon after, most of them without the
collector. By Python's own thresholds it looked for cycles ten times a second at 100 polls per second: 13 % of
the CPU time in a profile of 5,000 nodes, of which 250 were hot.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, Final

from winpool import __version__
from winpool.controllers.controller import Controller
from winpool.controllers.memory_polls import Connections
from winpool.decide import FEATURES
from winpool.features.feature import Feature
from winpool.kube.backoff import FirstRefusals
from winpool.kube.client import Transport
from winpool.kube.credentials import Connection, load_connection
from winpool.kube.errors import CredentialsError
from winpool.kube.feed import Feed, make_registry, note_lost_exception
from winpool.kube.leader_election import (
    Elector,
    LeaseLostError,
    OtherOperator,
    connected,
    make_identity,
    running_on,
)
from winpool.kube.tokens import ReaderToken, Reviews
from winpool.loops import Clock
from winpool.sampling import SamplingError, addresses_of, make_sampling, service_of
from winpool.serve.access import Access
from winpool.serve.http import MEMORY_PATH, METRICS_PATH, Memory, MemorySource, Server
from winpool.serve.tls import ServingTls, TlsFiles, TlsFilesError
from winpool.settings import Settings
from winpool.support.data import DataError
from winpool.support.matrix import built_in
from winpool.support.rows import Row, read_rows
from winpool.telemetry import Telemetry

log = logging.getLogger(__name__)

_READERS: Final = {METRICS_PATH: "winpool-metrics-reader", MEMORY_PATH: "winpool-memory-reader"}
"""The ClusterRoles of ``deploy`` with the right to get a path."""


def make_memory(
    source: MemorySource | None, elector: Elector, access: Access | None, *, monotonic: Callable[[], float]
) -> Memory | None:
    """Return what answers /memory with what ``source`` knows, while this process leads; None without one."""
    if source is None:
        return None
    return Memory(
        source,
        standby=lambda: "" if elector.leads else no_memory_here(elector.holder),
        access=access,
        monotonic=monotonic,
    )


def no_memory_here(holder: str) -> str:
    """Say why an operator that stands by has no memory of nodes. ``holder`` is empty where no one leads."""
    where = f"ask {holder}, which holds" if holder else "no operator holds"
    return (
        "this operator stands by, and only the operator that leads reads the memory of nodes: "
        f"{where} the Lease winpool-system/winpool"
    )


def make_access(
    path: str, settings: Settings, *, transport: Transport, monotonic: Callable[[], float]
) -> Access | None:
    """Return what decides who may read ``path``; None where the settings let everyone."""
    if settings.metrics_auth == "none":
        return None
    reviews = Reviews(transport, path=path, monotonic=monotonic)
    return Access(reviews.review, path=path, role=_READERS[path], monotonic=monotonic)


def make_tls(settings: Settings) -> ServingTls | None:
    """Return the certificate to serve the metrics with; None for plain HTTP. Raises TlsFilesError."""
    if settings.tls_cert_file is None or settings.tls_key_file is None:  # Settings has refused one alone
        return None
    return ServingTls(TlsFiles(certificate=settings.tls_cert_file, key=settings.tls_key_file))


def log_who_may_read(settings: Settings) -> None:
    """Log who may read the metrics, with a warning where that is more open than it may seem."""
    if settings.metrics_auth == "none":
        log.info("everyone who reaches the port can read /metrics; --metrics-auth=token requires a token")
    elif settings.tls_cert_file is not None:
        log.info(
            "/metrics is served by HTTPS and requires the token of a user who may get the nonResourceURL "
            "/metrics"
        )
    else:
        log.warning(
            "/metrics requires a token and has no TLS: everyone on the way can read and use the tokens; set "
            "--tls-cert-file and --tls-key-file"
        )


@dataclass(eq=False)
class App:
    """One running operator, over one connection.

    ``connect`` returns what samples of memory come through, from the token that kubelets are shown; without
    it none are taken. Without an ``elector`` there is no leader election.
    """

    settings: Settings
    _: KW_ONLY
    connection: Connection
    transport: Transport
    tls: ServingTls | None = None
    cluster_rows: tuple[Row, ...] = ()
    connect: Callable[[ReaderToken], Connections] | None = None
    clock: Clock = field(default_factory=Clock)
    features: Sequence[Feature] = FEATURES
    elector: Elector | None = None

    def __post_init__(self) -> None:
        """Make the parts."""
        settings, transport, clock = self.settings, self.transport, self.clock
        self._elector = self.elector or OtherOperator(transport)
        self._stop = asyncio.Event()
        self._controller = Controller(
            transport,
            settings,
            elector=self._elector,
            clock=clock,
            cluster_rows=self.cluster_rows,
            features=self.features,
            connections=self.connect
            and self.connect(ReaderToken(transport, monotonic=running_on, on_problem=self._all_changed)),
        )
        self._services = services = self._controller.services
        pool_kind = self._controller.pool_kind
        self._feed = Feed(
            make_registry=lambda: make_registry(
                accept=services.pools.accept,
                forget=self._forget,
                server=self.connection.server,
                make_session=transport.guest_session,
            ),
            after_spawn=self._take_signals,
            are_listed=lambda: not (services.relister.problem or pool_kind.is_missing),
            list_again=services.relister.ask,
        )
        self._access = make_access(METRICS_PATH, settings, transport=transport, monotonic=clock.monotonic)
        self._telemetry = Telemetry(
            services=services,
            transport=transport,
            pool_kind=pool_kind,
            feed=self._feed,
            elector=self._elector,
            access=self._access,
            tls=self.tls,
        )

    async def run(self) -> int:
        """Run until SIGTERM or SIGINT; return the exit code: 1 where a task has ended by itself.

        When cancelled, it ends everything as after a signal.
        """
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(note_lost_exception)
        self._take_signals()
        unready, monotonic = self._telemetry.unready, self.clock.monotonic
        access = make_access(MEMORY_PATH, self.settings, transport=self.transport, monotonic=monotonic)
        server = Server(
            metrics=self._telemetry,
            memory=make_memory(self._services.memory, self._elector, access, monotonic=monotonic),
            unready=unready,
            access=self._access,
            tls=self.tls,
        )
        if not await self._serve(server):
            await self._shut_down([], server)
            return 1
        tasks = [
            asyncio.create_task(self._stop.wait(), name="stop"),
            asyncio.create_task(self._feed.run(), name="feed"),
            *(asyncio.create_task(work, name=name) for name, work in self._controller.loops().items()),
            asyncio.create_task(
                self._elector.lead(self._controller.begin, self._controller.all_changed), name="Lease"
            ),
        ]
        if self.tls is not None:
            tasks.append(asyncio.create_task(self.tls.run(), name="tls"))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            broken = [task for task in tasks[1:] if task.done()]
            for task in broken:
                error, why = None if task.cancelled() else task.exception(), ""
                if isinstance(error, LeaseLostError):  # no bug of ours, which a traceback would look like
                    error, why = None, f": {error}"
                log.error("the task '%s' ended, so the process ends%s", task.get_name(), why, exc_info=error)
        finally:
            await self._shut_down(tasks, server)
        return 1 if broken else 0

    async def _serve(self, server: Server) -> bool:
        """Listen, and log where; False, with a message in the log, where that is not possible."""
        host, port, health_port = self.settings.host, self.settings.port, self.settings.health_port
        apart = health_port is not None
        try:
            bound = await server.start(host=host, port=port, health_port=health_port)
        except OSError as error:
            log.error(  # noqa: TRY400 - a person reads this, who is not helped by a traceback
                "cannot serve on %s:%d%s: %s; choose another with --host, --port and --health-port",
                host,
                port,
                f" and {host}:{health_port}" if apart else "",
                error.strerror,
            )
            return False
        also = f", health on port {server.health_port}" if apart else ""
        log.info("winpool %s for %s, serving on port %d%s", __version__, self.connection.server, bound, also)
        log_who_may_read(self.settings)
        return True

    async def _shut_down(self, tasks: list[asyncio.Task[Any]], server: Server) -> None:
        """End everything, in much less than the 2 s that a SIGTERM may take; a pass may end at any point."""
        for task in tasks:
            task.cancel()
        await self._controller.stop()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._services.recorder.flush()
        await self._elector.release()
        await server.close()

    def _forget(self, body: Mapping[str, Any]) -> None:
        metadata = body["metadata"]
        self._services.pools.forget(
            name=metadata["name"], uid=metadata["uid"], version=metadata["resourceVersion"]
        )

    def _all_changed(self) -> None:
        self._controller.all_changed()

    def _take_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end_by, number)

    def _end_by(self, number: signal.Signals) -> None:
        if not self._stop.is_set():
            log.info("%s received: the operator ends", number.name)
        self._stop.set()


YOUNG: Final = 20_000
"""New objects between two looks at the new ones: a few megabytes of garbage at most. Python's own is 700."""

OLDER: Final = 20
"""Looks at one generation between two at the next one. Python's own is 10."""


def collect_rarely() -> None:
    """Begin to look for cycles, rarely, and never in what was imported. Call it once, after all imports.

    https://docs.python.org/3/library/gc.html#gc.freeze
    """
    gc.freeze()
    gc.set_threshold(YOUNG, OLDER, OLDER)
    gc.enable()


def read_cluster_rows(path: Path | None) -> tuple[Row, ...]:
    """Read the rows of the file that the operator's settings name.

    Raises DataError with all that is wrong with it, and OSError.
    """
    return read_rows(path.read_text(encoding="utf-8"), matrix=built_in()) if path else ()


async def run(settings: Settings, *, features: Sequence[Feature] = FEATURES) -> int:
    """Run the operator with ``settings`` and ``features``; return the exit code of the process."""
    try:
        rows = read_cluster_rows(settings.support_matrix_file)
    except (DataError, OSError, UnicodeDecodeError) as error:
        # It does not run without the rows: a pool that needs one would report its nodes as unsupported.
        log.error("--support-matrix-file %s: %s", settings.support_matrix_file, error)  # noqa: TRY400 - for people
        return 1
    try:
        tls = make_tls(settings)
        connect = make_sampling(settings, monotonic=time.monotonic)
        connection = await load_connection(
            kubeconfig=str(settings.kubeconfig) if settings.kubeconfig else None, context=settings.context
        )
    except (TlsFilesError, SamplingError, CredentialsError) as error:
        log.error("%s", error)  # noqa: TRY400 - a person reads this, who is not helped by a traceback
        return 1
    api_server = await addresses_of(connection.server, *service_of(os.environ))
    refusals = FirstRefusals(monotonic=time.monotonic)
    identity = make_identity(socket.gethostname())
    connecting = connected(connection, identity=identity, elects=settings.leader_elect, refusals=refusals)
    async with connecting as (transport, elector):
        app = App(
            settings,
            connection=connection,
            transport=transport,
            elector=elector,
            tls=tls,
            cluster_rows=rows,
            connect=lambda token: connect(token, api_server),
            features=features,
        )
        return await app.run()
