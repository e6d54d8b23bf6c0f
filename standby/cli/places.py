"""Where a command looks: the options that say it, the same for all commands of a workspace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

from cyclopts import Parameter

Folder: TypeAlias = Annotated[Path, Parameter(name="--in", help="The workspace.")]
StoreName: TypeAlias = Annotated[
    str | None,
    Parameter(
        name="--store",
        help="Another store: a file, or the address of a PostgreSQL database.",
    ),
]
RunName: TypeAlias = Annotated[str, Parameter(help="Its id, or the beginning of one.")]
