"""The API server asked about pools over one kept connection: a kubectl for each costs 100 times as much."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

from kubernetes import client, config

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Object = dict[str, Any]

POOLS: Final = ("winpool.dev", "v1alpha1", "windowsnodepools")
MERGE_PATCH: Final = "application/merge-patch+json"
ANSWER_SECONDS: Final = 60.0
"""For one answer. It takes milliseconds; the rest is for a machine that is busy with other things."""


class Server:
    """Writes pools as a cluster admin, with strict validation, as kubectl does by itself."""

    def __init__(self, api: client.ApiClient) -> None:
        self._pools = client.CustomObjectsApi(api)

    def refuse(self, manifest: Object) -> Object:
        """Return the Status that a manifest is refused with in a dry run.

        Raises:
            AssertionError: it is accepted.

        """
        try:
            self._create(manifest, dry_run="All")
        except client.ApiException as error:
            status: Object = json.loads(error.body or "{}")
            return status
        raise AssertionError(f"accepted, and should be refused: {json.dumps(manifest['spec'])}")

    def create(self, manifest: Object) -> None:
        """Store a pool."""
        self._create(manifest)

    def read(self, name: str) -> Object:
        """Return a pool."""
        found = self._pools.get_cluster_custom_object(*POOLS, name, _request_timeout=ANSWER_SECONDS)
        return cast("Object", found)

    def report(self, name: str, status: Object) -> None:
        """Lay something over the status of a pool."""
        self._pools.patch_cluster_custom_object_status(
            *POOLS,
            name,
            {"status": status},
            _content_type=MERGE_PATCH,
            _request_timeout=ANSWER_SECONDS,
        )

    def delete(self, name: str) -> None:
        """Delete a pool; nothing holds it where no operator runs, so it is gone then."""
        self._pools.delete_cluster_custom_object(*POOLS, name, _request_timeout=ANSWER_SECONDS)

    def _create(self, manifest: Object, *, dry_run: str | None = None) -> None:
        self._pools.create_cluster_custom_object(
            *POOLS, manifest, dry_run=dry_run, field_validation="Strict", _request_timeout=ANSWER_SECONDS
        )


@contextmanager
def asking(kubeconfig: Path) -> Iterator[Server]:
    """Yield the API server of a kubeconfig; its connection is closed at the end."""
    settings = client.Configuration()
    config.load_kube_config(str(kubeconfig), client_configuration=settings)  # type: ignore[no-untyped-call]
    with client.ApiClient(settings) as api:
        yield Server(api)
