"""Serves a model until a signal ends the process."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

from tpuctl.errors import LocalIOError, TpuctlError, UsageError
from tpuctl.serving.batching.batch_queue import BatchQueue
from tpuctl.serving.batching.batch_runner import BatchResult
from tpuctl.serving.batching.batch_sizes import BatchTimes, bucket_sizes
from tpuctl.serving.http1.connection import HttpConnection
from tpuctl.serving.program import (
    INPUTS_HINT,
    ModelCheckpoint,
    ModelProgram,
    TensorSpec,
    tensor_specs,
)
from tpuctl.serving.protocol.model_documents import ModelInfo
from tpuctl.serving.server.batch_dispatcher import BatchDispatcher
from tpuctl.serving.server.line_log import LineLog
from tpuctl.serving.server.model_server import ModelServer, ServerLoop, ServerPhase
from tpuctl.serving.server.model_thread import ModelEvents, ModelThread
from tpuctl.serving.server.server_metrics import ServerMetrics
from tpuctl.serving.server.server_options import ServerOptions

TICK_S = 0.02
"""How late an answer may be that a deadline is over."""
SWEEP_S = 0.5
"""How late a connection may be cut."""
BACKLOG = 1024
SIGNALS = (signal.SIGTERM, signal.SIGINT)


def serve(
    load: Callable[[ModelCheckpoint | None], Any],
    predict: Callable[[Any, Any], Mapping[str, Any]],
    inputs: Mapping[str, tuple[str, Sequence[int]]],
    *,
    checkpoint: str | None = None,
    example: Mapping[str, Any] | None = None,
    options: ServerOptions | None = None,
) -> None:
    """Serve a model until SIGTERM, from the main thread; what `python3 -m tpuctl.serving` does.

    `inputs` is what a module declares as INPUTS, `example` as EXAMPLE; `checkpoint` is the
    directory that `load` gets. Raises TpuctlError when the model cannot be loaded or served.
    """
    program = ModelProgram(
        "model", load, predict, inputs=tensor_specs(inputs, "inputs"), example=example or {}
    )
    found = ModelCheckpoint(checkpoint) if checkpoint else None
    run_server(program, found, options or ServerOptions())


def run_server(
    program: ModelProgram,
    checkpoint: ModelCheckpoint | None,
    options: ServerOptions,
    *,
    write_line: Callable[[str], None] | None = None,
) -> int:
    """Serve until a signal; returns 0 after a drain, and 128 + its number after a second one."""
    if not program.inputs:
        raise UsageError(f"{program.name} declares no INPUTS", hint=INPUTS_HINT)
    log = LineLog(write_line or print_line, time.monotonic)
    return asyncio.run(_run(program, checkpoint, options, log))


def print_line(text: str) -> None:
    """Write a line of the log to standard error."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201


async def _run(
    program: ModelProgram,
    checkpoint: ModelCheckpoint | None,
    options: ServerOptions,
    log: LineLog,
) -> int:
    run = ServerRun(program, checkpoint, options, log)
    listener = await run.listen()
    for number in SIGNALS:
        run.loop.add_signal_handler(number, run.receive_signal, number, listener)
    run.thread.start()
    run.sweep()
    try:
        return await run.ended
    finally:
        for number in SIGNALS:
            run.loop.remove_signal_handler(number)
        listener.close()
        run.end()


def open_port(host: str | None, port: int) -> socket.socket:
    """A socket that listens at a host, or at every address, of both families where it can."""
    if host is not None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    if socket.has_dualstack_ipv6():
        with suppress(OSError):  # no address of IPv6; a port that is taken fails below, too
            return socket.create_server(
                ("", port), family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=True
            )
    return socket.create_server(("", port), backlog=BACKLOG)


