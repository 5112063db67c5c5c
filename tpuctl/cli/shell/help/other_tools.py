"""What people type who come from another tool, and the command of tpuctl for it."""

import shlex
from collections.abc import Mapping, Sequence

LEADING_WORDS = frozenset({"gcloud", "sky", "xpk", "kubectl", "alpha", "beta", "compute", "tpus"})
"""What stands before the command proper in other tools."""
ROOT_WORDS: Mapping[str, str] = {
    "logs": "job logs", "tail": "job logs", "queue": "job list", "jobs": "job list",
    "ps": "job list", "status": "job list", "submit": "job submit", "launch": "run",
    "jobs launch": "job submit", "jobs queue": "job list", "jobs logs": "job logs",
    "jobs cancel": "job cancel", "workload": "job submit", "workload create": "job submit",
    "workload list": "job list", "workload delete": "job cancel", "cancel": "job cancel",
    "kill": "job cancel", "nodes": "node list",
    "ls": "node list", "list": "node list", "get": "node list", "create": "node create",
    "delete": "node delete", "down": "node delete", "stop": "node stop", "start": "node start",
    "describe": "node describe", "show": "node describe", "ssh": "node ssh", "exec": "node exec",
    "scp": "node cp", "cp": "node cp", "rsync": "data push", "storage": "data", "push": "data push",
    "pull": "data pull", "tunnel": "node forward", "port-forward": "node forward",
    "tpus": "node", "tpu-vm": "node", "compute": "node", "slice": "node", "vm": "node",
    "gcloud": "node", "sky": "job", "xpk": "job", "kubectl": "node",
    "queued-resources": "queued-resource", "accelerator-types": "catalog types",
    "accelerator-types list": "catalog types", "locations list": "catalog zones",
    "versions list": "catalog runtimes", "types": "catalog types",
    "zones": "catalog zones", "prices": "catalog prices", "show-tpus": "catalog types",
    "show-gpus": "catalog types", "gpus": "catalog types", "gpus list": "catalog types",
    "cost-report": "cost", "billing": "cost", "check": "doctor", "config": "context",
    "auth": "context create",
    "config set": "context edit", "auth login": "context create",
    "auth application-default": "context create", "gsutil": "data", "demo": "quickstart",
    "tutorial": "quickstart", "get nodes": "node list", "get pods": "node list",
    "get jobs": "job list", "login": "context create", "init": "job init", "up": "local up",
    "reset": "local reset", "fault": "local fault", "preempt": "local preempt",
    "verify": "checkpoint verify", "ckpt": "checkpoint", "monitor": "top",
    "ui": "dashboard",
    "version": "--version",
}  # fmt: skip
"""From gcloud, kubectl, SkyPilot, xpk and rclone, and nouns that are left out."""
VERB_WORDS: Mapping[str, tuple[str, ...]] = {
    "ls": ("list",), "get": ("list", "describe"), "ps": ("list",), "show": ("describe", "show"),
    "status": ("describe", "status", "list"), "info": ("describe",), "rm": ("delete", "rm"),
    "remove": ("delete", "rm"), "destroy": ("delete",), "down": ("delete",), "add": ("create",),
    "new": ("create",), "kill": ("cancel", "delete"), "stop": ("cancel",), "run": ("submit",),
    "launch": ("submit",), "log": ("logs",), "tail": ("logs",), "scp": ("cp",), "copy": ("cp",),
    "tunnel": ("forward",), "port-forward": ("forward",), "upload": ("push",), "cp": ("copy",),
    "download": ("pull",), "sync": ("push",), "set": ("use", "update"), "switch": ("use",),
    "save": ("push",), "restore": ("pull",), "check": ("verify", "check"), "restart": ("retry",),
    "start": ("submit",), "create": ("submit",),
}  # fmt: skip
"""For a verb, those of tpuctl that may be meant; the first that the noun has is."""

