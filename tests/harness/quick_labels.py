"""The operator, which gives slots to other nodes after seconds, and not after minutes.

``python -m harness.quick_labels`` withdraws a permission that no one uses after USE_SECONDS of its
environment, and gives the slot to another node after REST_SECONDS. How long these are is tested in virtual
time (``test_slots``). A control plane shows what the labels say.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Final

from winpool import app, logs
from winpool.features.upgrade import slots
from winpool.settings import Settings

USUAL: Final = {"USE_SECONDS": 1800.0, "REST_SECONDS": 60.0}


def environment(*, rest: float, use: float = USUAL["USE_SECONDS"]) -> dict[str, str]:
    """Return what an operator of this module needs in its environment."""
    return {"USE_SECONDS": str(use), "REST_SECONDS": str(rest)}


def main() -> int:
    """Run the operator with these times; return the exit code."""
    names = vars(slots)
    for name, seconds in USUAL.items():
        assert names[name] == seconds
        names[name] = float(os.environ[name])
    settings = Settings()
    logs.configure(settings)
    return asyncio.run(app.run(settings))


if __name__ == "__main__":
    sys.exit(main())
