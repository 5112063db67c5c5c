"""`python -m localsim serve`: one simulated cloud, until SIGTERM; `check`: is it true to Google?

`bench`: how fast its chips compute here.
"""

import argparse
import json
import os
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from localsim.startup import quick_imports
from tpuctl import catalog


def main() -> int:
    """Parse, do it, and say in one line why not."""
    given = vars(_parser().parse_args())
    verb = given.pop("verb")
    try:
        with quick_imports():
            from localsim.server import ServeError
        return int(verb(**given))
    except KeyboardInterrupt:
        return 130
    except ServeError as refusal:
        sys.stderr.write(f"error: {refusal}\n")
        return refusal.exit_code


def _serve(**settings: Any) -> int:
    import asyncio

    from localsim.server import Settings, serve

    asyncio.run(serve(Settings(**settings), announce=_announce))
    return 0


def _check(cassette: Path, scenario: Path | None) -> int:
    from localsim.check.cassette import CassetteError
    from localsim.check.replay import check_cassette
    from localsim.server import ServeError

    try:
        return min(1, check_cassette(cassette, scenario, _announce))
    except CassetteError as error:
        raise ServeError(str(error), 2) from error


def _bench(accelerator_type: str, limit_s: float) -> int:
    from localsim.bench import BenchError, bench
    from localsim.server import ServeError

    try:
        with closing(bench(accelerator_type, limit_s)) as rows:
            for row in rows:
                _announce(json.dumps(row))
    except BenchError as error:
        raise ServeError(str(error), error.exit_code) from error
    except BrokenPipeError:  # whoever read it has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _announce(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m localsim", description=__doc__)
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    checking = verbs.add_parser("check", help="compare localsim with recorded traffic")
    checking.set_defaults(verb=_check)
    checking.add_argument("cassette", type=Path, help="written by: tpuctl record -- COMMAND")
    checking.add_argument("--scenario", type=Path, help="as of serve")
    benching = verbs.add_parser("bench", help="measure its chips here, a JSON object a line")
    benching.set_defaults(verb=_bench)
    benching.add_argument(
        "--accelerator-type", default=catalog.default_type("bench"), help="such as v5litepod-16"
    )
    benching.add_argument(
        "--limit-s", type=float, default=60.0, help="stop measuring after that time"
    )
    serving = verbs.add_parser("serve", help="serve a simulated cloud on loopback")
    serving.set_defaults(verb=_serve)
    serving.add_argument(
        "--state-dir", type=Path, required=True, help="where everything is kept, across restarts"
    )
    serving.add_argument("--name", default="local", help="name of this cloud (default: local)")
    serving.add_argument(
        "--scenario",
        help="plenty, new-project, stockout, spot-storm, or a YAML file of how the cloud behaves",
    )
    serving.add_argument(
        "--port", type=int, help="first of the consecutive ports to serve on (default: free ones)"
    )
    serving.add_argument(
        "--tls", action="store_true", help="serve all of it with TLS and credentials as well"
    )
    serving.add_argument(
        "--isolation",
        choices=("namespace", "process"),
        help="how workers are kept apart (default: as hosts of their own where the kernel allows)",
    )
    serving.add_argument(
        "--offline", action="store_true", help="let workers install nothing from the internet"
    )
    serving.add_argument(
        "--loopback-doors",
        action="store_true",
        help="serve each worker's SSH on a loopback address as well, port 2222",
    )
    serving.add_argument(
        "--python", type=Path, help="the workers' python3 (default: the one that runs localsim)"
    )
    serving.add_argument(
        "--log-requests",
        action="store_true",
        help="log every request of Cloud Storage, for GET /requests on the control port",
    )
    serving.add_argument(
        "--end-with-stdin",
        action="store_true",
        help="end when standard input is closed, as it is when the process that holds it ends",
    )
    clock = serving.add_mutually_exclusive_group()
    clock.add_argument(
        "--time-scale", type=float, default=1.0, help="simulated seconds per real second"
    )
    clock.add_argument(
        "--manual-clock", action="store_true", help="time stands still until control advances it"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
