"""The CustomResourceDefinition, generated from the models: ``python -m winpool.api.crd``.

``crds/`` holds what this prints; a test compares them.
"""

import sys
from typing import Any, Final

from winpool.api.conditions import ConditionType
from winpool.api.keys import (
    API_VERSION,
    CATEGORY,
    CRD_NAME,
    GROUP,
    KIND,
    PLURAL,
    SHORT_NAME,
    SINGULAR,
    VERSION,
)
from winpool.api.manifests import file_of, manifest, text_of
from winpool.api.schema import Schema, structural_schema
from winpool.api.v1alpha1 import WindowsNodePool

FILE: Final = f"crds/{CRD_NAME}.yaml"
"""Where the result stands, from the root of the repository."""

COMMAND: Final = f"python -m winpool.api.crd > {FILE}"

HEADER: Final = f"# Generated from the models in operator/winpool/api. Do not edit; run: {COMMAND}\n"

SELECTABLE_FIELDS: Final = (".spec.os.version", ".spec.mode")
"""What ``kubectl get wnp --field-selector`` takes besides the name (KEP-4358)."""

_STATE: Final = f'.status.conditions[?(@.type=="{ConditionType.READY}")].reason'
_SUPPORTED: Final = f'.status.conditions[?(@.type=="{ConditionType.OS_SUPPORTED}")].status'


def _column(name: str, kind: str, path: str, description: str, *, wide: bool = False) -> dict[str, Any]:
    column = {"name": name, "type": kind, "jsonPath": path, "description": description}
    return {**column, "priority": 1} if wide else column


# kubectl's own rules: the name comes first, the age last, no spaces in titles, 80 columns or fewer.
COLUMNS: Final = (
    _column("OS", "string", ".spec.os.version", "Windows Server release that the nodes must run."),
    _column("Nodes", "integer", ".status.nodes", "Nodes that belong to the pool."),
    _column("Ready", "integer", ".status.readyNodes", "Nodes whose kubelet reports Ready."),
    _column(
        "Up-To-Date",
        "integer",
        ".status.upToDateNodes",
        "Nodes that are as the spec asks, the release and revision of Windows included.",
    ),
    _column("State", "string", _STATE, "Reason of the condition Ready: the worst that is true."),
    _column("Mode", "string", ".spec.mode", "What the operator does with the pool.", wide=True),
    _column(
        "Available", "integer", ".status.availableNodes", "Nodes that are Ready and not cordoned.", wide=True
    ),
    _column("Supported", "string", _SUPPORTED, "Status of the condition OSSupported.", wide=True),
    _column("Issues", "integer", ".status.issueCount", "Issues that need attention.", wide=True),
    _column(
        "Pressured", "integer", ".status.pressuredNodes", "Nodes that are under memory pressure.", wide=True
    ),
    _column("Held", "integer", ".status.heldNodes", "Nodes that someone holds.", wide=True),
    _column("Age", "date", ".metadata.creationTimestamp", "Time since the pool was created."),
)


def schema() -> Schema:
    """Return the structural schema of the whole object, with the parts that Kubernetes itself defines."""
    pool = structural_schema(WindowsNodePool)
    properties = pool["properties"]
    # Of the metadata a CRD may speak of the name alone.
    metadata = {"type": "object", "properties": {"name": properties["metadata"]["properties"]["name"]}}
    head = {
        "apiVersion": {"type": "string", "description": f"Version of the API. A string, here {API_VERSION}."},
        "kind": {"type": "string", "description": f"Kind of the object. A string, here {KIND}."},
    }
    required = [name for name in pool["required"] if name != "metadata"]
    return {**pool, "required": required, "properties": {**head, **properties, "metadata": metadata}}


def definition() -> dict[str, Any]:
    """Return the CustomResourceDefinition."""
    return manifest(
        "CustomResourceDefinition",
        api_version="apiextensions.k8s.io/v1",
        name=CRD_NAME,
        spec={
            "group": GROUP,
            "scope": "Cluster",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": SINGULAR,
                "shortNames": [SHORT_NAME],
                "categories": [CATEGORY],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": list(COLUMNS),
                    "selectableFields": [{"jsonPath": path} for path in SELECTABLE_FIELDS],
                    "schema": {"openAPIV3Schema": schema()},
                }
            ],
        },
    )


def render() -> str:
    """Return the file: YAML with a header that says where it comes from."""
    return file_of(HEADER, (text_of(definition()),))


def main() -> None:
    """Print the file."""
    sys.stdout.write(render())


if __name__ == "__main__":
    main()
