"""The operator, whose force waits for seconds, and not for ten minutes.

``python -m harness.quick_force`` deletes by ``onTimeout: Force`` pods that are as old as FORCE_SECONDS of its
environment, and so long after its start. How long these are is tested in virtual time (``test_force``).
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Final

from winpool import app, logs
from winpool.features.upgrade import drain
from winpool.model import rollout
from winpool.settings import Settings

USUAL: Final = 600


def environment(*, seconds: int, allowed: bool) -> dict[str, str]:
    """Return what an operator of this module needs in its environment."""
    return {"FORCE_SECONDS": str(seconds), "WINPOOL_ALLOW_FORCE": str(allowed).lower()}


def main() -> int:
    """Run the operator with these times; return the exit code."""
    for module, name in ((rollout, "FORCE_WAITS_SECONDS"), (drain, "LEAST_SECONDS_TO_FORCE")):
        assert vars(module)[name] == USUAL
        vars(module)[name] = int(os.environ["FORCE_SECONDS"])
    settings = Settings()
    logs.configure(settings)
    return asyncio.run(app.run(settings))


if __name__ == "__main__":
    sys.exit(main())
