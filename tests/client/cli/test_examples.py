"""Every example of help is played in its order, but for those that need a person or Google."""

import re
import shlex
from dataclasses import replace

import pytest

from client.cli.checkpoint import checkpoint_runs
from client.cli.job import job_records
from tpuctl.cli.shell.help.layout import examples
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.models.job import Checkpoints, JobState

NOT_PLAYED = re.compile(
    r"rehearse|quickstart|supervisor run|dashboard|record --|data mount"
    r"|node (forward|ssh |stop|start|logs)"
    r"|local (shell|bench|up|down)|job (ssh|exec|retry|cancel|tensorboard)|(run|predict) digits"
    r"|submit digits/job.yaml$|logs -f|--watch|top( digits)?$|service (describe|logs|update|delete)"
    r"|serve chat|context (create|delete|check|edit|rename)|checkpoint seal"
    r"|bench (serve|node)|--from-jax"
)
"""What waits for Ctrl-C or a person, runs for minutes, or needs Google, a slice of one worker,
a startup script, a server or files of another framework; each has tests of its own."""


@pytest.mark.matrix
@pytest.mark.timeout(300)
def test_examples_end_well(cloud, tpuctl, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("print('trained')\n")
    store = job_records.store_of(cloud.home)
    job = job_records.job(state=JobState.SUCCEEDED, attempts=(job_records.attempt(),))
    saved = replace(job.spec, checkpoints=Checkpoints("gs://local-bucket/digits"))
    job_records.put(store, replace(job, spec=saved))
    runtime = Runtime(environ={"TPUCTL_HOME": str(cloud.home)})
    checkpoint_runs.run(runtime.store(saved.checkpoints.dir), 50, 100)
    ended = []
    for path, lines in examples().items():
        for line in lines:
            if NOT_PLAYED.search(line):
                continue
            argv = shlex.split(line.removeprefix('eval "$(').removesuffix(')"'))[1:]
            if path == "queued-resource delete":
                tpuctl("qr", "wait", "q1")
            result = tpuctl(*argv)
            if result.code:
                ended.append((line, result.code, result.err[-300:]))
    assert ended == [], "\n".join(map(str, ended))
