"""helm is built once, and has no cluster unless a test gives it one."""

from __future__ import annotations

import pytest

from chart.helm import Helm
from testbed.helm import ensure_helm


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """The pinned helm."""
    return Helm(ensure_helm(), tmp_path_factory.mktemp("helm"))