NAMELESS = frozenset(
    {"list", "types", "zones", "runtimes", "prices", "history", "up", "dashboard", "quickstart"}
)
"""What runs without a name; words of another tool that follow are left out."""
HELP_FIRST = frozenset({"context create", "context edit"})
"""What other tools give other words: its help says which ones it takes."""
STORAGE_VERBS: Mapping[str, str] = {"ls": "list", "rsync": "push", "cat": "pull"}
OPTION_WORDS: Mapping[str, str] = {
    "--version": "--runtime-version", "--preemptible": "--spot", "--async": "--no-wait",
    "--dryrun": "--dry-run", "--recurse": "-r", "--update-labels": "--labels",
    "--cluster": "", "--down": "", "--detach-run": "", "--retry-until-up": "",
}  # fmt: skip
"""Options that are spelled otherwise here; an empty one is left out."""
WITH_NAME = frozenset({"-c", "--cluster"})
"""SkyPilot's name of a cluster, which a job does not have. Its value is left out, too."""
OPTION_HINTS: Mapping[str, Mapping[str, str]] = {
    "tpuctl": {"--format": "write -o json, -o yaml, -o csv or -o name"},
    "tpuctl node": {
        "--command": "run: tpuctl node exec NAME --command LINE",
        "--internal-ip": "write --dialer internal",
        "--tunnel-through-iap": "write --dialer iap",
    },
    "tpuctl node create": {
        "--version": "write --runtime-version, or leave it out: the right one is chosen",
        "--preemptible": "write --spot",
        "--async": "write --no-wait",
    },
    "tpuctl run": {"--dry-run": "run: tpuctl job submit FILE --dry-run"},
}
"""For commands that begin so: options of other tools, and what to do instead."""


def command_for(words: Sequence[str]) -> str | None:
    """The command line that is meant by one of another tool, or the help to read; None if none is.

    The words that follow the command are kept, with the options that tpuctl spells otherwise.
    """
    place = next((n for n, word in enumerate(words) if word not in LEADING_WORDS), 0)
    for count in (2, 1):
        typed = words[place : place + count]
        if meant := ROOT_WORDS.get(" ".join(typed)):
            return _line(meant, list(words[place + len(typed) :]), is_sky=words[place] == "launch")
    return None


def option_hint(command: str, option: str) -> str | None:
    """What to write in place of an option of another tool, for a command such as `tpuctl run`."""
    paths = sorted(OPTION_HINTS, key=len, reverse=True)
    hints = (OPTION_HINTS[path] for path in paths if f"{command} ".startswith(f"{path} "))
    return next((found[option] for found in hints if option in found), None)


def _line(meant: str, rest: list[str], *, is_sky: bool) -> str:
    is_complete = meant.startswith("-") or meant.split()[-1] in NAMELESS
    if meant == "node" and rest[:1] == ["scp"]:
        rest[0] = "cp"
    elif meant == "node" and rest[:1] == ["ssh"] and any(map(_is_command_option, rest)):
        rest = ["exec", *(word for word in rest[1:] if word != "--worker=all")]
    elif meant == "node exec" and (task := _task_file(rest)):
        meant, rest = "job submit", _submission(task, rest)
    elif meant == "data":
        rest = _data_words([word for word in rest if not word.startswith("-")])
    elif meant in HELP_FIRST or (is_complete and not "".join(rest).startswith("-")):
        rest = []
    rest = _own_options(rest, is_sky=is_sky)
    if not is_complete and all(word.startswith("-") for word in rest):
        rest = ["--help"]
    return shlex.join(["tpuctl", *meant.split(), *rest])


def _data_words(words: list[str]) -> list[str]:
    """The verb of `data` and the addresses, for the words of gsutil and `gcloud storage`."""
    verb, addresses = "".join(words[:1]), words[1:]
    if verb == "cp":
        ends = [address.startswith("gs://") for address in (*addresses, "", "")]
        verb = ("copy" if ends[1] else "pull") if ends[0] else "push"
    return [STORAGE_VERBS.get(verb, verb), *addresses] if verb else []


def _task_file(words: Sequence[str]) -> str | None:
    """The file of a task that SkyPilot is to run on a cluster, and not a program of it."""
    named = [word for word in words[:3] if word.endswith((".yaml", ".yml"))]
    return named[0] if named and "--" not in words else None


def _submission(task: str, words: Sequence[str]) -> list[str]:
    """The words of `job submit` for a task and the cluster that it is to run on."""
    left_out = {*WITH_NAME, "-d", "--detach-run", task}
    named = [word.removeprefix("--cluster=") for word in words if word not in left_out]
    return [task, "--node", *(named or ["NAME"])]


def _is_command_option(word: str) -> bool:
    return word.partition("=")[0] == "--command"


def _own_options(words: Sequence[str], *, is_sky: bool) -> list[str]:
    """The words with the options as tpuctl spells them."""
    own: list[str] = []
    pending = iter(words)
    for word in pending:
        if word == "--":
            return [*own, word, *pending]
        name, equals, value = word.partition("=")
        if is_sky and name in WITH_NAME:
            if not equals:
                next(pending, None)
        elif spelled := OPTION_WORDS.get(name, name):
            own.append(f"{spelled}{equals}{value}")
    return own


def verb_for(word: str, verbs: Mapping[str, object]) -> str | None:
    """The verb of a noun that is meant by a word of another tool."""
    return next((verb for verb in VERB_WORDS.get(word, ()) if verb in verbs), None)