class ServerRun:
    """A server in the running event loop, from its start to its end."""

    def __init__(
        self,
        program: ModelProgram,
        checkpoint: ModelCheckpoint | None,
        options: ServerOptions,
        log: LineLog,
    ) -> None:
        """Build all parts; nothing runs yet."""
        self.loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[int] = self.loop.create_future()
        self._program = program
        self._checkpoint = checkpoint
        self._options = options
        self._log = log
        sizes = bucket_sizes(options.max_batch)
        self._times = BatchTimes(sizes, options.target_s)
        metrics = ServerMetrics(sizes)
        events = ModelEvents(
            log=partial(self._call, log.event),
            loaded=partial(self._call, self._show_model),
            finished=partial(self._call, self._finish_batch),
            failed=partial(self._call, self._fail),
        )
        self.thread = ModelThread(program, checkpoint, sizes, self._times, time.monotonic, events)
        self._dispatcher = BatchDispatcher(
            BatchQueue(options.most_queued_rows),
            self._times,
            metrics,
            time.monotonic,
            self.thread.run_batch,
        )
        self.server = ModelServer(
            options,
            self._dispatcher,
            metrics,
            log,
            time.monotonic,
            ServerLoop(self._schedule, self._run_aside),
        )
        self._large_bodies = ThreadPoolExecutor(1, "large-bodies")
        self._is_watching = False
        self._drain: asyncio.Task[None] | None = None

    async def listen(self) -> asyncio.Server:
        """Open the port; raises LocalIOError when it is taken."""
        options = self._options
        try:
            listening = open_port(options.host, options.port)
        except OSError as error:
            raise LocalIOError(
                f"port {options.port} cannot be opened: {error.strerror or error}",
                hint="give another one with --port",
            ) from error
        listener = await self.loop.create_server(
            lambda: HttpConnection(self.server, time.monotonic), sock=listening, backlog=BACKLOG
        )
        port = listening.getsockname()[1]
        self._log.event(f"listening on port {port}; loading {self._program.name}")
        return listener

    def receive_signal(self, number: int, listener: asyncio.Server) -> None:
        """Drain at the first signal, end at the second."""
        if self._drain is not None:
            self._end_with(128 + number)
        elif self.server.phase is ServerPhase.LOADING:
            self._end_with(0)
        else:
            self.server.phase = ServerPhase.DRAINING
            self._drain = self.loop.create_task(self._drain_server(listener))

    def sweep(self) -> None:
        """Cut connections that are slow or idle, now and then."""
        now_s = time.monotonic()
        for connection in list(self.server.connections):
            connection.check_time(now_s)
        self.loop.call_later(SWEEP_S, self.sweep)

    def _schedule(self, function: Callable[[], None]) -> None:
        """Call a function after all that is read now; watch deadlines while there are requests."""
        self.loop.call_soon(function)
        if not self._is_watching:
            self._is_watching = True
            self.loop.call_later(TICK_S, self._watch_deadlines)

    def _run_aside(self, work: Callable[[], Any], take: Callable[[Any], None]) -> None:
        """Call `work` in the thread of large bodies, then `take` in the event loop."""

        def run() -> None:
            try:
                outcome = work()
            except Exception as error:  # noqa: BLE001 (handed on)
                outcome = error
            self._call(take, outcome)

        self._large_bodies.submit(run)

    def _watch_deadlines(self) -> None:
        self._dispatcher.expire()
        self._is_watching = self._dispatcher.in_flight > 0
        if self._is_watching:
            self.loop.call_later(TICK_S, self._watch_deadlines)

    def end(self) -> None:
        """Cut what is left, and let the thread end."""
        for connection in list(self.server.connections):
            connection.abort()
        self.thread.end()
        self._large_bodies.shutdown(wait=False, cancel_futures=True)

    async def _drain_server(self, listener: asyncio.Server) -> None:
        began_s = time.monotonic()
        options = self._options
        self._log.event(
            f"a signal came: not ready any more; requests in flight: {self._dispatcher.in_flight}"
        )
        await asyncio.sleep(options.grace_s)
        listener.close()
        self.server.stop()
        while not self.server.is_at_rest:
            if time.monotonic() - began_s > options.drain_s:
                self._log.event(
                    f"requests given up after {options.drain_s:g} s: {self._dispatcher.in_flight}"
                )
                break
            await asyncio.sleep(TICK_S)
        self._end_with(0)

    def _end_with(self, code: int) -> None:
        if not self.ended.done():
            self.ended.set_result(code)

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call a function in the event loop, from another thread."""
        with suppress(RuntimeError):  # the loop is closed, the process is about to end
            self.loop.call_soon_threadsafe(function, *arguments)

    def _show_model(self, outputs: dict[str, TensorSpec]) -> None:
        step = self._checkpoint.step if self._checkpoint else None
        version = "1" if step is None else str(step)
        name = self._options.name or self._program.name
        self.server.show_model(ModelInfo(name, version, self._program.inputs, outputs))
        self._log.event(f"ready: model {name}, version {version}")

    def _finish_batch(self, result: BatchResult) -> None:
        self._dispatcher.finish_batch(result)

    def _fail(self, error: TpuctlError) -> None:
        if not self.ended.done():
            self.ended.set_exception(error)
