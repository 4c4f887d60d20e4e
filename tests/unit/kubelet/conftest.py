"""Who signs for the servers of these tests, and how they show it."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from harness.hostile_server import tls_for
from harness.listener import an_authority
from testbed.pki import Authority


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return an_authority(tmp_path, "ca")


@pytest.fixture
def tls(authority: Authority, tmp_path: Path) -> ssl.SSLContext:
    return tls_for(authority, tmp_path, addresses=["127.0.0.1"])
