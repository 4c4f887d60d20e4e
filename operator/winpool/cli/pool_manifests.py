"""The WindowsNodePools in manifests, for verbs that ask what would be if they were applied."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from winpool.api.keys import API_VERSION, GROUP, KIND
from winpool.cli.files import texts
from winpool.cli.judge import judge
from winpool.cli.manifests import Manifest, ManifestError, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


@dataclass(slots=True)
class PoolManifests:
    """The valid pools in files, what is wrong with the others, and what was skipped: a line for each."""

    pools: list[Mapping[str, Any]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


def pools_in(names: Iterable[str], *, recursive: bool) -> PoolManifests:
    """Read the pools in files, folders and standard input (``-``). Raises UnreadableError.

    Two pools of the same name are a fault: only the last one would be applied.
    """
    found = PoolManifests()
    lines: dict[str, str] = {}
    for name in names:
        for file, text in texts(name, recursive=recursive):
            for each in read(text):
                where = f"{file}:{each.line}: "
                if isinstance(each, ManifestError):
                    found.faults.append(f"{where}{each.message}")
                    continue
                refusal = not_a_pool(each.content)
                if refusal is None:
                    faults = list(_faults(file, each, lines))
                    found.faults.extend(faults)
                    if not faults:
                        found.pools.append(each.content)
                elif refusal:
                    found.faults.append(f"{where}{refusal}")
                else:
                    found.skipped.append(f"{where}skipped, {each.content['kind']} is not {KIND}")
    return found


def not_a_pool(content: Any) -> str | None:
    """Return None for a pool, nothing for an object of another kind, and a sentence for what is neither.

    What is of our group or nearly of our name is taken for a mistake: passing it over in silence would call
    a pool valid that was never read.
    """
    if not isinstance(content, dict):
        return "must be an object with `apiVersion` and `kind`"
    version, kind = content.get("apiVersion"), content.get("kind")
    for name, value in (("kind", kind), ("apiVersion", version)):
        if not value or not isinstance(value, str):
            return f"{name} not set"
    if (version, kind) == (API_VERSION, KIND):
        return None
    if str(version).partition("/")[0] == GROUP or str(kind).lower() == KIND.lower():
        return f'no matches for kind "{kind}" in version "{version}"; winpool has {KIND} in {API_VERSION}'
    return ""


def _faults(file: str, manifest: Manifest, lines: dict[str, str]) -> Iterator[str]:
    """Yield what is wrong with a pool; ``lines`` says where the pools before it are."""
    for problem in manifest.problems:
        yield f"{file}:{problem.line}: {problem.message}"
    for fault in judge(manifest.content):
        yield f"{file}:{manifest.line_of(fault.path)}: {fault.field}: {fault.sentence}"
    metadata = manifest.content.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if isinstance(name, str):
        where = f"{file}:{manifest.line}"
        if name in lines:
            yield f'{where}: the pool "{name}" is already at {lines[name]}; keep one of them'
        lines.setdefault(name, where)
