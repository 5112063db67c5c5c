"""The command line of the model server."""

from __future__ import annotations

import argparse
import re
import threading
from collections.abc import Mapping, Sequence

from tpuctl.errors import TpuctlError, UsageError
from tpuctl.serving.program import ModelCheckpoint, load_program
from tpuctl.serving.server.serve import print_line, run_server
from tpuctl.serving.server.server_options import ServerOptions

_DEFAULTS = ServerOptions()
_STEP_FOLDER = re.compile(r"step_(\d{12})")
_LAST_BATCH_S = 1.0
"""For the thread of the model to end by itself."""


def run_command(arguments: Sequence[str], environ: Mapping[str, str]) -> tuple[int, bool]:
    """Serve as the command line says; returns the exit code, and whether the model still works."""
    try:
        given = vars(_parser(environ).parse_args(arguments))
        module, directory, step = (given.pop(key) for key in ("module", "checkpoint", "step"))
        options = ServerOptions(**given)
        code = run_server(load_program(module), _checkpoint(directory, step), options)
    except TpuctlError as error:
        print_line(f"error: {error}")
        if error.hint:
            print_line(f"hint: {error.hint}")
        code = error.exit_code
    return code, _is_model_at_work()


def _checkpoint(directory: str | None, step: int | None) -> ModelCheckpoint | None:
    """What `load` gets: a directory, which may end in the name of one of its steps."""
    if not directory:
        return None
    above, _, last = directory.rstrip("/").rpartition("/")
    named = _STEP_FOLDER.fullmatch(last)
    if named is None or step is not None:
        return ModelCheckpoint(directory, step)
    return ModelCheckpoint(above or ".", int(named[1]))


def _is_model_at_work() -> bool:
    for thread in threading.enumerate():
        if thread.name == "model":
            thread.join(_LAST_BATCH_S)
            return thread.is_alive()
    return False


def _parser(environ: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python3 -m tpuctl.serving",
        description="Serve a model over HTTP: load and predict of a module, in dynamic batches, "
        "by the Open Inference Protocol.",
        epilog="The page docs/model-server.md has an example.",
    )
    parser.add_argument("module", help="the module, by name or by the path of its file")
    parser.add_argument(
        "--checkpoint",
        default=environ.get("TPUCTL_CHECKPOINT") or environ.get("TPUCTL_CHECKPOINT_DIR"),
        metavar="DIR",
        help="the directory that load gets (TPUCTL_CHECKPOINT or TPUCTL_CHECKPOINT_DIR)",
    )
    parser.add_argument("--step", type=int, help="the step to restore, instead of the newest one")
    parser.add_argument("--port", type=int, default=_port(environ), help="the port (PORT, or 8000)")
    parser.add_argument("--host", help="the address to listen at, instead of all")
    parser.add_argument("--name", help="the name of the model, instead of the module's")
    _add_numbers(parser)
    parser.add_argument(
        "--allow-non-finite",
        dest="allows_non_finite",
        action="store_true",
        help="let NaN and infinity in an input reach the model",
    )
    return parser


def _add_numbers(parser: argparse.ArgumentParser) -> None:
    texts = {
        "max_batch": "rows of the largest batch, and of a request",
        "latency_target_ms": "let batches grow only while requests take no longer",
        "queue_rows": "rows that may wait; more are answered 429 (16 batches)",
        "deadline_s": "seconds for a request to be answered",
        "max_body_mib": "the largest body of a request",
        "grace_s": "seconds after SIGTERM in which requests are still taken",
        "drain_s": "seconds after SIGTERM for all to be answered",
    }
    for name, text in texts.items():
        default = getattr(_DEFAULTS, name)
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=int if name in ("max_batch", "queue_rows") else float,
            default=default,
            help=text if default is None else f"{text} ({default:g})",
        )


def _port(environ: Mapping[str, str]) -> int:
    text = environ.get("PORT", "")
    if not text:
        return _DEFAULTS.port
    if not text.isdigit():
        raise UsageError(f"PORT={text!r} is not a port", hint="give --port")
    return int(text)
