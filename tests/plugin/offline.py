"""What the plugin does without a cluster, as each way to install it must do it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from typing import Final

from harness.documents import ROOT
from winpool import __version__
from winpool.cli.parsing import HELP, VERBS

SAMPLES: Final = ROOT / "deploy" / "samples"
JOINED: Final = ("join-config", "reserved-memory", "-f", str(SAMPLES / "reserved-memory.yaml"))

COMMANDS: Final[Mapping[tuple[str, ...], str]] = {
    ("matrix",): "END-OF-SUPPORT",
    ("validate", "-f", str(SAMPLES / "bare.yaml")): "1 pool valid",
    ("audit", "-f", str(SAMPLES / "pods")): "",
    ("audit", "--explain", "W13"): "W13",
    (*JOINED, "--kubelet-version", "1.34"): "kind: KubeletConfiguration",
    **{(*verb.split(), "--help"): f"usage: kubectl winpool {verb}" for verb in VERBS if verb != HELP},
    ("version", "--client"): __version__,
}
"""Each with a word of its answer."""


def check(command: Sequence[str], *, environment: Mapping[str, str]) -> None:
    """Type every command behind ``command``; each has to succeed and to say what it says."""
    for arguments, word in COMMANDS.items():
        done = subprocess.run(
            [*command, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, (arguments, done.stderr)
        assert word in done.stdout + done.stderr, arguments
