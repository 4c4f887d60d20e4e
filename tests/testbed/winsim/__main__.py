"""Entry point of ``python -m testbed.winsim``: run until told to end, then leave as told."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from random import Random
from typing import TYPE_CHECKING, Final

from testbed.errors import TestbedError
from testbed.paths import write_atomically
from testbed.winsim.clock import SystemClock
from testbed.winsim.controlserver import ControlServer
from testbed.winsim.endpoint.assembly import build_endpoint
from testbed.winsim.fleet import Fleet
from testbed.winsim.options import Options, parse_options
from testbed.winsim.parts import Settings
from testbed.winsim.pods.steps import PodTiming
from testbed.winsim.roster import Roster
from testbed.winsim.schedule import Timing
from testbed.winsim.wire import Wire, tls_context

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

# Enough to look one up; thousands of names would hide the sentence.
_NAMED_AT_MOST: Final = 10


def main() -> int:
    """Simulate nodes until SIGTERM or SIGINT.

    Returns the exit code: 0 after an orderly end, 1 where nodes that should be deleted are left,
    2 for a mistake on the command line.
    """
    options = parse_options()
    by, tls = options.front_proxy, None
    try:
        if by is not None:
            tls = tls_context(ca=by.ca, certificate=by.certificate, key=by.key)
    except OSError as error:
        sys.stderr.write(f"winsim: cannot use --ca, --cert and --key: {error}\n")
        return 2
    roster = Roster(options.plan.prefix, path=options.roster)
    try:
        roster.load()
    except TestbedError as error:
        sys.stderr.write(f"winsim: {error}\n")
        return 2
    return asyncio.run(_simulate(options, roster=roster, tls=tls))


async def _simulate(options: Options, *, roster: Roster, tls: ssl.SSLContext | None) -> int:
    stop, hurry = asyncio.Event(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, _on_signal, stop, hurry)
    if options.ready_file is not None:
        options.ready_file.unlink(missing_ok=True)
    clock = SystemClock()
    async with Wire(
        options.server, tls=tls, clock=clock, random=Random(), say=_say, proxy=options.kubectl_proxy
    ) as wire:
        try:
            endpoint = (
                build_endpoint(
                    options.endpoint, clients=options.front_proxy.ca, wire=wire, clock=clock, say=_say
                )
                if options.front_proxy is not None
                else None
            )
        except OSError as error:
            sys.stderr.write(f"winsim: cannot serve the kubelets' endpoints: {error}\n")
            return 2
        fleet = Fleet(
            options.plan,
            roster=roster,
            server=options.server,
            settings=Settings(
                wire=wire,
                clock=clock,
                timing=Timing(
                    lease_duration=options.lease_duration_seconds, status_sync=options.status_sync_seconds
                ),
                pod_timing=PodTiming(
                    start=options.pod_start_seconds,
                    stop=options.pod_stop_seconds,
                    time_scale=options.time_scale,
                ),
                detach_seconds=options.detach_seconds,
                say=_say,
            ),
            endpoint=endpoint,
        )
        await _run_until(stop, fleet=fleet, options=options)
        return await _leave(fleet, hurry=hurry) if options.delete_on_exit else 0


def _on_signal(stop: asyncio.Event, hurry: asyncio.Event) -> None:
    (hurry if stop.is_set() else stop).set()


async def _run_until(stop: asyncio.Event, *, fleet: Fleet, options: Options) -> None:
    async with asyncio.TaskGroup() as tasks:
        work = [
            tasks.create_task(fleet.run()),
            tasks.create_task(_announce(fleet, ready_file=options.ready_file)),
        ]
        if options.control_socket is not None:
            work.append(tasks.create_task(ControlServer(fleet).serve(options.control_socket)))
        await stop.wait()
        for task in work:
            task.cancel()


async def _announce(fleet: Fleet, *, ready_file: Path | None) -> None:
    await fleet.ready.wait()
    # Thousands of records now live to the end: without them in its way the collector costs nothing.
    gc.freeze()
    if ready_file is not None:
        write_atomically(ready_file, "Ready\n")


async def _leave(fleet: Fleet, *, hurry: asyncio.Event) -> int:
    removal = asyncio.create_task(fleet.remove_nodes())
    impatience = asyncio.create_task(hurry.wait())
    await asyncio.wait({removal, impatience}, return_when=asyncio.FIRST_COMPLETED)
    impatience.cancel()
    if not removal.done():
        removal.cancel()
        _say("interrupted again: nodes may be left on the API server")
        return 1
    if left := removal.result():
        some = ", ".join(sorted(left)[:_NAMED_AT_MOST]) + (" ..." if len(left) > _NAMED_AT_MOST else "")
        _say(f"{len(left)} nodes could not be deleted: {some}")
        return 1
    _say("all nodes deleted")
    return 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
