"""Services for a test that needs a few of them."""

from __future__ import annotations

from typing import Any

from winpool.controllers.services import ControlStats, Services
from winpool.decide import FEATURES
from winpool.loops import Clock


def some_services(**given: Any) -> Services:
    """Return services with those that are ``given``; the others are None, and not to be used."""
    rest = dict.fromkeys(Services.__struct_fields__)
    usual = {"clock": Clock(), "features": FEATURES, "cluster_rows": (), "stats": ControlStats()}
    return Services(**{**rest, **usual, **given})
