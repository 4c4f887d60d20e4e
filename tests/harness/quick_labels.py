"""The operator, which gives a permission to upgrade again after seconds, and not after a minute.

``python -m harness.quick_labels`` waits GIVING_SECONDS until it gives a permission again. That it is a
minute is tested in virtual time (``test_upgrade_promises``). A control plane shows what the labels say.
"""

from __future__ import annotations

import asyncio
import os
import sys

from winpool import logs, start
from winpool.controllers import backoff
from winpool.settings import Settings

_SECONDS = "GIVING_SECONDS"


def environment(*, seconds: float) -> dict[str, str]:
    """Return what an operator of this module needs in its environment."""
    return {_SECONDS: str(seconds)}


def main() -> int:
    """Run the operator with that pause; return the exit code."""
    assert backoff.GIVING_SECONDS == 60.0
    vars(backoff)["GIVING_SECONDS"] = float(os.environ[_SECONDS])
    settings = Settings()
    logs.configure(settings)
    return asyncio.run(start.run(settings))


if __name__ == "__main__":
    sys.exit(main())
