"""A base image without a registry: Debian with its own Python, made from packages.

The published base of the Dockerfile is of the same release of Debian and has the same version of Python, but
in another place. It takes a minute and a half, so it is kept beside the builds of the testbed.
"""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
from pathlib import Path
from typing import Final

SUITE: Final = "trixie"
PACKAGES: Final = ("ca-certificates", "python3", "python3-venv", "tzdata")
"""The published base has the same of Debian: its certificates and its time zones."""
BUILD_SECONDS: Final = 900.0
"""Guard: it is a minute and a half where the mirror of Debian is near."""


def ensure_base(cache: Path) -> Path:
    """Return a tar file of the root of the base; make it where it is not there yet."""
    command = ["mmdebstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE]
    decisive = json.dumps([command, platform.machine()]).encode()
    folder = cache / "image-base" / hashlib.sha256(decisive).hexdigest()[:20]
    made = folder / "base.tar"
    if not made.exists():
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = folder / "unfinished.tar"
        unfinished.unlink(missing_ok=True)
        print(f"making the base image ({SUITE}: {', '.join(PACKAGES)})", flush=True)
        done = subprocess.run(
            [*command, str(unfinished)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=BUILD_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"mmdebstrap could not make the base:\n{done.stdout[-4000:]}"
        unfinished.rename(made)
    return made
