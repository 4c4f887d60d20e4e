"""The long loops use what the tests on the cluster use."""

from __future__ import annotations

from cluster.conftest import testbed, world

__all__ = ["testbed", "world"]
