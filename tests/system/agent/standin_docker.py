"""Stands in for docker on a worker: it records every command, and runs containers as processes.

    python standin_docker.py STATE ARGV...

A container is a process group with the variables that docker would give it and no others. STATE is
a directory: `calls` has every argv, `NAME.json` a container, `NAME.pid` its process group.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

ONE_WORD = {"--init", "--privileged"}
EXIT_NO_SUCH = 1


def create(state: Path, argv: list[str]) -> int:
    options: dict[str, list[str]] = {}
    words = iter(argv)
    for word in words:
        if not word.startswith("--"):
            image, rest = word, list(words)
            break
        options.setdefault(word, []).append("" if word in ONE_WORD else next(words))
    given = [each.partition("=") for each in options.get("--env", [])]
    environ = {name: value if sign else os.environ[name] for name, sign, value in given}
    container = {
        "image": image, "argv": [*options["--entrypoint"], *rest], "environ": environ,
        "cwd": options["--workdir"][0], "labels": options["--label"],
    }  # fmt: skip
    (state / f"{options['--name'][0]}.json").write_text(json.dumps(container))
    return 0


def start(state: Path, argv: list[str]) -> int:
    (_attach, name) = argv
    container = json.loads((state / f"{name}.json").read_text())
    environ = {"PATH": os.environ["PATH"], **container["environ"]}
    with subprocess.Popen(
        container["argv"], cwd=container["cwd"], env=environ, start_new_session=True
    ) as process:
        (state / f"{name}.pid").write_text(str(process.pid))
        status = process.wait()
    return status if status >= 0 else 128 - status


def kill(state: Path, argv: list[str]) -> int:
    (_signal, number, name) = argv
    os.killpg(int((state / f"{name}.pid").read_text()), signal.Signals[number])
    return 0


def remove(state: Path, argv: list[str]) -> int:
    for name in argv[1:]:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            kill(state, ["--signal", "SIGKILL", name])
        (state / f"{name}.json").unlink(missing_ok=True)
    return 0


def list_names(state: Path, argv: list[str]) -> int:
    wanted = argv[-1].removeprefix("label=")
    for path in state.glob("*.json"):
        if wanted in json.loads(path.read_text())["labels"]:
            sys.stdout.write(f"{path.stem}\n")
    return 0


def pull(state: Path, argv: list[str]) -> int:
    (state / "pulled").write_text(argv[-1])
    return EXIT_NO_SUCH if "missing" in argv[-1] else 0


def inspect(state: Path, argv: list[str]) -> int:
    pulled = state / "pulled"
    return 0 if pulled.exists() and pulled.read_text() == argv[-1] else EXIT_NO_SUCH


def main() -> int:
    state, verb, argv = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    with (state / "calls").open("a") as calls:
        calls.write(json.dumps([verb, *argv]) + "\n")
    verbs = {
        "info": lambda *_: 0, "image": inspect, "pull": pull, "ps": list_names, "create": create,
        "start": start, "kill": kill, "rm": remove,
    }  # fmt: skip
    try:
        return verbs[verb](state, argv)
    except (FileNotFoundError, ProcessLookupError):
        return EXIT_NO_SUCH


if __name__ == "__main__":
    sys.exit(main())
