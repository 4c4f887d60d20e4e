"""The cluster-wide file: rows as in a pool's ``spec.supportMatrix``, for all pools.

.. code-block:: yaml

    supportMatrix:
    - osVersion: "2019"
      kubernetesVersions: {min: "1.30", max: "1.34"}
      endOfSupport: "2027-04-01"
      verdict: Allow
      reason: backports of our vendor
"""

from typing import Final

import msgspec

from winpool.api.verdicts import RowVerdict
from winpool.support.contradictions import contradictions
from winpool.support.matrix import Matrix
from winpool.support.rows import Row
from winpool.support.text import DataError, read

_VERDICTS: Final = ", ".join(RowVerdict)


class _Versions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    min: str = ""
    max: str = ""


class _FileRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    os_version: str
    kubernetes_versions: _Versions = _Versions()
    min_revision: int | None = None
    end_of_support: str = ""
    verdict: str = ""
    reason: str = ""
    build: str = ""


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    support_matrix: tuple[_FileRow, ...]


def read_rows(text: str, *, matrix: Matrix) -> tuple[Row, ...]:
    """Read the rows of the cluster-wide file.

    Raises DataError with a sentence per fault: what is no YAML, an unknown field, a release that is not in
    ``matrix`` or there twice, a row that contradicts itself. Half a file is never used.
    """
    file = read(text, _File)
    problems: list[str] = []
    rows: list[Row] = []
    for index, each in enumerate(file.support_matrix):
        at = f"supportMatrix[{index}]"
        if each.verdict and each.verdict not in tuple(RowVerdict):
            problems.append(f"{at}.verdict: {each.verdict!r} must be one of {_VERDICTS}")
            continue
        row = Row(
            os_version=each.os_version,
            min_kubernetes=each.kubernetes_versions.min,
            max_kubernetes=each.kubernetes_versions.max,
            min_revision=each.min_revision,
            end_of_support=each.end_of_support,
            verdict=RowVerdict(each.verdict) if each.verdict else None,
            reason=each.reason,
            build=each.build,
        )
        if any(other.os_version == row.os_version for other in rows):
            problems.append(
                f"{at}: there is a row for osVersion {row.os_version!r} before it: make one of the two"
            )
        # The rows before it count like those of a layer below: they may have named its release or build.
        problems.extend(f"{at}: {said}" for said in contradictions(row, matrix=matrix, below=rows))
        rows.append(row)
    if problems:
        raise DataError(tuple(problems))
    return tuple(rows)
