"""`python -m localsim check CASSETTE`: does localsim answer what Google answered?

Every recorded call is made again, over the same wire, to a localsim of its own, in the recorded
order and not before its time. Google's own delays are unknown: a read that answers otherwise is
repeated while the simulated clock runs ahead, for a simulated day at most.
"""

import asyncio
import json
import re
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import grpc
from google.protobuf import json_format

from localsim.check import cassette
from localsim.check.answer_differences import differences
from localsim.check.cassette import CassetteError, RecordedCall
from localsim.server import Settings, serve
from localsim.services.tpu.tpu_methods import all_methods

LONGEST_WAIT_S = 86400.0
FIRST_STEP_S = 1.0
RECORDED_PROJECT = "recorded-project"
RECORDED_NUMBER = "123456789012"
_OPERATION = re.compile(r"operation-[\w-]+", re.ASCII)


@dataclass
class Replay:
    """A running localsim, and the names it uses in place of the recorded ones."""

    line: dict[str, Any]
    token: str = field(repr=False)
    http: aiohttp.ClientSession
    channel: grpc.aio.Channel
    names: dict[str, str] = field(default_factory=dict)
    elapsed_s: float = 0.0

    async def advance(self, seconds: float) -> None:
        """Let simulated time pass."""
        self.elapsed_s += seconds
        headers = {"Authorization": f"Bearer {self.token}"}
        body = {"advance_s": seconds}
        async with self.http.post(f"{self.line['control']}/clock", json=body, headers=headers) as r:
            r.raise_for_status()

    def with_own_names(self, value: Any) -> Any:
        """A recorded request with the names of this cloud."""
        text = json.dumps(value)
        for recorded, own in self.names.items():
            text = text.replace(recorded, own)
        return json.loads(text)

    def learn(self, recorded: Any, found: Any) -> None:
        """Remember the name that an operation of the recording has here."""
        if not (isinstance(recorded, dict) and isinstance(found, dict)):
            return
        theirs, ours = (str(each.get("name", "")).rpartition("/")[2] for each in (recorded, found))
        if _OPERATION.fullmatch(theirs) and _OPERATION.fullmatch(ours):
            self.names[theirs] = ours


def check_cassette(path: Path, scenario: Path | None, say: Callable[[str], None]) -> int:
    """Report every difference and return how many calls differ.

    Raises CassetteError and ServeError.
    """
    calls = cassette.load(path)
    try:
        return asyncio.run(_check(calls, scenario, say))
    except RecursionError:
        raise CassetteError(f"{path} holds a call that is nested too deeply") from None


async def _check(
    calls: list[RecordedCall], scenario: Path | None, say: Callable[[str], None]
) -> int:
    differing = 0
    async with _replay(scenario) as replay:
        for call in calls:
            await replay.advance(max(0.0, call.at_s - replay.elapsed_s))
            lines = await _differences(replay, call)
            differing += bool(lines)
            for line in lines:
                say(_printable(f"line {call.line} {_short(call.what)}: {line}"))
    say(f"{len(calls)} call{'s' * (len(calls) != 1)}, {differing} answered differently")
    return differing


async def _differences(replay: Replay, call: RecordedCall) -> list[str]:
    """The differences of the first answer, unless time alone removes them."""
    answer = await _CALLING[call.wire](replay, call)
    first = list(differences(call.answer, answer))
    replay.learn(call.answer.get("response"), answer.get("response"))
    if not (first and call.is_read):
        return first
    step_s, waited_s = FIRST_STEP_S, 0.0
    while waited_s < LONGEST_WAIT_S:
        await replay.advance(step_s)
        waited_s, step_s = waited_s + step_s, step_s * 2
        answer = await _CALLING[call.wire](replay, call)
        if not list(differences(call.answer, answer)):
            return []
    return first


async def _by_grpc(replay: Replay, call: RecordedCall) -> dict[str, Any]:
    method = next((known for known in all_methods() if known.full_name == call.what), None)
    if method is None:
        return {"error": {"code": 12, "message": f"there is no method {call.what}"}}
    try:
        request = json_format.ParseDict(replay.with_own_names(call.request), method.request())
    except (json_format.ParseError, TypeError, AttributeError) as error:
        return {"error": {"code": 3, "message": f"localsim cannot read the request: {error}"}}
    send = replay.channel.unary_unary(
        call.what,
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=method.response.FromString,
    )
    try:
        reply = await send(request, timeout=30)
    except grpc.aio.AioRpcError as error:
        return {"error": {"code": error.code().value[0], "message": error.details()}}
    return {"response": json_format.MessageToDict(reply)}


async def _by_rest(replay: Replay, call: RecordedCall) -> dict[str, Any]:
    verb, _, path = replay.with_own_names(call.what).partition(" ")
    body = replay.with_own_names(call.request)
    url = replay.line["tpu_rest"] + path
    async with replay.http.request(verb, url, json=body) as reply:
        text = await reply.text()
    document: Any = None
    with suppress(ValueError):
        document = json.loads(text)
    return {"response": document, "status": reply.status}


_CALLING = {"grpc": _by_grpc, "rest": _by_rest}


def _short(what: str) -> str:
    """The name of a call: the method, or the verb and path without its query."""
    verb, _, path = what.rpartition(" ")
    return f"{verb} {path.partition('?')[0]}" if verb else what.rpartition("/")[2]


def _printable(text: str) -> str:
    """The line without characters that control a terminal."""
    return "".join(each if each.isprintable() else "?" for each in text)


@asynccontextmanager
async def _replay(scenario: Path | None) -> AsyncIterator[Replay]:
    with tempfile.TemporaryDirectory(prefix="check-") as directory:
        state_dir = Path(directory, "state")
        settings = Settings(
            state_dir,
            name="check",
            scenario=scenario,
            manual_clock=True,
            isolation="process",
        )
        announced: asyncio.Queue[str] = asyncio.Queue()
        serving = asyncio.ensure_future(serve(settings, announce=announced.put_nowait))
        try:
            line = await _first_line(serving, announced)
            token = (state_dir / "control.token").read_text("ascii")
            async with (
                aiohttp.ClientSession(trust_env=False) as http,
                grpc.aio.insecure_channel(line["tpu_grpc"]) as channel,
            ):
                names = {
                    RECORDED_PROJECT: line["project"],
                    f"projects/{RECORDED_NUMBER}": f"projects/{line['project']}",
                }
                yield Replay(line, token, http, channel, names)
        finally:
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving


async def _first_line(serving: "asyncio.Future[None]", announced: asyncio.Queue[str]) -> Any:
    first = asyncio.ensure_future(announced.get())
    waited_for: set[asyncio.Future[Any]] = {serving, first}
    await asyncio.wait(waited_for, return_when=asyncio.FIRST_COMPLETED)
    if not first.done():
        first.cancel()
        serving.result()  # raises why
    return json.loads(first.result())
