"""Prepares what the operator needs before it starts, such as files and credentials, and runs it.

Whatever is missing ends the process, with one line in the log that says what.

From then on Python looks for garbage in cycles rarely. An operator holds some hundred thousand objects for as
long as it runs, and each poll of a kubelet makes some hundred that are gone soon after, most of them without
the collector. By Python's own thresholds it looked for cycles ten times a second at 100 polls per second: 13
% of the CPU time in a profile of 5,000 nodes, of which 250 were hot.
"""

from __future__ import annotations

import gc
import logging
import os
import socket
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from winpool.app import App, make_tls
from winpool.decide import FEATURES
from winpool.features.feature import Feature
from winpool.features.memory.victims import namespaces_of
from winpool.kube.backoff import FirstRefusals
from winpool.kube.credentials import load_connection
from winpool.kube.errors import CredentialsError
from winpool.kube.leader_election import connected, make_identity
from winpool.sampling import SamplingError, addresses_of, connections_of, make_sampling, service_of
from winpool.serve.tls import TlsFilesError
from winpool.settings import Settings
from winpool.support.data import DataError
from winpool.support.matrix import built_in
from winpool.support.rows import Row, read_rows

YOUNG: Final = 20_000
"""New objects between two looks at the new ones: a few megabytes of garbage at most. Python's own is 700."""

OLDER: Final = 20
"""Looks at one generation between two at the next one. Python's own is 10."""


def collect_rarely() -> None:
    """Begin to look for cycles, rarely, and never in what was imported. Call it once, after all imports.

    https://docs.python.org/3/library/gc.html#gc.freeze
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, OLDER, OLDER)
    gc.enable()


log = logging.getLogger(__name__)


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
        sampling = make_sampling(settings, monotonic=time.monotonic)
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
            connect=partial(
                connections_of,
                sampling,
                api_server=api_server,
                protected_namespaces=namespaces_of(settings.protected_namespaces or ""),
            ),
            features=features,
        )
        return await app.run()
