"""A template's job with other settings, run to its end on a slice that is there."""

import re
import shutil

import yaml

from system.frameworks.jax_slices import TYPES, ZONE
from tpuctl.operations.local.templates import template_folder


def job(directory, template: str, settings: dict, *, name: str = "", workers: int = 0) -> str:
    """The template's job with other settings, and its own copy of the program.

    With a name it has checkpoints of its own; with workers it makes its slices itself.
    """
    folder = directory / (name or template)
    shutil.copytree(template_folder(template), folder, dirs_exist_ok=True)
    path = folder / "job.yaml"
    written = yaml.safe_load((template_folder(template) / "job.yaml").read_text())
    written["envs"] |= settings
    if name:
        written |= {"name": name, "checkpoints": {"dir": f"gs://$BUCKET/runs/{name}"}}
    if workers:
        written["resources"] = {"accelerators": TYPES[workers], "zones": [ZONE], "use_spot": True}
    else:
        del written["resources"]  # it runs on a slice that is there
    path.write_text(yaml.safe_dump(written))
    return str(path)


def run(lab, path: str, node: str) -> list[dict]:
    """Run a job to its end; its log lines with what they say."""
    return end(lab, submit(lab, path, "--node", node))


def submit(lab, path: str, *options: str) -> str:
    """The id of a job that begins."""
    submitted = lab.tpuctl("job", "submit", path, *options, "--zone", ZONE, "-o", "name")
    assert submitted.code == 0, submitted.err
    return submitted.out.strip()


def end(lab, name: str) -> list[dict]:
    """Wait for its end; its log lines with what they say."""
    waited = lab.tpuctl("job", "wait", name)
    lines = lab.tpuctl("job", "logs", name, "-o", "json").json
    assert waited.code == 0, (waited.err, [line["text"] for line in lines][-20:])
    return told(lines)


def told(lines: list[dict]) -> list[dict]:
    """The lines that tell of a run, with what they say."""
    return [
        {**line, **dict(re.findall(r"(\w+)=(\S+)", line["text"]))}
        for line in lines
        if line["text"].startswith(("step=", "resumed ", "done "))
    ]


def steps(lines: list[dict], worker: int) -> list[int]:
    """The steps that a worker did, in order."""
    mine = [line for line in lines if line["worker"] == worker and "loss" in line]
    return [int(line["step"]) for line in mine]


def last(lines: list[dict], worker: int) -> dict:
    """What a worker's last line says."""
    return [line for line in lines if line["worker"] == worker][-1]
