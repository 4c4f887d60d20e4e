"""The composition root: makes every part, connects them, runs them, and ends them.

It decides nothing. ``App`` owns the tasks: if one of them ends by itself, a bug, the process ends too.

Who may read /metrics and /memory, by the settings: connects ``serve`` with what asks the API server.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import kopf

from winpool import __version__
from winpool.controllers.controller import Controller
from winpool.controllers.memory_polls import Connections
from winpool.controllers.pools import Absences, Pools
from winpool.controllers.services import Clock
from winpool.decide import ROOMS
from winpool.features.feature import Room
from winpool.kube.client import Transport
from winpool.kube.control_plane import ControlPlane
from winpool.kube.credentials import Connection
from winpool.kube.events import EventRecorder
from winpool.kube.feed import Feed, make_registry, note_lost_exception
from winpool.kube.guard import Guard
from winpool.kube.leader_election import Elector, LeaseLostError
from winpool.kube.lease import OtherOperator, running_on
from winpool.kube.nodes import WINDOWS_NODES
from winpool.kube.pools import PoolKind
from winpool.kube.reader_token import ReaderToken
from winpool.kube.reviews import Reviews
from winpool.kube.watch import ListWatch
from winpool.kubelet.connection import Token
from winpool.model.node import Node
from winpool.serve.access import Access
from winpool.serve.http import METRICS_PATH, Server
from winpool.serve.memory import MEMORY_PATH, Memory, MemorySource
from winpool.serve.metrics import WinpoolMetrics
from winpool.serve.tls import ServingTls, TlsFiles
from winpool.settings import Settings
from winpool.support.rows import Row
from winpool.telemetry import Telemetry

log = logging.getLogger(__name__)

_READERS: Final = {METRICS_PATH: "winpool-metrics-reader", MEMORY_PATH: "winpool-memory-reader"}
"""The ClusterRoles of ``deploy`` with the right to get a path."""


def make_access(settings: Settings, *, transport: Transport, monotonic: Callable[[], float]) -> Access | None:
    """Return what decides who may read the metrics; None where everyone may."""
    return _access_to(METRICS_PATH, settings, transport=transport, monotonic=monotonic)


def make_memory(
    *,
    settings: Settings,
    source: MemorySource | None,
    elector: Elector,
    transport: Transport,
    monotonic: Callable[[], float],
) -> Memory | None:
    """Return what answers /memory with what ``source`` knows, while this process leads; None without one."""
    if source is None:
        return None
    return Memory(
        source,
        standby=lambda: "" if elector.leads else no_memory_here(elector.holder),
        access=_access_to(MEMORY_PATH, settings, transport=transport, monotonic=monotonic),
        monotonic=monotonic,
    )


def no_memory_here(holder: str) -> str:
    """Say why an operator that stands by has no memory of nodes. ``holder`` is empty where no one leads."""
    where = f"ask {holder}, which holds" if holder else "no operator holds"
    return (
        "this operator stands by, and only the operator that leads reads the memory of nodes: "
        f"{where} the Lease winpool-system/winpool"
    )


def _access_to(
    path: str, settings: Settings, *, transport: Transport, monotonic: Callable[[], float]
) -> Access | None:
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
    has_tls = settings.tls_cert_file is not None
    if settings.metrics_auth == "none":
        log.info("everyone who reaches the port can read /metrics; --metrics-auth=token requires a token")
    elif has_tls:
        log.info(
            "/metrics is served by HTTPS and requires the token of a user who may get the nonResourceURL "
            "/metrics"
        )
    else:
        log.warning(
            "/metrics requires a token and has no TLS: everyone on the way can read and use the tokens; set "
            "--tls-cert-file and --tls-key-file"
        )


class App:
    """One running operator, over one connection."""

    def __init__(
        self,
        settings: Settings,
        *,
        connection: Connection,
        transport: Transport,
        tls: ServingTls | None = None,
        cluster_rows: tuple[Row, ...] = (),
        connect: Callable[[Token], Connections] | None = None,
        clock: Clock | None = None,
        rooms: Sequence[Room] = ROOMS,
        elector: Elector | None = None,
    ) -> None:
        """Make the parts; without a ``elector`` there is no leader election.

        ``connect`` returns what samples of memory come through, from the token that kubelets are shown.
        Without it none are taken.
        """
        self._connect = connect
        self._elector = elector or OtherOperator(transport)
        self._rooms = rooms
        self._settings = settings
        self._connection = connection
        self._transport = transport
        self._stop = asyncio.Event()
        self._clock = clock = clock or Clock()
        self._tls = tls
        self._access = make_access(settings, transport=transport, monotonic=clock.monotonic)
        # These report changes before the controller exists: it is made from them.
        self._pools = Pools(
            on_change=self._pool_changed,
            absences=Absences(
                grace_seconds=settings.orphan_grace_seconds, clock=clock, on_doubt=self._pool_doubted
            ),
        )
        self._pool_kind = PoolKind(
            transport,
            on_change=self._pool_kind_changed,
            on_fields=self._all_changed,
            monotonic=clock.monotonic,
        )
        self._control_plane = ControlPlane(transport, on_change=self._control_plane_changed, now=clock.now)
        self._nodes = ListWatch(
            transport,
            WINDOWS_NODES,
            on_change=self._node_changed,
            on_contact=self._control_plane.ask,
            relist_seconds=settings.node_relist_seconds,
        )
        self._guard = Guard(
            transport,
            on_change=self._guard_changed,
            others_silent_seconds=lambda: self._nodes.last_contact_seconds,
            now=clock.now,
            monotonic=clock.monotonic,
        )
        self._recorder = EventRecorder(
            transport,
            reporting_instance=socket.gethostname(),
            now=clock.now,
            per_second=settings.events_per_second,
        )
        self._controller = self._make_controller(clock, cluster_rows)
        self._feed = Feed(
            make_registry=self._make_registry,
            after_spawn=self._take_signals,
            are_listed=lambda: not (self._controller.relister.problem or self._pool_kind.is_missing),
            list_again=self._controller.relister.ask,
        )
        self._telemetry = self._make_telemetry()

    async def run(self) -> int:
        """Run until SIGTERM or SIGINT; return the exit code: 1 where a task has ended by itself.

        When cancelled, it ends everything as after a signal.
        """
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(note_lost_exception)
        self._take_signals()
        unready = self._telemetry.unready
        metrics = WinpoolMetrics(self._telemetry, is_ready=lambda: not unready())
        server = Server(
            metrics=metrics,
            memory=make_memory(
                settings=self._settings,
                source=self._controller.memory,
                elector=self._elector,
                transport=self._transport,
                monotonic=self._clock.monotonic,
            ),
            unready=unready,
            access=self._access,
            tls=self._tls,
        )
        if not await self._serve(server):
            await self._shut_down([], server)
            return 1
        tasks = [
            asyncio.create_task(self._stop.wait(), name="stop"),
            asyncio.create_task(self._nodes.run(), name="nodes"),
            asyncio.create_task(self._guard.run(), name="guard"),
            asyncio.create_task(self._pool_kind.run(), name="kind"),
            asyncio.create_task(self._controller.relister.run(), name="pools"),
            asyncio.create_task(self._recorder.run(), name="events"),
            asyncio.create_task(self._feed.run(), name="feed"),
            *(asyncio.create_task(work, name=name) for name, work in self._controller.when_leading().items()),
            asyncio.create_task(
                self._elector.lead(self._controller.begin, self._controller.all_changed), name="Lease"
            ),
        ]
        if self._tls is not None:
            tasks.append(asyncio.create_task(self._tls.run(), name="tls"))
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
        host, port, health_port = self._settings.host, self._settings.port, self._settings.health_port
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
        log.info("winpool %s for %s, serving on port %d%s", __version__, self._connection.server, bound, also)
        log_who_may_read(self._settings)
        return True

    async def _shut_down(self, tasks: list[asyncio.Task[Any]], server: Server) -> None:
        """End everything, in much less than the 2 s that a SIGTERM may take; a pass may end at any point."""
        for task in tasks:
            task.cancel()
        await self._controller.stop()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._recorder.flush()
        await self._elector.release()
        await server.close()

    def _make_controller(self, clock: Clock, cluster_rows: tuple[Row, ...]) -> Controller:
        return Controller(
            self._transport,
            pools=self._pools,
            nodes=self._nodes,
            control_plane=self._control_plane,
            guard=self._guard,
            other_operator=lambda: self._elector.other,
            lacking_fields=lambda: self._pool_kind.lacking_fields,
            recorder=self._recorder,
            create_task=lambda coro, name: asyncio.create_task(coro, name=name),
            pool_relist_seconds=self._settings.pool_relist_seconds,
            pod_pass_seconds=self._settings.pod_pass_seconds,
            cluster_rows=cluster_rows,
            clock=clock,
            rooms=self._rooms,
            connections=self._connect
            and self._connect(
                ReaderToken(self._transport, monotonic=running_on, on_problem=self._all_changed)
            ),
        )

    def _make_telemetry(self) -> Telemetry:
        return Telemetry(
            transport=self._transport,
            known=self._pools,
            pool_kind=self._pool_kind,
            nodes=self._nodes,
            guard=self._guard,
            recorder=self._recorder,
            relister=self._controller.relister,
            feed=self._feed,
            stats=self._controller.stats,
            pod_passes=self._controller.pod_pass.stats,
            access=self._access,
            tls=self._tls,
            elector=self._elector,
            memory=self._controller.memory,
            upgrades=self._controller.upgrades.stats,
        )

    def _make_registry(self) -> kopf.OperatorRegistry:
        return make_registry(
            accept=self._pools.accept,
            forget=self._forget,
            server=self._connection.server,
            make_session=self._transport.guest_session,
        )

    def _forget(self, body: Mapping[str, Any]) -> None:
        metadata = body["metadata"]
        self._pools.forget(name=metadata["name"], uid=metadata["uid"], version=metadata["resourceVersion"])

    def _pool_changed(self, name: str, *, for_rivals: bool) -> None:
        self._controller.pool_changed(name, for_rivals=for_rivals)

    def _pool_doubted(self) -> None:
        self._controller.relister.doubted()

    def _pool_kind_changed(self) -> None:
        self._controller.relister.kind_changed()

    def _all_changed(self) -> None:
        self._controller.all_changed()

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        self._controller.node_changed(old, new)

    def _control_plane_changed(self) -> None:
        self._controller.control_plane_changed()

    def _guard_changed(self) -> None:
        self._controller.guard_changed()

    def _take_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end_by, number)

    def _end_by(self, number: signal.Signals) -> None:
        if not self._stop.is_set():
            log.info("%s received: the operator ends", number.name)
        self._stop.set()
