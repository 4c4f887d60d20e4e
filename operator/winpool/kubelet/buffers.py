"""The read buffers of asyncio's TLS connections: most of the memory that one takes.

Those to Prometheus and to the API server are such. Those to kubelets are not (``wire``).
"""

from __future__ import annotations

from asyncio import sslproto
from typing import Final

TLS_BUFFER_BYTES: Final = 16 * 1024
"""About one record of TLS, the most that OpenSSL decrypts at once. asyncio has 256 KiB. With 16, a
connection was measured to take 90 kB instead of 330, and a poll no more time."""


def shrink_tls_buffers() -> None:
    """Give each TLS connection that this process makes from now on a read buffer of TLS_BUFFER_BYTES.

    The queries of a Prometheus are nine connections. asyncio has no setting for single connections, so those
    to the API server get such a buffer too. They read a page of 500 nodes in a hundred parts instead of six,
    which takes a millisecond.
    """
    sslproto.SSLProtocol.max_size = TLS_BUFFER_BYTES
