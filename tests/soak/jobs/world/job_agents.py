"""The agent of a history's workers, as docs/agent-protocol.md has it: what it says and does."""

import json
from collections.abc import Callable
from typing import Any

from soak.checkpoints.strands import Outcome
from soak.jobs.world.job_hosts import Channel, Host
from soak.jobs.world.virtual_time import Process, Signal
from tpuctl.errors import PreconditionError, TransientError
from tpuctl.models.operation import CommandResult

SEGMENT_EVERY_S = 15.0
KEEPALIVE_S = 2.0
LAST_UPLOAD_S = 20.0
REFUSED = 3
"""The exit status of what a stale supervisor asks."""
Put = Callable[[str, bytes], Any]


class Agent:
    """One run on one host."""

    def __init__(self, host: Host, config: dict[str, Any], put: Put, programs: Any) -> None:
        self.host = host
        self.config = config
        self.put = put
        self.programs = programs
        self.env: dict[str, str] = config["env"]
        self.attempt = int(self.env["TPUCTL_ATTEMPT"])
        self.worker_id = int(self.env["TPUCTL_WORKER_ID"])
        self.alive = True
        self.goes = False
        self.grace_s: float | None = None
        self.member: Any = None
        self.log = bytearray()
        self.uploaded = 0
        self.status: dict[str, Any] = {"phase": "preparing"}
        self.changed, self.woken = Signal(), Signal()
        lives = host.lives()
        self._lives = lambda: self.alive and lives()
        host.universe.spawn(self._main(), self._lives)
        host.universe.spawn(self._upload_now_and_then(), self._lives)
        host.universe.spawn(self._beat(), self._lives)

    # ------------------------------------------------------------------ what it is told

    def start(self) -> None:
        self.goes = True
        self.woken.fire()

    def stop(self, grace_s: float) -> None:
        self.grace_s = grace_s if self.grace_s is None else min(grace_s, self.grace_s)
        self.woken.fire()

    def notice(self) -> None:
        """The metadata server says that the worker is preempted."""
        self.report(preempted=True)
        if self.member is not None:
            self.member.terminate()

    def perish(self) -> None:
        """Its host went down: the program too."""
        self.die()
        if self.member is not None:
            self.member.kill()

    def die(self) -> None:
        """The agent alone is killed; its program goes on."""
        self.alive = False
        self.changed.fire()

    def evict(self) -> None:
        """A later attempt takes its place."""
        if self.member is not None:
            self.member.kill()
        if self.alive and self.status["phase"] != "ended":
            self.stop(0.0)

    # ------------------------------------------------------------------ its life

    def _main(self) -> Process:
        draws = self.host.universe.draws
        yield draws.uniform(0.3, 1.5)
        if self.grace_s is not None:
            return (yield from self._end("setup", None))
        yield draws.uniform(0.1, 2.0)
        if status := self.programs.setup_status(self):
            return (yield from self._end("setup", status))
        self.report(phase="prepared")
        while not self.goes and self.grace_s is None:
            yield self.woken
        if self.grace_s is not None:
            return (yield from self._end("run", None))
        self.member = self.programs.start(self)
        self.report(phase="running")
        yield from self._until_ended()
        return (yield from self._end("run", self.member.exit))

    def _until_ended(self) -> Process:
        told = False
        while self.member.exit is None:
            if self.grace_s is not None and not told:
                told = True
                self.member.terminate()
                self.host.universe.after(self.grace_s, self.member.kill)
                continue
            yield self.woken

    def _end(self, stage: str, code: int | None) -> Process:
        signalled = code is not None and code < 0
        now_s = self.host.wall_s()
        self.report(
            phase="ended", stage=stage, exit_status=None if signalled else code,
            signal=-code if code is not None and signalled else None,
            stopped=self.grace_s is not None, preempted=self.host.is_noticed, ended_s=now_s,
            traceback=self.programs.traceback(code),
        )  # fmt: skip
        yield from self._upload_the_rest()
        self.report(closed=True)

    def _upload_the_rest(self) -> Process:
        until_s = self.host.universe.now_s + LAST_UPLOAD_S
        final = self.config.get("final")
        while self.host.universe.now_s < until_s:
            yield 0.3
            if not self._segment():
                continue
            if final and not self._sent(final, json.dumps({**self.status, "closed": True})):
                continue
            return

    def _upload_now_and_then(self) -> Process:
        while self.status["phase"] != "ended":
            yield SEGMENT_EVERY_S
            self._segment()

    def _beat(self) -> Process:
        while not self.status.get("closed"):
            yield KEEPALIVE_S
            self.changed.fire()

    def _segment(self) -> bool:
        data = bytes(self.log[self.uploaded :])
        key = f"{self.config['logs']}/{self.uploaded:012d}"
        if data and not self._sent(key, data.decode()):
            return False
        self.uploaded += len(data)
        return True

    def _sent(self, key: str, text: str) -> bool:
        try:
            return not isinstance(self.put(key, text.encode()), Outcome)
        except PreconditionError:
            return True
        except TransientError:
            return False

    def print(self, line: str) -> None:
        """The program prints a line."""
        self.log += f"{self.host.wall_s():.3f} {line}\n".encode()
        self.status["active_s"] = self.host.wall_s()
        self.changed.fire()

    def report(self, **changes: Any) -> None:
        self.status.update(changes)
        self.changed.fire()
        self.woken.fire()

    # ------------------------------------------------------------------ who watches it

    def watch(self, channel: Channel, offset: int | None) -> Process:
        """Stream the log and the status until the run is over."""
        channel.print({"protocol": self.config["protocol"]})
        offset = self.uploaded if offset is None else offset
        sent: dict[str, Any] = {}
        while channel.is_open:
            before = sent
            if len(self.log) > offset:
                text = bytes(self.log[offset:])
                channel.print({"offset": offset, "log": text.decode()})
                offset += len(text)
            sent = {**self.status, "uploaded_bytes": self.uploaded, "log_bytes": len(self.log)}
            channel.print({"status": sent} if sent != before else {})
            if sent.get("closed") or not self.alive:
                channel.print({"gone": not sent.get("closed", False)})
                channel.end(None)
                return
            yield self.changed


