"""The stages before the barrier, and what is kept out of everything that is written."""

import json
import os
import time
from pathlib import Path

import pytest
from unit.agent.agent_worker import Worker

from tpuctl.agent.data.range_reader import TransientFailure
from tpuctl.agent.job import cache_saver
from tpuctl.agent.job.logs import step_progress
from tpuctl.agent.job.prepare import mount_stage as mounts
from tpuctl.agent.job.prepare import secret_stage, workdir_stage

SWITCH = """\
import json, sys
config = json.load(open(sys.argv[2]))
print("proving")
print(config["says"])
sys.exit(config.get("status", 0))
"""
ARMED = {"result": "armed", "text": "armed"}
PEM = "-----BEGIN KEY-----\nMIIEvQIBADANBg\n-----END KEY-----\n"


def test_mounts_are_copied_before_setup(worker, tmp_path):
    for name, data in {"set/a": b"1", "set/deep/b": b"22", "setup": b"x"}.items():
        worker.server.store.put_if_absent(name, data)
    data = tmp_path / "data"
    worker.run("true", mounts=[{"path": str(data), "url": "gs://b/set"}], setup=f"cat {data}/a")
    worker.until(phase="prepared")
    assert (data / "deep" / "b").read_bytes() == b"22"
    assert sorted(path.name for path in data.iterdir()) == ["a", "deep"]
    assert worker.text() == f"tpuctl: {data}: 2 objects copied (3 bytes), 0 were there\n1"


@pytest.mark.parametrize(
    ("shell", "status", "printed"),
    [
        ((), 0, "after"),
        (("bash", "-eo", "pipefail"), 1, ""),
        (("bash", "-e"), 0, "after"),
        (("no-such-shell",), 127, "tpuctl: no-such-shell: No such file or directory"),
    ],
)
def test_whether_a_command_of_a_pipeline_that_fails_ends_the_run_is_the_shells_choice(
    worker, shell, status, printed
):
    ended = worker.finish("false | true\necho after", shell=shell)
    assert (ended["stage"], ended["exit_status"]) == ("run", status)
    assert worker.text() == printed


def copied(worker, path, url) -> int:
    """The exit code of the stage `mounts` of an attempt, in this process."""
    worker.configure("true", mounts=[{"path": str(path), "url": url}])
    return mounts.copy_all(str(worker.directory))


@pytest.fixture
def at_worker(worker, monkeypatch):
    """The environment that the stages of that worker have."""
    monkeypatch.setenv("GCE_METADATA_HOST", worker.server.address)
    return worker


def test_a_second_attempt_copies_nothing_again(at_worker, tmp_path, capsys):
    for number in range(5):
        at_worker.server.store.put_if_absent(f"set/{number}", b"x" * number)
    assert copied(at_worker, tmp_path / "data", "gs://b/set/") == 0
    assert "5 objects copied (10 bytes), 0 were there" in capsys.readouterr().out
    at_worker.server.media.clear()
    assert copied(at_worker, tmp_path / "data", "gs://b/set/") == 0
    assert "0 objects copied (0 bytes), 5 were there" in capsys.readouterr().out
    assert at_worker.server.media == []


def test_one_object_can_be_mounted(at_worker, tmp_path):
    at_worker.server.store.put_if_absent("vocabulary.txt", b"words")
    path = tmp_path / "here" / "words.txt"
    assert copied(at_worker, path, "gs://b/vocabulary.txt") == 0
    assert path.read_bytes() == b"words"


def test_a_mount_of_nothing_ends_the_run(worker, tmp_path):
    mounts = [{"path": str(tmp_path / "data"), "url": "gs://b/no-such-set"}]
    worker.run("true", mounts=mounts)
    status = worker.until(closed=True)
    assert (status["stage"], status["exit_status"]) == ("mounts", 1)
    assert status["last_lines"] == [
        f"tpuctl: {tmp_path}/data: there is no object at gs://b/no-such-set"
    ]


def test_secrets_reach_the_program_and_nothing_else(worker):
    worker.server.secrets["projects/p/secrets/hf/versions/latest"] = "hf_from_the_service"
    worker.begin(
        'echo "$A" | wc -c; echo "$HF" | wc -c; echo "$A $HF $KEY"; echo "step=1 token=$A";'
        ' echo "$KEY"; exec sleep 100',
        {"A": "from-a-pipe", "KEY": PEM},
        secrets={"HF": "sm://projects/p/secrets/hf"},
    )
    worker.until(step=1)
    worker.until_printed("step=1")
    with_secrets = [
        path.name
        for path in worker.directory.rglob("*")
        if path.is_file()
        and any(each in path.read_bytes() for each in (b"a-pipe", b"hf_", b"MIIE"))
    ]
    assert with_secrets == []
    assert worker.status()["metrics"] == {"token": "***"}
    assert worker.text().split("\n")[:3] == ["12", "20", "*** *** ***"]
    worker.order("stop", "--grace", "0")
    status = worker.until(closed=True)
    assert "step=1 token=***" in status["last_lines"]
    assert worker.server.authorizations == {"Bearer a-token"}


