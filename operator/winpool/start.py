"""What has to be there before the operator starts: files, credentials, a seat. Then it runs.

Whatever is missing ends the process, with one line in the log that says what.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from functools import partial
from typing import TYPE_CHECKING

from winpool.app import App
from winpool.cluster.credentials import load_connection
from winpool.cluster.errors import CredentialsError
from winpool.cluster.first_refusals import FirstRefusals
from winpool.decide import ROOMS
from winpool.lease.clock import make_identity
from winpool.lease.seat import seated
from winpool.memory.candidates import namespaces_of
from winpool.sampling import SamplingError, addresses_of, connections_of, make_sampling, service_of
from winpool.serve.tls import TlsFilesError
from winpool.serving import make_tls
from winpool.support.matrix import built_in
from winpool.support.rowfile import read_rows
from winpool.support.text import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from winpool.rooms import Room
    from winpool.settings import Settings
    from winpool.support.rows import Row

log = logging.getLogger(__name__)


def read_cluster_rows(path: Path | None) -> tuple[Row, ...]:
    """Read the rows of the file that the operator's settings name.

    Raises DataError with all that is wrong with it, and OSError.
    """
    return read_rows(path.read_text(encoding="utf-8"), matrix=built_in()) if path else ()


async def run(settings: Settings, *, rooms: Sequence[Room] = ROOMS) -> int:
    """Run the operator with ``settings`` and ``rooms``; return the exit code of the process."""
    try:
        rows = read_cluster_rows(settings.support_matrix_file)
    except (DataError, OSError, UnicodeDecodeError) as error:
        # It does not run without the rows: a pool that needs one would report its nodes as unsupported.
        log.error("--support-matrix-file %s: %s", settings.support_matrix_file, error)  # noqa: TRY400 - for people
        return 1
    try:
        tls = make_tls(settings)
    except TlsFilesError as error:
        log.error("%s", error)  # noqa: TRY400 - for people
        return 1
    try:
        sampling = make_sampling(settings, monotonic=time.monotonic)
    except SamplingError as error:
        log.error("%s", error)  # noqa: TRY400 - for people
        return 1
    try:
        connection = await load_connection(
            kubeconfig=str(settings.kubeconfig) if settings.kubeconfig else None, context=settings.context
        )
    except CredentialsError as error:
        log.error("%s", error.message)  # noqa: TRY400 - a person reads this, who is not helped by a traceback
        return 1
    api_server = await addresses_of(connection.server, *service_of(os.environ))
    refusals = FirstRefusals(monotonic=time.monotonic)
    identity = make_identity(socket.gethostname())
    seating = seated(connection, identity=identity, elects=settings.leader_elect, refusals=refusals)
    async with seating as (transport, seat):
        app = App(
            settings,
            connection=connection,
            transport=transport,
            seat=seat,
            tls=tls,
            cluster_rows=rows,
            connect=partial(
                connections_of,
                sampling,
                api_server=api_server,
                protected_namespaces=namespaces_of(settings.protected_namespaces or ""),
            ),
            rooms=rooms,
        )
        return await app.run()
