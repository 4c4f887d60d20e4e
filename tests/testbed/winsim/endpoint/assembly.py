"""Puts the endpoints of a process together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from testbed.pki import Authority, Pair
from testbed.winsim.endpoint.certificates import Certificates
from testbed.winsim.endpoint.server import Endpoint

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from testbed.winsim.clock import Clock
    from testbed.winsim.endpoint.options import EndpointOptions
    from testbed.winsim.wire import Wire


def build_endpoint(
    options: EndpointOptions | None,
    *,
    clients: Path,
    wire: Wire,
    clock: Clock,
    say: Callable[[str], None],
) -> Endpoint | None:
    """Return the endpoints, bound to their ports; None where none are wanted.

    ``clients`` is the authority of the cluster, which signs the certificate that the API server shows.

    Raises:
        OSError: a port is taken.

    """
    if options is None:
        return None
    return Endpoint(
        options,
        certificates=Certificates(Authority.load(Pair(options.ca, options.ca_key)), clients=clients),
        wire=wire,
        clock=clock,
        say=say,
    )
