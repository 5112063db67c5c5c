"""`python -m localsim.testing.owned_simulator HOME SETTINGS`: a simulator that its owner holds.

It serves until its standard input ends, as it does however its owner ends, and then deletes HOME,
in which its state and everything of tpuctl lies. SETTINGS is a JSON object of the settings. The one
line on standard output is the line of endpoints, or an object with the key `error`.
"""

import asyncio
import json
import os
import sys
import traceback
from pathlib import Path

from localsim.startup import quick_imports
from localsim.testing.home_directory import delete_home, has_supervisor, state_directory


def main() -> None:
    """Serve, then clean up."""
    home = Path(sys.argv[1])
    try:
        _serve(home, json.loads(sys.argv[2]))
    except Exception as error:  # noqa: BLE001 (the owner says it)
        traceback.print_exc()
        _announce(json.dumps({"error": f"{error}" or type(error).__name__}))
    finally:
        _leave(home)


def _serve(home: Path, settings: dict[str, object]) -> None:
    with quick_imports():
        from localsim.server import Settings, serve

    python = settings.pop("python")
    known = Settings(
        state_dir=state_directory(home),
        python=None if python is None else Path(str(python)),
        end_with_stdin=True,
        **settings,  # type: ignore[arg-type]
    )
    asyncio.run(serve(known, announce=_announce))


def _leave(home: Path) -> None:
    """Delete the home; where a supervisor may run, in a program that holds no lock in there."""
    if has_supervisor(home):
        argv = [sys.executable, "-P", "-m", "localsim.testing.home_directory", str(home)]
        os.execv(sys.executable, argv)
    delete_home(home)


def _announce(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
