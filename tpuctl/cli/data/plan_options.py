"""The options that all copies of data have."""

from typing import Annotated

import typer

DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan, send nothing.")]
Include = Annotated[
    list[str] | None,
    typer.Option(metavar="GLOB", help="Only these files (repeatable; as in .gitignore)."),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(
        metavar="GLOB", help="Not these (repeatable; as in .gitignore, after .tpuctlignore)."
    ),
]
Delete = Annotated[
    bool, typer.Option("--delete", help="Remove at the target what the source does not have.")
]
MaxDelete = Annotated[
    int, typer.Option(metavar="N", min=0, help="Refuse, when --delete would remove more.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before --delete.")]
