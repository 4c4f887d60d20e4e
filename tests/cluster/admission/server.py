"""The API server asked about pools over one kept connection: a kubectl for each costs 100 times as much."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from harness.asking import CLUSTER_SCOPED
from testbed.api import ApiError

if TYPE_CHECKING:
    from testbed.api import Api

Object = dict[str, Any]

POOLS: Final = CLUSTER_SCOPED["wnp"]


class Server:
    """Writes pools as a cluster admin, with strict validation, as kubectl does by itself."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def refuse(self, manifest: Object) -> Object:
        """Return the Status that a manifest is refused with in a dry run.

        Raises:
            AssertionError: it is accepted.

        """
        try:
            self._api.create(POOLS, manifest, fieldValidation="Strict", dryRun="All")
        except ApiError as error:
            return error.answer
        raise AssertionError(f"accepted, and should be refused: {json.dumps(manifest['spec'])}")

    def create(self, manifest: Object) -> None:
        """Store a pool."""
        self._api.create(POOLS, manifest, fieldValidation="Strict")

    def read(self, name: str) -> Object:
        """Return a pool."""
        return self._api.get(f"{POOLS}/{name}")

    def report(self, name: str, status: Object) -> None:
        """Lay something over the status of a pool."""
        self._api.merge(f"{POOLS}/{name}/status", {"status": status})

    def delete(self, name: str) -> None:
        """Delete a pool; nothing holds it where no operator runs, so it is gone then."""
        self._api.delete(f"{POOLS}/{name}")
