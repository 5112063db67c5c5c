"""What people type who come from another tool, and the command of tpuctl for it."""

from collections.abc import Mapping

ROOT_WORDS: Mapping[str, str] = {
    "logs": "job logs", "tail": "job logs", "queue": "job list", "jobs": "job list",
    "ps": "job list", "status": "job list", "submit": "job submit", "launch": "run",
    "workload": "job submit", "cancel": "job cancel", "kill": "job cancel", "nodes": "node list",
    "ls": "node list", "list": "node list", "get": "node list", "create": "node create",
    "delete": "node delete", "down": "node delete", "stop": "node stop", "start": "node start",
    "describe": "node describe", "show": "node describe", "ssh": "node ssh", "exec": "node exec",
    "scp": "node cp", "cp": "node cp", "rsync": "data push", "storage": "data", "push": "data push",
    "pull": "data pull", "tunnel": "node forward", "port-forward": "node forward",
    "tpus": "node", "tpu-vm": "node", "compute": "node", "slice": "node", "vm": "node",
    "queued-resources": "queued-resource list", "types": "catalog types",
    "zones": "catalog zones", "prices": "catalog prices", "show-tpus": "catalog types",
    "show-gpus": "catalog types", "config": "context", "auth": "context create",
    "login": "context create", "init": "job init", "up": "local up", "reset": "local reset",
    "fault": "local fault", "preempt": "local preempt", "bench": "local bench",
    "verify": "checkpoint verify", "ckpt": "checkpoint", "monitor": "top", "ui": "dashboard",
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
}  # fmt: skip
"""For a verb, those of tpuctl that may be meant; the first that the noun has is."""


def verb_for(word: str, verbs: Mapping[str, object]) -> str | None:
    """The verb of a noun that is meant by a word of another tool."""
    return next((verb for verb in VERB_WORDS.get(word, ()) if verb in verbs), None)
