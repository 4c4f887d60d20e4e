"""Kubernetes objects as a file that ``kubectl apply`` reads, with a header that says where it comes from.

Every generated manifest of this repository is printed here, so that all of them look alike.
"""

import math
from collections.abc import Iterable
from typing import Any, Final

import yaml

Object = dict[str, Any]

_WIDTH: Final = 110
"""Characters of a line, as in the code; longer texts are folded."""
_LABELS: Final = {"app.kubernetes.io/name": "winpool"}
"""On every object that winpool installs."""


def manifest(kind: str, *, api_version: str, name: str, namespace: str = "", **parts: Any) -> Object:
    """Return an object of ours with ``parts``, such as its spec, as its other fields."""
    metadata: Object = {
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        "labels": {**_LABELS},
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts}


class _Dumper(yaml.SafeDumper):
    """Writes every part out: what is shared in memory is not shared in the file."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the name is PyYAML's
        return True


def text_of(part: Any, *, flow: bool = False) -> str:
    """Return an object, or a part of one, as YAML; with ``flow``, lists of words are on one line."""
    style = None if flow else False  # None: flow style where there are only scalars in it
    return yaml.dump(
        part, Dumper=_Dumper, sort_keys=False, width=_WIDTH, allow_unicode=True, default_flow_style=style
    )


def in_line(value: Any) -> str:
    """Return a value of a field as a manifest has it on one line."""
    if isinstance(value, list | dict):
        return yaml.dump(
            value, Dumper=_Dumper, sort_keys=False, width=math.inf, default_flow_style=True
        ).strip()
    return str(value)


def file_of(header: str, texts: Iterable[str]) -> str:
    """Return the file: the header, and the text of each object as a document of its own."""
    return header + "---\n".join(texts)
