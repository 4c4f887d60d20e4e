"""How much a verb loads that needs no cluster: counts, which are the same on each machine, and no times."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Final

import pytest

from harness.documents import ROOT

SAMPLES: Final = ROOT / "deploy" / "samples"

COUNTED: Final = """\
import json, sys
from winpool.cli.__main__ import main
try:
    code = main(sys.argv[1:])
except SystemExit as end:
    code = end.code
models = [sys.modules["winpool.api.model"].ApiModel] if "winpool.api.model" in sys.modules else []
for model in models:
    models += model.__subclasses__()
loaded = [name for name in sys.modules if name.startswith("winpool.")]
slow = {"asyncio", "concurrent.futures", "http.client", "subprocess"} & set(sys.modules)
built = [model.__name__ for model in models if model.__pydantic_complete__ and model.model_fields]
print()
print(json.dumps([code, len(loaded), sorted(slow), len(built)]))
"""

JOIN: Final = ("join-config", "reserved-memory", "-f", str(SAMPLES / "reserved-memory.yaml"))

LIMITS: Final = {
    ("matrix",): (25, 0),
    ("validate", "-f", str(SAMPLES / "bare.yaml")): (95, 5),
    ("audit", "-f", str(SAMPLES / "pods")): (50, 3),
    (*JOIN, "--kubelet-version", "1.34"): (95, 4),
}
"""The most modules of ours, some above what there are, and the most models that are built."""


@pytest.mark.slow
@pytest.mark.parametrize("arguments", LIMITS, ids=lambda arguments: arguments[0])
def test_a_verb_without_a_cluster_loads_little(arguments: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COUNTED, *arguments], capture_output=True, text=True, timeout=60, check=True
    )
    code, modules, slow, models = json.loads(done.stdout.splitlines()[-1])
    most_modules, most_models = LIMITS[arguments]
    assert (code, slow) == (0, [])
    assert modules <= most_modules
    assert models <= most_models
