"""The composition root: makes every part, ties them together, runs them, and ends them.

Nothing here decides anything. ``App`` owns the tasks: if one of ours ends by itself that is a bug,
and the process ends with it rather than go on half alive.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from typing import TYPE_CHECKING, Any, Final

from winpool import __version__
from winpool.cluster.control_plane import ControlPlane
from winpool.cluster.credentials import load_connection
from winpool.cluster.errors import CredentialsError
from winpool.cluster.events import EventRecorder
from winpool.cluster.labelled import list_labelled, list_strays
from winpool.cluster.reflector import NodeReflector
from winpool.cluster.transport import Transport
from winpool.cluster.writer import Writer
from winpool.control.clock import Clock
from winpool.control.dispatch import Dispatcher
from winpool.control.executor import Executor
from winpool.control.observe import Observer
from winpool.control.own_tasks import OwnTasks
from winpool.control.pool_loops import PoolLoops
from winpool.control.pools import Pools
from winpool.control.reconcile import Reconciler
from winpool.control.relist import Relister
from winpool.control.stats import ControlStats
from winpool.control.sweeper import Sweeper
from winpool.handlers import Feed, make_registry
from winpool.serve import metrics
from winpool.serve.http import Server
from winpool.support.matrix import built_in
from winpool.support.rowfile import read_rows
from winpool.support.text import DataError

if TYPE_CHECKING:
    from collections.abc import Collection, Coroutine, Mapping
    from pathlib import Path

    import kopf

    from winpool.cluster.credentials import Connection
    from winpool.settings import Settings
    from winpool.snapshot import Node, Pool
    from winpool.support.rows import Row

log = logging.getLogger(__name__)

SILENCE_SECONDS: Final = 90.0
"""Not ready when the node watch heard nothing for so long: it gives up a silent connection after 70 s
and needs a moment to list anew."""


class App:
    """One running operator, over one connection."""

    def __init__(
        self,
        settings: Settings,
        *,
        connection: Connection,
        transport: Transport,
        cluster_rows: tuple[Row, ...] = (),
        clock: Clock | None = None,
    ) -> None:
        self._settings = settings
        self._connection = connection
        self._transport = transport
        self._stop = asyncio.Event()
        self._own = OwnTasks()
        self._stats = ControlStats()
        self._clock = clock or Clock()
        self._writer = Writer(transport)
        self._pools = Pools(on_change=self._pool_changed)
        self._control_plane = ControlPlane(transport, on_change=self._control_plane_changed)
        self._nodes = NodeReflector(
            transport,
            on_change=self._node_changed,
            on_contact=self._control_plane.ask,
            relist_seconds=settings.node_relist_seconds,
        )
        self._recorder = EventRecorder(
            transport, reporting_instance=socket.gethostname(), now=self._clock.now
        )
        self._executor = Executor(
            writer=self._writer,
            known=self._nodes.nodes,
            accept_written=self._nodes.accept_written,
            monotonic=self._clock.monotonic,
        )
        self._observer = Observer(
            pools=self._pools,
            nodes=self._nodes,
            control_plane=self._control_plane,
            now=self._clock.now,
            cluster_rows=cluster_rows,
        )
        self._loops = PoolLoops(
            pools=self._pools,
            observer=self._observer,
            make_reconciler=self._make_reconciler,
            create_task=self._create_task,
            stats=self._stats,
        )
        self._dispatcher = Dispatcher(pools=self._pools, wake=self._loops.wake)
        self._relister = Relister(
            writer=self._writer,
            pools=self._pools,
            period_seconds=settings.pool_relist_seconds,
            orphan_grace_seconds=settings.orphan_grace_seconds,
            after=self._pools_listed,
            monotonic=self._clock.monotonic,
        )
        self._sweeper = Sweeper(
            pools=self._pools,
            nodes=self._nodes,
            executor=self._executor,
            list_strays=lambda: list_strays(transport),
            monotonic=self._clock.monotonic,
        )
        self._feed = Feed(
            make_registry=self._make_registry, own_tasks=self._own, after_spawn=self._take_signals
        )

    async def run(self) -> int:
        """Run until SIGTERM or SIGINT; return the exit code: 1 where a part of ours broke.

        Cancelled, it ends everything as after a signal.
        """
        loop = asyncio.get_running_loop()
        self._own.watch(loop)
        self._take_signals()
        collector = metrics.WinpoolCollector(self, is_ready=lambda: not self.unready())
        server = Server(collector=collector, unready=self.unready)
        host, port = self._settings.host, self._settings.port
        try:
            port = await server.start(host=host, port=port)
        except OSError as error:
            log.error(  # noqa: TRY400 - a person reads this, who is not helped by a traceback
                "cannot serve on %s:%d: %s; choose another with --host and --port", host, port, error.strerror
            )
            await self._shut_down([], server)
            return 1
        log.info("winpool %s for %s, serving on port %d", __version__, self._connection.server, port)
        tasks = [
            asyncio.create_task(self._stop.wait(), name="stop"),
            asyncio.create_task(self._nodes.run(), name="nodes"),
            asyncio.create_task(self._relister.run(), name="pools"),
            asyncio.create_task(self._recorder.run(), name="events"),
            asyncio.create_task(self._sweeper.run(), name="sweeper"),
            asyncio.create_task(self._feed.run(), name="feed"),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            broken = [task for task in tasks[1:] if task.done()]
            for task in broken:
                log.error("the task '%s' ended, so the process ends", task.get_name(), exc_info=_error(task))
        finally:
            await self._shut_down(tasks, server)
        return 1 if broken else 0

    def unready(self) -> list[str]:
        """Return why the operator is not ready, for people; an empty list where it is."""
        reasons = []
        if self._relister.problem:
            reasons.append(f"pools: {self._relister.problem}")
        if not self._nodes.synced:
            reasons.append(f"nodes: {self._nodes.last_error or 'not listed yet'}")
        elif self._nodes.last_error is not None:
            reasons.append(f"nodes: {self._nodes.last_error}")
        elif self._nodes.last_contact_seconds > SILENCE_SECONDS:
            reasons.append(f"nodes: nothing heard for {self._nodes.last_contact_seconds:.0f} s")
        return reasons

    def pools(self) -> Collection[Pool]:
        """Return all pools that are known, for the metrics."""
        return self._pools.all()

    def numbers(self) -> Mapping[metrics.Definition, Mapping[metrics.Labels, float]]:
        """Return the operator's own numbers, for the metrics."""
        return {
            metrics.RECONCILES: {(result,): n for result, n in self._stats.passes.items()},
            metrics.RECONCILE_SECONDS: {(): self._stats.seconds},
            metrics.LAST_SUCCESS: {(): self._stats.last_success},
            metrics.API_REQUESTS: {key: n for key, n in self._transport.stats.requests.items()},  # noqa: C416 - wider keys
            metrics.WATCH_RESTARTS: {
                ("nodes",): self._nodes.stats.restarts,
                ("windowsnodepools",): self._feed.restarts,
            },
            metrics.NODES_CONTACT_AGE: {(): self._nodes.last_contact_seconds},
            metrics.EVENTS_POSTED: {(): self._recorder.posted},
            metrics.EVENTS_DROPPED: {(cause,): n for cause, n in self._recorder.dropped.items()},
        }

    async def _shut_down(self, tasks: list[asyncio.Task[Any]], server: Server) -> None:
        """End everything, in well under the 2 s that a SIGTERM may take; a pass may be cut anywhere."""
        for task in tasks:
            task.cancel()
        await self._loops.stop()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._recorder.flush()
        await server.close()

    def _make_reconciler(self, name: str) -> Reconciler:
        return Reconciler(
            name,
            observer=self._observer,
            pools=self._pools,
            executor=self._executor,
            writer=self._writer,
            recorder=self._recorder,
            relister=self._relister,
            list_labelled=lambda pool: list_labelled(self._transport, pool_name=pool),
            ask_for_nodes=self._nodes.ask_for_list,
            clock=self._clock,
        )

    def _make_registry(self) -> kopf.OperatorRegistry:
        return make_registry(
            accept=self._pools.accept,
            forget=self._forget,
            server=self._connection.server,
            make_session=self._transport.guest_session,
        )

    def _create_task(self, coro: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Start a task of ours, also when called from within the feed."""
        return self._own.outside(lambda: asyncio.create_task(coro, name=name))

    def _forget(self, body: Mapping[str, Any]) -> None:
        metadata = body["metadata"]
        self._pools.forget(name=metadata["name"], uid=metadata["uid"], version=metadata["resourceVersion"])

    def _pool_changed(self, name: str, *, for_rivals: bool) -> None:
        self._dispatcher.pool_changed(name, for_rivals=for_rivals)

    def _pools_listed(self) -> None:
        self._loops.wake_all()
        self._sweeper.pools_listed()

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        self._dispatcher.node_changed(old, new)
        if old is not None and new is None:
            self._sweeper.node_gone(old)

    def _control_plane_changed(self) -> None:
        self._loops.wake_all()

    def _take_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)


def _error(task: asyncio.Task[Any]) -> BaseException | None:
    return None if task.cancelled() else task.exception()


def read_cluster_rows(path: Path | None) -> tuple[Row, ...]:
    """Read the rows that stand in the file of the operator's settings.

    Raises DataError with all that is wrong with it, and OSError.
    """
    return read_rows(path.read_text(encoding="utf-8"), matrix=built_in()) if path else ()


async def run(settings: Settings) -> int:
    """Run the operator with ``settings``; return the exit code of the process."""
    try:
        rows = read_cluster_rows(settings.support_matrix_file)
    except (DataError, OSError, UnicodeDecodeError) as error:
        # Not without the rows: a pool that relies on one would be told that its nodes are unsupported.
        log.error("--support-matrix-file %s: %s", settings.support_matrix_file, error)  # noqa: TRY400 - for people
        return 1
    try:
        connection = await load_connection(
            kubeconfig=str(settings.kubeconfig) if settings.kubeconfig else None, context=settings.context
        )
    except CredentialsError as error:
        log.error("%s", error.message)  # noqa: TRY400 - a person reads this, who is not helped by a traceback
        return 1
    async with Transport(connection) as transport:
        return await App(settings, connection=connection, transport=transport, cluster_rows=rows).run()
