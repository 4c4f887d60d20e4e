"""Who a request speaks for.

The front proxy's certificate vouches for any user, so that one process can be every node. On a cluster of
somebody else, a person who may impersonate nodes does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Identity:
    """A user of the API server, as the front proxy names it."""

    user: str
    group: str

    @property
    def headers(self) -> dict[str, str]:
        """The headers that make a request this user's."""
        return {"X-Remote-User": self.user, "X-Remote-Group": self.group}

    @property
    def impersonation(self) -> dict[str, str]:
        """The headers by which a person makes a request this user's; what is no kubelet's is their own."""
        return {} if self == SIMULATOR else {"Impersonate-User": self.user, "Impersonate-Group": self.group}


def node_identity(name: str) -> Identity:
    """Return the user that the kubelet of this node is."""
    return Identity(f"system:node:{name}", "system:nodes")


# Stands for what is not a kubelet: the cloud that removes nodes, and the eyes of the simulator.
SIMULATOR: Final = Identity("testbed:winsim", "system:masters")