def test_a_secret_that_may_not_be_read_is_named(worker):
    worker.run("true", secrets={"HF": "sm://projects/p/secrets/hf/versions/3"})
    status = worker.until(closed=True)
    assert (status["stage"], status["exit_status"]) == ("secrets", 1)
    assert status["last_lines"] == [
        "tpuctl: cannot read the secret HF (sm://projects/p/secrets/hf/versions/3):"
        " 403 Permission 'secretmanager.versions.access' denied"
    ]


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"says": json.dumps(ARMED)}, ARMED),
        ({"says": "oh"}, {"result": "unknown", "text": "the switch printed no proof"}),
        (
            {"says": "oh", "status": 7},
            {"result": "unknown", "text": "the switch failed with status 7"},
        ),
    ],
)
def test_the_switch_is_armed_before_setup_and_ends_no_run(worker, config, told):
    (worker.directory / "switch.py").write_text(SWITCH)
    status = worker.finish("true", switch=config)
    assert (status["switch"], status["exit_status"]) == (told, 0)
    assert worker.final()["switch"] == told


def test_the_program_finds_its_step_file_and_dumps_on_faults(worker):
    program = (
        'echo 0.25 >>$TPUCTL_SAVING_FILE; echo "step=7 loss=0.5" >$TPUCTL_STEP_FILE; '
        "echo $PYTHONFAULTHANDLER; sleep 100"
    )
    worker.begin(program)
    status = worker.until(step=7)
    assert [row["waited_s"] for row in status["save_waits"]] == [0.25]
    assert status["metrics"] == {"loss": 0.5}
    assert status["active_s"] >= (worker.directory / "step").stat().st_mtime - 0.01
    assert worker.text() == "1"


def test_what_the_user_sets_is_kept(worker):
    worker.finish("echo $PYTHONFAULTHANDLER $WHERE", env={"PYTHONFAULTHANDLER": "0", "WHERE": "x"})
    assert worker.text() == "0 x"


def test_a_variable_that_no_process_can_have_is_said(worker):
    status = worker.finish("true", {"BAD": "nul\0nul"})
    assert (status["stage"], status["exit_status"]) == ("run", 127)
    assert status["last_lines"] == ["tpuctl: /bin/bash: embedded null byte"]


