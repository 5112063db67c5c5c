"""An engine with OpenAI's API that has no model: it stands for vLLM where the text does not matter.

Its text is made of the prompt alone, so that every replica answers a request alike. A token takes
the time that you say, a fixed number of requests is computed at once, and others wait.
"""

import argparse
import asyncio
import hashlib
import json
import signal
import time
from collections import Counter

from aiohttp import web

WORDS = (
    "the", "a", "of", "and", "to", "in", "is", "was", "he", "for", "it", "with", "as", "his", "on",
    "be", "at", "by", "had", "not", "are", "but", "from", "or",
)  # fmt: skip
DEFAULT_TOKENS = 16


class Engine:
    """What the server knows of its requests."""

    def __init__(self, options):
        self.options = options
        self.slots = asyncio.Semaphore(options.max_num_seqs)
        self.counts = Counter()
        self.requests = set()
        self.is_loaded = self.is_ending = self.is_draining = False

    async def load(self):
        """Take the time that loading a model and compiling it would take."""
        await asyncio.sleep(self.options.seconds_to_load)
        self.is_loaded = True
        print(f"ready: {self.options.served_model_name}", flush=True)

    async def words(self, prompt, count):
        """The words of an answer, each when it is computed."""
        self.counts["waiting"] += 1
        try:
            await self.slots.acquire()
        finally:
            self.counts["waiting"] -= 1
        self.counts["running"] += 1
        try:
            await asyncio.sleep(self.options.seconds_per_prompt)
            for number in range(count):
                await asyncio.sleep(self.options.seconds_per_token)
                self.counts["generation_tokens"] += 1
                yield word_at(prompt, number) + " "
        finally:
            self.counts["running"] -= 1
            self.slots.release()

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
        print(f"ended: {len(self.requests)} requests aborted", flush=True)


ENGINE = web.AppKey("engine", Engine)


def word_at(prompt, number):
    """The word at a place of the answer to a prompt."""
    digest = hashlib.sha256(f"{number}\n{prompt}".encode()).digest()
    return WORDS[int.from_bytes(digest[:4], "big") % len(WORDS)]


def failure(status, message):
    """An error in the words of OpenAI's API."""
    kinds = {400: "BadRequestError", 404: "NotFoundError", 503: "ServiceUnavailableError"}
    kind = kinds.get(status, "InternalServerError")
    error = {"message": message, "type": kind, "param": None, "code": status}
    headers = {"Retry-After": "1"} if status == 503 else {}
    return web.json_response({"error": error}, status=status, headers=headers)


def prompt_of(asked):
    """The prompt of a request; raises ValueError, and KeyError where it has none."""
    if "messages" not in asked:
        prompt = asked["prompt"]
    else:
        prompt = "\n".join(f"{each['role']}: {each['content']}" for each in asked["messages"])
    count = asked.get("max_completion_tokens") or asked.get("max_tokens") or DEFAULT_TOKENS
    if not isinstance(prompt, str) or not isinstance(count, int) or not 0 < count <= 100_000:
        raise ValueError
    return prompt, count


def chunk_of(about, is_chat, text, reason=None):
    """A part of an answer, or with `is_chat` of a chat."""
    choice = {"index": 0, "finish_reason": reason}
    choice |= {"delta": {"content": text} if text else {}} if is_chat else {"text": text}
    return {**about, "choices": [choice]}


async def complete(request):
    """Answer /v1/completions and /v1/chat/completions."""
    engine = request.app[ENGINE]
    if engine.is_draining and engine.options.silent_shutdown:
        return failure(500, "cannot schedule new futures after shutdown")
    if engine.is_draining or not engine.is_loaded:
        return failure(503, "the engine is shutting down" if engine.is_loaded else "loading")
    try:
        asked = await request.json()
        prompt, count = prompt_of(asked)
    except (ValueError, KeyError, TypeError, RecursionError):
        return failure(400, "the body is not a request of this API")
    if asked.get("model") not in (None, engine.options.served_model_name):
        return failure(404, f"The model `{asked['model']}` does not exist.")
    task = asyncio.current_task()
    engine.requests.add(task)
    try:
        answer = stream if asked.get("stream") else whole
        response = await answer(request, engine, asked, prompt, count)
    finally:
        engine.requests.discard(task)
    engine.counts["success"] += 1
    engine.counts["prompt_tokens"] += len(prompt.split())
    return response


