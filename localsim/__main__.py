"""`python -m localsim serve --state-dir D`: one simulated cloud, until SIGTERM."""

import argparse
import asyncio
import sys
from pathlib import Path

from localsim.server import RefusedToServe, Settings, serve


def main() -> int:
    """Parse, serve, and say in one line why not."""
    settings = Settings(**vars(_parser().parse_args()))
    try:
        asyncio.run(serve(settings, announce=_announce))
    except RefusedToServe as refusal:
        sys.stderr.write(f"error: {refusal}\n")
        return refusal.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


def _announce(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m localsim", description=__doc__)
    verbs = parser.add_subparsers(required=True, metavar="serve")
    serving = verbs.add_parser("serve", help="serve a simulated cloud on loopback")
    serving.add_argument(
        "--state-dir", type=Path, required=True, help="where everything is kept, across restarts"
    )
    serving.add_argument("--name", default="local", help="name of this cloud (default: local)")
    serving.add_argument(
        "--scenario", type=Path, help="YAML file of capacity, delays and spot life"
    )
    serving.add_argument(
        "--port", type=int, help="first of the consecutive ports to serve on (default: free ones)"
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
