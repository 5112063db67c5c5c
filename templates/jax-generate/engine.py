"""Serve the text of a trained transformer over HTTP: many requests at once, streamed as it comes.

One loop owns the devices: it takes requests that wait into rows that are free, adds a token to all
rows at once, and hands out the tokens. It answers OpenAI's /v1/completions.
"""

import argparse
import asyncio
import json
import os
import signal
import time
from collections import deque
from dataclasses import dataclass, field

from aiohttp import web
from generation import Generator

from tpuctl.checkpoint import restore

MODEL = "jax-transformer"
START = "\n"
"""What an empty prompt is read as."""
MOST_WAITING = 256
DEFAULT_TOKENS = 64


@dataclass(eq=False)
class Asked:
    """A request: what it wants, and its characters as they come, None after the last."""

    prompt: str
    count: int
    temperature: float = 0.0
    seed: int = 0
    characters: asyncio.Queue = field(default_factory=asyncio.Queue)
    is_gone: bool = False

    async def texts(self):
        """Every character as it comes."""
        try:
            while (character := await self.characters.get()) is not None:
                yield character
        finally:
            self.is_gone = True  # a row is free when nobody listens any more


class Engine:
    """The loop of the devices, and what waits for it."""

    def __init__(self, options):
        self.options = options
        self.waiting, self.rows = deque(), {}
        self.has_work = asyncio.Event()
        self.requests = set()
        self.is_ready = self.is_ending = self.is_draining = False

    async def run(self):
        """Load, compile, and then generate for ever."""
        generator = await asyncio.to_thread(self._load)
        self.is_ready = True
        while True:
            await self.has_work.wait()
            # In a thread: the event loop answers /health meanwhile.
            for row, token in await asyncio.to_thread(self._advance, generator):
                self._hand_out(row, token)
            if not self.rows and not self.waiting:
                self.has_work.clear()

    def _load(self):
        began = time.monotonic()
        restored = restore(os.environ["TPUCTL_CHECKPOINT"])
        print(f"loaded step={restored.step}", flush=True)
        generator = Generator(restored.tree["weights"], self.options.rows, self.options.context)
        generator.warm_up()
        print(f"ready after {time.monotonic() - began:.1f} s", flush=True)
        return generator

    def _advance(self, generator):
        """Begin what waits, then add a token to all; returns rows and their tokens, in order."""
        for row in [row for row, asked in self.rows.items() if asked.is_gone]:
            del self.rows[row]
        begun = []
        while self.waiting and len(self.rows) < generator.rows:
            asked = self.waiting.popleft()
            if asked.is_gone:
                continue
            row = next(each for each in range(generator.rows) if each not in self.rows)
            self.rows[row] = asked
            prompt = list(asked.prompt.encode("ascii"))
            begun.append((row, generator.begin(row, prompt, asked.temperature, asked.seed)))
        if begun:
            return begun
        tokens = generator.step() if self.rows else ()
        return [(row, int(tokens[row])) for row in self.rows]

    def _hand_out(self, row, token):
        asked = self.rows[row]
        asked.characters.put_nowait(chr(token))
        asked.count -= 1
        if asked.count == 0:
            asked.characters.put_nowait(None)
            del self.rows[row]

    def ask(self, asked):
        """Let a request wait for a row."""
        self.waiting.append(asked)
        self.has_work.set()

    async def drain(self):
        """Say that it ends, finish the requests for --shutdown-timeout, end what is left then."""
        self.is_ending = True
        print(f"draining: {len(self.requests)} requests in flight", flush=True)
        # A proxy that asks for /health now and then goes on sending for a moment.
        await asyncio.sleep(self.options.lame_duck)
        self.is_draining = True
        rest = self.options.shutdown_timeout - self.options.lame_duck
        if self.requests:
            await asyncio.wait(self.requests, timeout=max(0, rest))
        for request in self.requests:
            request.cancel()


ENGINE = web.AppKey("engine", Engine)


def failure(status, message):
    """An error in the words of OpenAI's API."""
    kind = {400: "BadRequestError", 404: "NotFoundError"}.get(status, "ServiceUnavailableError")
    error = {"message": message, "type": kind, "param": None, "code": status}
    headers = {"Retry-After": "1"} if status in (429, 503) else {}
    return web.json_response({"error": error}, status=status, headers=headers)


