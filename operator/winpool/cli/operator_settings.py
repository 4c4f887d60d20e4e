"""The settings of the operator that the plugin has to know where they differ from their defaults.

The operator's own settings are in its Deployment, as flags or in the environment, and the API server does not
say what they are. So a person gives them again, by the same names.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from winpool.support.data import DataError
from winpool.support.matrix import built_in
from winpool.support.rows import read_rows

if TYPE_CHECKING:
    import argparse

    from winpool.support.rows import Row


class SettingsError(Exception):
    """A setting that cannot be used; the text says which, and why."""


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add the flags for the settings that judge upgrades."""
    parser.add_argument(
        "--support-matrix-file",
        metavar="FILE",
        help="Use these rows of the support matrix for all pools. Give it if the operator has this flag.",
    )


def rows_of_settings(given: argparse.Namespace) -> tuple[Row, ...]:
    """Return the rows of ``--support-matrix-file``. Raises SettingsError."""
    name = given.support_matrix_file
    if name is None:
        return ()
    try:
        return read_rows(Path(name).read_text(encoding="utf-8"), matrix=built_in())
    except DataError as error:
        raise SettingsError(f"--support-matrix-file {name}: {error}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"--support-matrix-file {name}: not UTF-8") from None
    except OSError as error:
        raise SettingsError(f"--support-matrix-file {name}: {error.strerror}") from None
