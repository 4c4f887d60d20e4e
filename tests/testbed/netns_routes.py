"""What ``ip link set lo up`` and ``ip route add local NETWORK dev lo`` do, without ``ip``.

A fresh Linux machine with Python need not have iproute2. One ioctl and one rtnetlink message are all that
is needed of it (``netdevice(7)``, ``rtnetlink(7)``).
"""

import fcntl
import os
import socket
import struct
from ipaddress import IPv4Network
from typing import Final

LOOPBACK: Final = b"lo"
SIOCGIFFLAGS: Final = 0x8913
SIOCSIFFLAGS: Final = 0x8914
IFF_UP: Final = 0x1

NETLINK_ROUTE: Final = 0
NLMSG_ERROR: Final = 2
NLM_F_REQUEST: Final = 0x1
NLM_F_ACK: Final = 0x4
NLM_F_EXCL: Final = 0x200
NLM_F_CREATE: Final = 0x400
RTM_NEWROUTE: Final = 24
RT_TABLE_LOCAL: Final = 255
RTPROT_BOOT: Final = 3
RT_SCOPE_HOST: Final = 254
RTN_LOCAL: Final = 2
RTA_DST: Final = 1
RTA_OIF: Final = 4

_HEADER: Final = struct.Struct("=IHHII")
"""``nlmsghdr``: length, type, flags, sequence, port."""
_ROUTE: Final = struct.Struct("=BBBBBBBBI")
"""``rtmsg``: family, lengths of destination and source, TOS, table, protocol, scope, type, flags."""
_ATTRIBUTE: Final = struct.Struct("=HH")
_ERROR: Final = struct.Struct("=i")
_FLAGS: Final = struct.Struct("16sh14x")
"""``ifreq`` with flags."""


def bring_up_loopback() -> None:
    """Make the loopback device work; it is down in a new namespace.

    Raises:
        OSError: the kernel refuses.

    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        answer = fcntl.ioctl(any_socket, SIOCGIFFLAGS, _FLAGS.pack(LOOPBACK, 0))
        _, flags = _FLAGS.unpack(answer)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, _FLAGS.pack(LOOPBACK, flags | IFF_UP))


def add_local_route(network: IPv4Network) -> None:
    """Make every address of a network one of this machine's.

    Raises:
        OSError: the kernel refuses.

    """
    loopback = socket.if_nametoindex(LOOPBACK.decode())
    route = _ROUTE.pack(
        socket.AF_INET, network.prefixlen, 0, 0, RT_TABLE_LOCAL, RTPROT_BOOT, RT_SCOPE_HOST, RTN_LOCAL, 0
    )
    body = (
        route
        + _attribute(RTA_DST, network.network_address.packed)
        + _attribute(RTA_OIF, struct.pack("=I", loopback))
    )
    flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL
    message = _HEADER.pack(_HEADER.size + len(body), RTM_NEWROUTE, flags, 1, 0) + body
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_ROUTE) as kernel:
        kernel.sendto(message, (0, 0))
        answer = kernel.recv(4096)  # an acknowledgement is 36 bytes, or a refusal with our message in it
    _, kind, *_ = _HEADER.unpack_from(answer)
    (error,) = _ERROR.unpack_from(answer, _HEADER.size)
    if kind != NLMSG_ERROR or error != 0:
        raise OSError(-error, os.strerror(-error))


def _attribute(kind: int, content: bytes) -> bytes:
    """``rtattr``; our contents are four bytes, so that no padding is needed."""
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(content), kind) + content
