"""What nodes are judged by, as a part of the snapshot."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from winpool.support.matrix import built_in

if TYPE_CHECKING:
    from winpool.support.matrix import Matrix
    from winpool.support.rows import Row


@dataclass(frozen=True, slots=True)
class Basis:
    """The version of the API server as it reports it, empty where not known, and the layers of the matrix.

    ``matrix`` is the built-in support matrix, ``cluster_rows`` the rows of the operator's settings over it.
    """

    control_plane: str = ""
    matrix: Matrix = field(default_factory=built_in)
    cluster_rows: tuple[Row, ...] = ()