def about(engine, asked, kind):
    """What every part of an answer says first."""
    engine.counts["requests"] += 1
    name = f"{'chatcmpl' if 'messages' in asked else 'cmpl'}-{engine.counts['requests']}"
    model = engine.options.served_model_name
    return {"id": name, "object": kind, "created": int(time.time()), "model": model}


def usage(prompt, count):
    """The numbers of tokens: words here."""
    size = len(prompt.split())
    return {"prompt_tokens": size, "completion_tokens": count, "total_tokens": size + count}


async def whole(_request, engine, asked, prompt, count):
    """Answer when the text is complete."""
    is_chat = "messages" in asked
    text = "".join([word async for word in engine.words(prompt, count)])
    choice = {"index": 0, "finish_reason": "length", "logprobs": None}
    choice |= {"message": {"role": "assistant", "content": text}} if is_chat else {"text": text}
    answer = about(engine, asked, "chat.completion" if is_chat else "text_completion")
    return web.json_response(answer | {"choices": [choice], "usage": usage(prompt, count)})


async def stream(request, engine, asked, prompt, count):
    """Answer with an event for every token, then [DONE]."""
    is_chat = "messages" in asked
    first = about(engine, asked, "chat.completion.chunk" if is_chat else "text_completion")
    headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
    response = web.StreamResponse(headers=headers)
    await response.prepare(request)

    async def send(data):
        await response.write(b"data: " + data + b"\n\n")

    async for word in engine.words(prompt, count):
        await send(json.dumps(chunk_of(first, is_chat, word)).encode())
    await send(json.dumps(chunk_of(first, is_chat, "", "length")).encode())
    if (asked.get("stream_options") or {}).get("include_usage"):
        await send(json.dumps({**first, "choices": [], "usage": usage(prompt, count)}).encode())
    await send(b"[DONE]")
    return response


async def health(request):
    """Say 200 while requests are taken."""
    engine = request.app[ENGINE]
    is_ending = engine.is_ending and not engine.options.silent_shutdown
    return web.Response(status=200 if engine.is_loaded and not is_ending else 503)


async def models(request):
    """List the one model."""
    name = request.app[ENGINE].options.served_model_name
    model = {"id": name, "object": "model", "created": 0, "owned_by": "openai-stub"}
    return web.json_response({"object": "list", "data": [model]})


async def metrics(request):
    """Say the numbers of requests and tokens under vLLM's names."""
    engine = request.app[ENGINE]
    label = json.dumps(engine.options.served_model_name)
    values = {
        "num_requests_running": ("gauge", engine.counts["running"]),
        "num_requests_waiting": ("gauge", engine.counts["waiting"]),
        "prompt_tokens_total": ("counter", engine.counts["prompt_tokens"]),
        "generation_tokens_total": ("counter", engine.counts["generation_tokens"]),
        "request_success_total": ("counter", engine.counts["success"]),
    }
    lines = [
        f"# TYPE vllm:{name} {kind}\nvllm:{name}{{model_name={label}}} {value}\n"
        for name, (kind, value) in values.items()
    ]
    return web.Response(text="".join(lines))


async def serve(options):
    """Serve until SIGTERM, then drain."""
    engine = Engine(options)
    application = web.Application()
    application[ENGINE] = engine
    for path in ("/v1/completions", "/v1/chat/completions"):
        application.router.add_post(path, complete)
    for path, handler in {"/health": health, "/v1/models": models, "/metrics": metrics}.items():
        application.router.add_get(path, handler)
    # A client that has gone frees its slot.
    runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, options.host, options.port).start()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    loading = asyncio.create_task(engine.load())
    await ended.wait()
    loading.cancel()
    await engine.drain()
    await runner.cleanup()


def main():
    """Read the options; those that vLLM has too have its names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="0.0.0.0")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--served-model-name", default="stub")
    parser.add_argument("--max-num-seqs", type=int, default=8, help="requests computed at once")
    parser.add_argument("--shutdown-timeout", type=float, default=0, help="0: SIGTERM aborts all")
    parser.add_argument("--lame-duck", type=float, default=0, help="seconds before it refuses any")
    parser.add_argument("--silent-shutdown", action="store_true", help="do not say so in /health")
    parser.add_argument("--seconds-per-token", type=float, default=0.02)
    parser.add_argument("--seconds-per-prompt", type=float, default=0.05)
    parser.add_argument("--seconds-to-load", type=float, default=1.0)
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
