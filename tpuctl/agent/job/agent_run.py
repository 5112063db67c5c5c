"""One attempt on this worker, from its config to its final status. Python 3.8."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time

from tpuctl.agent.data import metadata_server
from tpuctl.agent.data.metadata_server import MetadataWatch
from tpuctl.agent.job import child as children
from tpuctl.agent.job import log_end, stack_dump
from tpuctl.agent.job.child import BLOCK_BYTES, Child, shell_argv
from tpuctl.agent.job.logs import step_progress, uploader
from tpuctl.agent.job.logs.job_log import JobLog
from tpuctl.agent.job.logs.log_files import LogFiles
from tpuctl.agent.job.logs.redaction import Redaction
from tpuctl.agent.job.logs.save_waits import SaveWaits
from tpuctl.agent.job.logs.step_times import StepTimes
from tpuctl.agent.job.selector import Selector
from tpuctl.agent.job.state import processes, rundir
from tpuctl.agent.job.state.commands import RunCommands
from tpuctl.agent.job.state.status_file import PROTOCOL, StatusFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from tpuctl.agent.job.cache_saver import CacheSaver
    from tpuctl.agent.job.logs.progress_pattern import ProgressPattern
    from tpuctl.agent.job.metric_samples import MetricSamples
    from tpuctl.agent.job.objects import ObjectClient
    from tpuctl.agent.job.state.news_pipe import NewsPipe

USER_STAGES = frozenset({"setup", "ray", "run"})
HEARTBEAT_S = 5.0
STATUS_EVERY_S = 0.1
STEP_EVERY_S = 1.0
RSS_EVERY_S = 1.0
BARRIER_S = 1.0
SWITCH_S = 60.0
SWITCH_CHARACTERS = 500
NOT_STARTED = 127
LEFTOVERS_S = 2.0
"""For what the program left behind, between SIGTERM and SIGKILL."""
RAY_LOGS_S = 30.0
RETRY_UPLOAD_S = 24 * 3600.0
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0


class AgentRun:
    """Runs the stages of one attempt, and writes its log and status while they run."""

    def __init__(
        self,
        directory: str,
        config: Mapping[str, Any],
        secrets: Mapping[str, str],
        news: NewsPipe | None = None,
    ) -> None:
        self.directory = directory
        self.news = news
        self.config = config
        self.secrets = dict(secrets)
        self.redaction = Redaction()
        self.redaction.add(self.secrets.values())
        self.files = LogFiles(os.path.join(directory, "log"))
        self.log = JobLog(self.files, self.redaction)
        self.uploader = uploader.Uploader(self.objects, config["logs"], self.files)
        self.selector = Selector()
        self.commands = RunCommands(directory, config.get("drain_s"))
        self.step_file = step_progress.StepFile(directory, self.redaction)
        self.step_s = 0.0
        self.step_times: StepTimes | None = None
        self.save_waits = SaveWaits(directory)
        self.progress: ProgressPattern | None = None
        self.cache: CacheSaver | None = None
        self.samples: MetricSamples | None = None
        self.stacks = b""
        self.file = StatusFile(directory)
        self.status: dict[str, Any] = {
            "phase": "preparing",
            "agent_pid": os.getpid(),
            "agent_started": processes.start_ticks(os.getpid()),
        }

    def objects(self) -> ObjectClient:
        """Return a client of the bucket; imported late, as it is half of an agent's memory."""
        from tpuctl.agent.job.objects import ObjectClient

        return ObjectClient(self.config["endpoint"], self.config["bucket"])

    def run_stages(self) -> None:
        """Prepare, wait at the barrier and run the program; `finish` comes after it."""
        self.selector.listen(self.terminate, self.stop)
        try_start(self.uploader)
        self.report()
        self.begin_samples()
        try_start(MetadataWatch("instance/preempted", self.on_preempted))
        try_start(MetadataWatch("instance/maintenance-event", self.on_maintenance))
        if all(prepare() for prepare in self.preparation()):
            self.report(phase="prepared")
            if self.is_released():
                self.expect_progress()
                if self.cache is not None:
                    try_start(self.cache)
                self.stage("run", self.run_argv())

    def begin_samples(self) -> None:
        """Measure the worker from now on."""
        from tpuctl.agent.job.metric_samples import MetricSamples

        prefix = self.config["metrics"]
        self.samples = MetricSamples(self.directory, self.objects, prefix, self.status)
        try_start(self.samples)

    def preparation(self) -> Iterator[Callable[[], bool]]:
        """Yield the stages before the barrier in order; each returns whether to go on."""
        stages: dict[str, Callable[[], bool]] = {
            "workdir": lambda: self.stage("fetch", self.stage_argv("fetch")),
            "mounts": lambda: self.stage("mounts", self.stage_argv("mounts")),
            "cache": self.restore_cache,
            "secrets": self.resolve_secrets,
            "switch": self.arm_switch,
            "image": lambda: self.stage("image", self.stage_argv("image")),
            "setup": lambda: self.stage("setup", self.line_argv("setup")),
            "ray": lambda: self.stage("ray", self.apart_argv("ray-check")),
        }
        yield from (prepare for key, prepare in stages.items() if self.config.get(key))
        yield self.check_chips

    def run_argv(self) -> list[str]:
        """Return the command of the stage `run`: the user's lines, or a host of the Ray cluster."""
        return self.apart_argv("ray") if self.config.get("ray") else self.line_argv("run")

    def expect_progress(self) -> None:
        """From now on find step and metrics in what is printed by the job file's `progress`."""
        if self.config.get("progress"):
            from tpuctl.agent.job.logs.progress_pattern import ProgressPattern

            self.progress = ProgressPattern(self.config["progress"], self.log.say)

    def restore_cache(self) -> bool:
        """Bring the compilation cache back; what is added to it from now on is to be saved."""
        is_well = self.stage("cache", self.stage_argv("cache"))
        from tpuctl.agent.job.cache_saver import CacheSaver

        self.cache = CacheSaver(self.config["endpoint"], self.config["cache"])
        return is_well

    def line_argv(self, name: str) -> list[str]:
        """Return the command of the user's own lines: `setup` or `run`."""
        if not self.config.get("image"):
            return shell_argv(self.config[name], self.config.get("shell") or ())
        given = ",".join({**self.config["env"], **self.secrets})
        return [*self.apart_argv("contain"), "--stage", name, "--names", given]

    def stage_argv(self, verb: str) -> list[str]:
        """Return the command of a stage of the agent's own: a process, to give its memory back."""
        # These gain from what is installed here: a fast checksum.
        bare = [] if verb in ("mounts", "cache") else ["-S"]
        return [sys.executable, *bare, os.path.abspath(sys.argv[0]), verb, self.directory]

    def apart_argv(self, verb: str) -> list[str]:
        """Return the command of a program of the agent's own that has the user's variables."""
        # -E: those for Python are for the programs that it starts, not for it.
        return [sys.executable, "-E", "-S", os.path.abspath(sys.argv[0]), verb, self.directory]

    def resolve_secrets(self) -> bool:
        """Read the values of `sm://` references over a pipe, and redact them from then on."""
        told = bytearray()
        is_well = self.stage("secrets", self.stage_argv("secrets"), told)
        if is_well:
            self.secrets.update(json.loads(told))
            self.redaction.add(self.secrets.values())
        return is_well

    def check_chips(self) -> bool:
        """End the run where somebody else's process holds chips: the program could not have them.

        As this account sees it: the processes of others show by libtpu's lock alone.
        """
        from tpuctl.agent.tools import holders

        held_by = holders.others_text(self.config["job"])
        if not held_by:
            return True
        self.log.say(f"the chips of this worker are held by {held_by}")
        self.report(message=self.redaction.redact_json(held_by))
        self.end("chips", rundir.UNREACHED)
        return False

    def arm_switch(self) -> bool:
        """Let the slice's own switch prove what it may do; a run does not depend on it."""
        path = os.path.join(self.directory, "switch.json")
        told = bytearray()
        try:
            rundir.replace(path, json.dumps(self.config["switch"]))
            argv = [sys.executable, os.path.join(self.directory, "switch.py"), "arm", path]
            status = self.execute("switch", argv, told, SWITCH_S)
            last = bytes(told).strip().rpartition(b"\n")[2]
            failure = f"the switch failed with status {status}"
            proof = json.loads(last) if status == 0 else unproved(failure)
        except OSError as error:
            proof = unproved(f"the switch does not start: {error.strerror}")
        except ValueError:
            proof = unproved("the switch printed no proof")
        text: str = self.redaction.redact_json(proof["text"])
        self.report(switch={**proof, "text": text[:SWITCH_CHARACTERS]})
        if self.commands.is_stopping():
            self.end("switch", None)
        return not self.commands.is_stopping()

    def terminate(self) -> None:
        """Note SIGTERM: the worker shuts down."""
        self.commands.is_terminated = True

    def stop(self) -> None:
        """Note SIGUSR2: a request to stop that could not be written to the disk."""
        self.commands.is_told = True

    def on_preempted(self, value: str) -> None:
        """Take a value of instance/preempted, TRUE or FALSE."""
        self.commands.is_preempted = value == "TRUE"
        self.selector.wake()

    def on_maintenance(self, value: str) -> None:
        """Take a value of instance/maintenance-event, NONE when none is announced."""
        self.commands.maintenance = None if value == "NONE" else value
        self.selector.wake()

    def is_released(self) -> bool:
        """Wait at the barrier: True to go on, False to stop."""
        while not self.commands.may_start():
            if self.commands.is_stopping():
                self.end("run", None)
                return False
            self.selector.wait(min(BARRIER_S, self.tick()), BLOCK_BYTES)
        return True

    def stage(self, name: str, argv: list[str], private: bytearray | None = None) -> bool:
        """Run one stage to its end; True when it succeeded and nobody asked to stop."""
        if self.commands.is_stopping():
            self.end(name, None)
            return False
        try:
            status = self.execute(name, argv, private)
        except (OSError, ValueError) as error:  # a NUL in a variable is a ValueError
            self.log.say(f"{argv[0]}: {getattr(error, 'strerror', None) or error}")
            self.end(name, NOT_STARTED)
            return False
        if name == "run" or status or self.commands.is_stopping():
            self.end(name, status)
        return status == 0 and not self.commands.is_stopping()

    def execute(
        self,
        name: str,
        argv: list[str],
        private: bytearray | None = None,
        limit_s: float | None = None,
    ) -> int:
        """Run a process group to its end; return its exit status, or minus the signal.

        With `private`, standard output is added to it and not logged. The group is killed after
        `limit_s` seconds. Raises OSError or ValueError when it does not start.
        """
        process = self.spawn(name, argv, is_private=private is not None)
        phase = "preparing"
        if name == "run":
            phase, self.step_times = "running", StepTimes(time.monotonic())
        self.report(pid=process.pid, pid_started=processes.start_ticks(process.pid), phase=phase)
        child = Child(process, self.selector, self.commands)
        child.limit = None if limit_s is None else time.monotonic() + limit_s
        logged = process.stdout if private is None else process.stderr
        with process:
            if private is not None and process.stdout is not None:
                self.selector.watch(process.stdout.fileno(), private.extend)
            if logged is not None:
                self.selector.watch(logged.fileno(), lambda block: self.take(self.log.feed(block)))
            try:
                child.pump(self.log, self.take, self.tick)
            except BaseException:  # else its end would be waited for, with nobody to read from it
                processes.signal_group(process.pid, signal.SIGKILL)
                raise
        if child.stacks:
            told = b"".join([stack_dump.SIGABRT_HEADING.encode(), *(self.log.heard or [])])
            self.stacks = self.redaction.redact("".join(child.stacks).encode()) + told
            self.log.heard = None
        if process.returncode < 0:
            self.remove_container()
        return process.returncode

    def remove_container(self) -> None:
        """Remove the run's container, if it has one: what is in there does not end by itself."""
        if not self.config.get("image"):
            return
        from tpuctl.agent.job.prepare import container

        try:
            container.remove(self.directory)
        except (OSError, subprocess.SubprocessError) as error:
            self.log.say(f"the container may still run: {error}")

    def spawn(self, name: str, argv: list[str], *, is_private: bool) -> subprocess.Popen[bytes]:
        """Start a stage; `setup` and `run` get the user's environment, secrets too. OSError."""
        workdir = os.path.join(self.directory, "workdir")
        os.makedirs(workdir, exist_ok=True)
        files = {
            "TPUCTL_STEP_FILE": self.step_file.path,
            "TPUCTL_SAVING_FILE": self.save_waits.path,
        }
        if name not in USER_STAGES:
            ours = children.agent_environment(files)
            return children.spawn(argv, self.directory, ours, is_private=is_private)
        cached = {} if self.cache is None else self.cache.variables()
        given, library = {**cached, **self.config["env"], **self.secrets}, self.config["library"]
        theirs = children.user_environment(self.directory, given, library, files)
        return children.spawn(argv, workdir, theirs, is_private=is_private)

    def take(self, lines: bytes) -> None:
        """Take the step and metrics of lines that were printed into the status."""
        if lines:
            said = step_progress.parse_progress(lines)
            if self.progress is not None:
                said.update(self.progress.parse(lines))
            self.note(said)
            self.tell_watcher()

    def note(self, said: dict[str, Any]) -> None:
        """Take what the program said of its steps into the status."""
        self.status.update(said)
        if self.step_times is not None:
            self.step_times.note(said, time.monotonic())
            self.status["step_times"] = self.step_times.table()

    def note_waits(self) -> None:
        """Take into the status for how long the program waited for its checkpoints."""
        if self.step_times is not None and self.save_waits.read_new(self.step_times.began):
            self.status["save_waits"] = self.save_waits.table()

    def tick(self) -> float:
        """Write the status when it is due; return for how many seconds nothing is to be done."""
        news = self.step_file.read_new()
        if news is not None:
            self.note(news[0])
            self.step_s = news[1]
        self.note_waits()
        if self.samples is not None and self.samples.newest is not None:
            self.status["sample"] = self.samples.newest
        if self.commands.maintenance != self.status.get("maintenance"):
            self.status["maintenance"] = self.commands.maintenance
            self.log.say(f"maintenance of this worker's host: {self.commands.maintenance}")
        if self.commands.notice() is not None:
            self.status["notice"] = self.commands.notice()
        is_changed = self.status != self.file.written
        if self.file.age_s >= (STATUS_EVERY_S if is_changed else HEARTBEAT_S):
            self.report()
            is_changed = False
        return STATUS_EVERY_S if is_changed else STEP_EVERY_S

    def end(self, stage: str, returncode: int | None) -> None:
        """Write that the run ended in a stage: `returncode` as of Popen, None if it did not run."""
        self.note_waits()
        if self.step_times is not None:
            self.status["ran_s"] = round(time.monotonic() - self.step_times.began, 3)
        is_signalled = returncode is not None and returncode < 0
        has_failed = stage == "run" and bool(returncode)
        log = self.log.tail + self.log.complaint
        self.report(
            phase="ended",
            stage=stage,
            exit_status=None if is_signalled else returncode,
            signal=-returncode if returncode is not None and is_signalled else None,
            stopped=self.commands.stop() is not None,
            terminated=self.commands.is_terminated,
            preempted=self.commands.is_preempted,
            ended_s=round(time.time(), 3),
            last_lines=log_end.last_lines(log),
            traceback=log_end.traceback(log) if has_failed else "",
        )
        if returncode != 0 and not self.commands.is_preempted:
            self.report(preempted=metadata_server.value("instance/preempted") == "TRUE")

    def report(self, **changes: Any) -> None:
        """Change fields of the status and write DIR/status.json now."""
        self.status.update(changes)
        if self.file.age_s >= RSS_EVERY_S:
            self.status["rss_bytes"] = processes.group_rss_bytes(self.status.get("pid"))
        self.file.write(self.status, self.document())
        self.tell_watcher()

    def tell_watcher(self) -> None:
        """Say to the `watch` that has begun the run that log or status is new."""
        if self.news is not None:
            self.news.tell()

    def document(self) -> dict[str, Any]:
        """Return the content of DIR/status.json, redacted."""
        active_s = max(self.log.active_s or 0.0, self.step_s)
        told: dict[str, Any] = self.redaction.redact_json(self.status)
        return {
            "protocol": PROTOCOL,
            **told,
            "active_s": round(active_s, 3) or None,
            "updated": round(time.time(), 3),
            "log_bytes": self.files.size_bytes,
            "uploaded_bytes": self.files.safe_bytes,
        }

    def finish(self) -> None:
        """End leftover processes, and upload log, stacks and final status, in this order.

        Goes on for up to a day while the bucket cannot be reached.
        """
        self.remove_container()
        processes.end_marked([self.directory], LEFTOVERS_S)
        self.finish_cache()
        self.uploader.finish()
        is_there = self.upload_final(uploader.PATIENCE_S if self.is_log_safe() else 0.0)
        if self.samples is not None:
            self.samples.finish(is_reachable=is_there)
        self.collect_ray_logs()
        self.report(closed=True)
        self.file.free()
        if not is_there:
            self.retry_upload()

    def finish_cache(self) -> None:
        """Save the rest of the cache, unless log and status have only seconds left."""
        if self.cache is not None and not (
            self.commands.is_preempted or self.commands.is_terminated
        ):
            self.cache.finish(is_whole=self.status.get("signal") is None)
            self.log.say(self.cache.summary())

    def collect_ray_logs(self) -> None:
        """Upload the logs of Ray's processes, if there were any, and remove what they left."""
        if not os.path.islink(os.path.join(self.directory, "ray")):
            return
        given = json.dumps({"secrets": self.secrets}).encode()
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            argv = self.stage_argv("ray-logs")
            subprocess.run(argv, input=given, timeout=RAY_LOGS_S, check=False)

    def is_log_safe(self) -> bool:
        """Whether the bucket has the whole log."""
        return self.files.safe_bytes == self.files.size_bytes

    def upload_final(self, patience_s: float) -> bool:
        """Upload stacks and final status; return whether the bucket has them and the log."""
        is_there = self.is_log_safe()
        if self.stacks:
            stacks = self.config["stacks"]
            is_there &= uploader.store_object(self.objects(), stacks, self.stacks, patience_s)
        text = json.dumps({**self.document(), "closed": True}).encode()
        final = self.config["final"]
        return uploader.store_object(self.objects(), final, text, patience_s) and is_there

    def retry_upload(self) -> None:
        """Try to upload for a day: without a supervisor nothing else is known of the self."""
        until, pause_s = time.monotonic() + RETRY_UPLOAD_S, FIRST_PAUSE_S
        is_there = False
        while not is_there and time.monotonic() < until and not self.commands.is_terminated:
            self.selector.wait(pause_s, BLOCK_BYTES)
            pause_s = min(LONGEST_PAUSE_S, pause_s * 2)
            is_there = self.uploader.segment(is_apart=True) and self.upload_final(0.0)
        self.report()


def try_start(thread: threading.Thread) -> None:
    """Start a thread, unless the worker has none to spare."""
    with contextlib.suppress(RuntimeError):
        thread.start()


def unproved(text: str) -> dict[str, str]:
    """A proof from which nothing is learnt: the switch itself did not work."""
    return {"result": "unknown", "text": text}
