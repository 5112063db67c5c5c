"""`tpuctl local shell`: a shell, or one command, where the workers have their own addresses."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from tpuctl.cli.shell.runtime import Runtime
from tpuctl.operations.local import network

FALLBACK = "/bin/sh"


def enter(runtime: Runtime, line: Mapping[str, Any], command: Sequence[str]) -> NoReturn:
    """Replace this process by the command, or by the user's own shell."""
    environ = network.shell_environment(line, runtime.environ)
    argv = list(command) or [environ.get("SHELL") or FALLBACK]
    path = network.find_program(argv, environ)
    if line["mode"] == "namespace":
        network.require_outside(runtime.home, "no other one can be opened")
        network.enter_network(line)
        if not command:
            key = shlex.quote(str(runtime.access.key_path))
            runtime.output.note(
                f"inside the network of the local cloud {line['name']!r}: its workers answer at "
                f"their own names and addresses: ssh -i {key} {runtime.access.user}@NAME; "
                "leave with: exit"
            )
    else:
        reason = f" ({line['mode_reason']})" if line.get("mode_reason") else ""
        runtime.output.note(
            "note: only the endpoints are set: workers are processes of this machine, without "
            f"addresses of their own{reason}; log in with: tpuctl node ssh NAME"
        )
    runtime.out.flush()
    runtime.err.flush()
    network.exec_program(path, argv, environ)
