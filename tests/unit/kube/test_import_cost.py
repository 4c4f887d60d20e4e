"""The running operator never imports the typed models and API classes of the client (26 MB, 0.6 s)."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SCRIPT = """
import importlib, json, pkgutil, sys
import winpool.kube
for module in pkgutil.iter_modules(winpool.kube.__path__, "winpool.kube."):
    if module.name != "winpool.kube.feed":  # Kopf itself imports three models
        importlib.import_module(module.name)
print(json.dumps(sorted(name for name in sys.modules if name.startswith("kubernetes"))))
"""


@pytest.mark.slow
def test_a_fresh_interpreter_loads_only_the_configuration() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    loaded: list[str] = json.loads(done.stdout)
    assert "kubernetes.aio.config.kube_config" in loaded
    models = [name for name in loaded if ".client.models." in name]
    apis = [name for name in loaded if ".client.api." in name]
    assert (models, apis) == ([], [])