def read(body, context):
    """What a request asks for; raises ValueError with the reason."""
    if not isinstance(body, dict) or not isinstance(body.get("prompt"), str):
        raise ValueError("prompt must be a text")
    prompt = body["prompt"] or START
    if not prompt.isascii():
        raise ValueError("this model knows ASCII characters only")
    if len(prompt) >= context:
        raise ValueError(f"the prompt has {len(prompt)} characters, and {context - 1} are possible")
    count, temperature = body.get("max_tokens", DEFAULT_TOKENS), body.get("temperature", 0.0)
    seed = body.get("seed", 0)
    if type(count) is not int or count < 1:
        raise ValueError("max_tokens must be a number above 0")
    if type(temperature) not in (int, float) or not 0 <= temperature <= 10:
        raise ValueError("temperature must be between 0 and 10")
    if type(seed) is not int or not 0 <= seed < 2**32:
        raise ValueError("seed must be a whole number below 2^32")
    return Asked(prompt, min(count, context - len(prompt)), float(temperature), seed)


async def complete(request):
    """Answer /v1/completions, with stream and without."""
    engine = request.app[ENGINE]
    if engine.is_draining or not engine.is_ready:
        return failure(503, "the engine is shutting down" if engine.is_ready else "loading")
    if len(engine.waiting) >= MOST_WAITING:
        return failure(429, "too many requests wait")
    try:
        body = await request.json()
        asked = read(body, engine.options.context)
    except (ValueError, RecursionError) as error:  # the latter of brackets in brackets
        return failure(400, str(error))
    if body.get("model") not in (None, MODEL):
        return failure(404, f"The model `{body['model']}` does not exist.")
    task = asyncio.current_task()
    engine.requests.add(task)
    engine.ask(asked)
    try:
        return await (stream if body.get("stream") else whole)(request, asked)
    finally:
        asked.is_gone = True
        engine.requests.discard(task)


def answer(text, reason=None):
    """An answer, or a part of it."""
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": reason}
    shared = {"id": "cmpl", "object": "text_completion", "created": int(time.time())}
    return {**shared, "model": MODEL, "choices": [choice]}


async def whole(_request, asked):
    """Answer when the text is complete."""
    text = "".join([character async for character in asked.texts()])
    size = len(asked.prompt)
    usage = {"prompt_tokens": size, "completion_tokens": len(text)}
    usage["total_tokens"] = size + len(text)
    return web.json_response(answer(text, "length") | {"usage": usage})


async def stream(request, asked):
    """Answer with an event for every character, then [DONE]."""
    headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
    response = web.StreamResponse(headers=headers)
    await response.prepare(request)
    async for character in asked.texts():
        await response.write(b"data: " + json.dumps(answer(character)).encode() + b"\n\n")
    await response.write(b"data: " + json.dumps(answer("", "length")).encode() + b"\n\n")
    await response.write(b"data: [DONE]\n\n")
    return response


async def health(request):
    """Say 200 while requests are taken."""
    engine = request.app[ENGINE]
    return web.Response(status=200 if engine.is_ready and not engine.is_ending else 503)


async def models(_request):
    """List the one model."""
    model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "you"}
    return web.json_response({"object": "list", "data": [model]})


async def serve(options):
    """Serve until SIGTERM, then drain."""
    application = web.Application()
    engine = application[ENGINE] = Engine(options)
    application.router.add_post("/v1/completions", complete)
    application.router.add_get("/v1/models", models)
    application.router.add_get("/health", health)
    # A client that has gone frees its row.
    runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, options.host, options.port).start()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    running = asyncio.create_task(engine.run())
    waiting = asyncio.create_task(ended.wait())
    await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        running.result()  # an engine that has failed ends, and says why
    await engine.drain()
    await runner.cleanup()
    os._exit(0)  # not later: a thread that compiles cannot be told to stop


def main():
    """Read the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="0.0.0.0")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--rows", type=int, default=8, help="requests computed at once")
    parser.add_argument("--context", type=int, default=128, help="characters, the prompt's too")
    parser.add_argument("--shutdown-timeout", type=float, default=0, help="0: SIGTERM aborts all")
    parser.add_argument("--lame-duck", type=float, default=0, help="seconds before it refuses any")
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