def command(
    host: Host, argv: list[str], stdin: bytes, channel: Channel | None, put: Put, programs: Any
) -> CommandResult:
    """Carry out one command line of tpuctl's on a host."""
    if "-c" in argv:
        return _install(host, json.loads(stdin), channel, put, programs)
    verb, directory, *rest = argv[argv.index(next(a for a in argv if a.endswith("agent.py"))) + 1 :]
    options = dict(zip(rest[::2], rest[1::2], strict=False))
    agent = host.runs.get(directory)
    if agent is None:
        return CommandResult(0, 1)
    if verb in ("start", "stop") and not _is_fresh(
        host, agent, int(options.get("--fence", 1 << 60))
    ):
        return CommandResult(0, REFUSED)
    if verb == "start":
        agent.start()
    elif verb == "stop":
        agent.stop(float(options.get("--grace", 10.0)))
    elif verb == "watch" and channel is not None:
        _watched(host, agent, channel, options.get("--offset"))
    text = json.dumps({**agent.status, "alive": agent.alive}).encode() if verb == "status" else b""
    return CommandResult(0, 0, text)


def _install(
    host: Host, asked: dict[str, Any], channel: Channel | None, put: Put, programs: Any
) -> CommandResult:
    directory, config = asked["directory"], json.loads(asked["files"]["config.json"])
    job = config["job"]
    if config.get("fence", 1 << 60) < host.fences.get(job, 0):
        return CommandResult(0, REFUSED)
    host.fences[job] = max(config.get("fence", 0), host.fences.get(job, 0))
    if directory not in host.runs:
        for agent in host.runs.values():
            if agent.config["job"] == job:
                agent.evict()
        host.runs[directory] = Agent(host, config, put, programs)
    if channel is not None:
        _watched(host, host.runs[directory], channel, None)
    return CommandResult(0, 0)


def _watched(host: Host, agent: Agent, channel: Channel, offset: str | None) -> None:
    host.channels.add(channel)
    start = None if offset is None else int(offset)
    host.universe.spawn(agent.watch(channel, start), host.lives())


def _is_fresh(host: Host, agent: Agent, fence: int) -> bool:
    job = agent.config["job"]
    if fence < host.fences.get(job, 0):
        return False
    if fence < 1 << 60:
        host.fences[job] = fence
    return True
