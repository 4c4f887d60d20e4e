"""Rights that came before the code that uses them: the tests of rights and of readers know them from here.

An entry goes with the module that makes the request; the tests fail where one is used and still here.
"""

from __future__ import annotations

from typing import Final

WATCHED_LATER: Final = frozenset({"poddisruptionbudgets"})
LISTED_LATER: Final = frozenset(
    {
        *("volumeattachments", "deployments", "replicasets", "statefulsets"),
        *("replicationcontrollers", "jobs", "horizontalpodautoscalers"),
    }
)
MODULES_LATER: Final = frozenset({"kube/volume_attachments.py", "kube/workloads.py"})