@pytest.fixture
def no_right(tmp_path, monkeypatch):
    """This user may make and write nothing, but a sudo is there that says what it was asked."""
    sudo = tmp_path / "bin" / "sudo"
    sudo.parent.mkdir()
    sudo.write_text(f'#!/bin/sh\necho "sudo $*" >>{tmp_path}/asked; shift; exec "$@"\n')
    sudo.chmod(0o755)
    monkeypatch.setenv("PATH", str(sudo.parent), prepend=":")

    def refuse(*_args, **_options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(mounts.os, "makedirs", refuse)
    monkeypatch.setattr(mounts.os, "access", lambda *_args: False)
    return tmp_path


def test_a_directory_of_root_is_made_by_sudo_and_given_to_the_user(no_right):
    mounts.make_directory(str(no_right / "data"))
    me = f"{os.getuid()}:{os.getgid()}"
    asked = [f"sudo -n mkdir -p -- {no_right}/data", f"sudo -n chown {me} -- {no_right}/data"]
    assert (no_right / "asked").read_text().splitlines() == asked


def test_a_directory_with_files_of_others_is_not_taken(no_right):
    with pytest.raises(mounts.MountError, match="files of other users"):
        mounts.make_directory(str(no_right))


def test_no_sudo_is_said(no_right):
    (no_right / "bin" / "sudo").write_text(
        "#!/bin/sh\necho sudo: a password is required >&2; exit 1"
    )
    with pytest.raises(mounts.MountError, match="it cannot be made: sudo: a password is required"):
        mounts.make_directory(str(no_right / "data"))


@pytest.mark.parametrize(
    ("trouble", "status"),
    [(TimeoutError("timed out"), 75), (TransientFailure("503 try again"), 75),
     (ValueError("html"), 75),
     (secret_stage.SecretError("403 no"), 1)],
)  # fmt: skip
def test_a_secret_that_was_not_reached_is_not_one_that_was_refused(
    tmp_path, monkeypatch, trouble, status
):
    def asked(_name, _token):
        raise trouble

    monkeypatch.setattr(secret_stage, "request_secret", asked)
    monkeypatch.setattr(secret_stage.time, "sleep", lambda _s: None)
    (tmp_path / "config.json").write_text('{"secrets": {"HF": "sm://projects/p/secrets/s"}}')
    assert secret_stage.print_secrets(str(tmp_path)) == status


def test_an_empty_secret_is_one(monkeypatch):
    monkeypatch.setattr(secret_stage, "access_secret", lambda *_: {"payload": {}})
    assert secret_stage.secret_value("sm://projects/p/secrets/s", None) == ""


@pytest.mark.parametrize(("is_away", "status"), [(True, 75), (False, 1)])
def test_a_bucket_that_was_not_reached_is_not_one_that_refused(
    tmp_path, monkeypatch, worker, is_away, status
):
    monkeypatch.setattr(time, "sleep", lambda _s: None)
    monkeypatch.setenv("GCE_METADATA_HOST", worker.server.address)
    worker.server.is_away = is_away
    given = {"endpoint": worker.server.endpoint, "bucket": "b", "workdir": "no/such", "mounts": []}
    given["mounts"].append({"url": "gs://b/none", "path": str(tmp_path / "data")})
    (tmp_path / "config.json").write_text(json.dumps(given))
    assert workdir_stage.fetch(str(tmp_path)) == status
    assert mounts.copy_all(str(tmp_path)) == status


@pytest.mark.parametrize("word", ["loss=nan", "loss=-inf", "loss=1e999"])
def test_a_number_that_json_has_not_is_told_as_text(word):
    assert step_progress.parse_step(f"step=3 {word}")["metrics"] == {"loss": word[5:]}


@pytest.mark.parametrize(
    ("env", "behind"), [({}, ":/of/the/worker"), ({"PYTHONPATH": "/mine"}, ":/mine")]
)
def test_what_programs_import_of_tpuctl_comes_before_their_own(worker, monkeypatch, env, behind):
    monkeypatch.setenv("PYTHONPATH", "/of/the/worker")
    worker.finish("echo $PYTHONPATH", setup="echo $PYTHONPATH", env=env)
    path = f"{worker.directory}/library.zip{behind}"
    assert worker.text().split("\n") == [path, path]


def test_a_trainer_in_its_own_words_tells_its_step(worker):
    lines = "printf 'restored 20\\nat 21, loss 0.5\\n'"
    status = worker.finish(
        lines, progress=r"at (?P<step>\d+), loss (?P<loss>.*)|restored (?P<resumed>\d+)"
    )
    told = status["step"], status["resume_step"], status["metrics"]
    assert told == (21, 20, {"loss": 0.5})


def test_what_one_run_compiles_is_there_for_the_next(worker, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "one"))
    write = "cd $JAX_COMPILATION_CACHE_DIR; echo 1 > a; mkdir d; echo 2 > d/b; ln -s a c"
    worker.finish(write, cache="gs://b/cache")
    assert worker.text().split("\n") == [
        "tpuctl: the cache gs://b/cache is empty", "tpuctl: 2 new files of the cache saved",
    ]  # fmt: skip
    assert [each.key for each in worker.server.store.list("cache/")] == ["cache/a", "cache/d/b"]

    monkeypatch.setenv("HOME", str(tmp_path / "two"))
    other = Worker(tmp_path / "another", worker.server, attempt=2)
    read = "cd $TPUCTL_CACHE_DIR; cat a d/b; echo 3 > a; echo 4 > e; kill -9 $$"
    other.finish(read, cache="gs://b/cache")
    assert other.text().split("\n") == [
        "tpuctl: the cache gs://b/cache is restored: 2 objects copied (4 bytes), 0 were there",
        "1", "2", "tpuctl: 0 new files of the cache saved",  # e may have been cut by the signal
    ]  # fmt: skip


def test_a_cache_that_cannot_be_had_ends_no_run(worker, tmp_path, monkeypatch):
    home = tmp_path / "no-directory"
    home.write_text("a file")
    monkeypatch.setenv("HOME", str(home))
    assert worker.finish("echo ran", cache="gs://b/cache")["exit_status"] == 0
    refused, ran, saved = worker.text().split("\n")
    assert refused.startswith("tpuctl: the cache gs://b/cache is not restored: ")
    assert (ran, saved) == ("ran", "tpuctl: 0 new files of the cache saved")


def test_a_cache_is_saved_while_the_program_runs(worker, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GCE_METADATA_HOST", worker.server.address)
    saver = cache_saver.CacheSaver(worker.server.endpoint, "gs://b/cache/")
    directory = Path(saver.variables()["TPUCTL_CACHE_DIR"])
    directory.mkdir(parents=True)
    for name in ("settled", "young"):
        (directory / name).write_text(name)
    os.utime(directory / "settled", (0, 0))
    saver.save_settled()
    assert [each.key for each in worker.server.store.list("cache/")] == ["cache/settled"]
    saver.finish(is_whole=True)
    assert saver.summary() == "2 new files of the cache saved"
    assert len(list(worker.server.store.list("cache/"))) == 2
    (directory / "late").write_text("late")
    worker.server.is_away = True
    saver.finish(is_whole=True)
    assert saver.summary().startswith(
        "2 new files of the cache saved; the last error: cache/late: "
    )
