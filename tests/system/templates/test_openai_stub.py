"""The engine that stands for vLLM: its answers, its slots, and how it ends; OpenAI's own client."""

import http.client
import json
import re
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from system.templates.engines import running, texts_of

QUICK = ("--seconds-to-load", "0", "--seconds-per-prompt", "0", "--seconds-per-token", "0.001")
SLOW = (*QUICK[:4], "--seconds-per-token", "0.05", "--max-num-seqs", "1")
PROMPT = {"prompt": "Of man's first disobedience", "max_tokens": 12}
ENDLESS = {**PROMPT, "max_tokens": 10_000, "stream": True}


@pytest.fixture(scope="module")
def engine():
    with running("openai-stub", *QUICK) as found:
        yield found


def metric(engine, name):
    _, text = engine.ask("/metrics")
    return int(re.search(rf'^vllm:{name}\{{model_name="stub"\}} (\d+)$', text, re.MULTILINE)[1])


def test_a_stream_has_the_same_text_token_by_token(engine):
    text = engine.complete(PROMPT["prompt"], 12)
    assert len(text.split()) == 12
    status, stream = engine.ask("/v1/completions", {**PROMPT, "stream": True})
    assert (status, "".join(texts_of(stream))) == (200, text)
    assert len(texts_of(stream)) == 13
    assert engine.complete("another one", 12) != text


def test_what_it_cannot_answer_has_an_error_of_the_api(engine):
    refused = {
        "{": 400, "[]": 400, "[" * 100_000: 400, "{}": 400, '{"prompt": 1}': 400,
        '{"prompt": "a", "max_tokens": "x"}': 400, '{"messages": [1]}': 400,
        '{"prompt": "a", "model": "gpt"}': 404,
    }  # fmt: skip
    for body, status in refused.items():
        found, text = engine.ask("/v1/completions", body.encode())
        assert (found, json.loads(text)["error"]["code"]) == (status, status), body


def test_one_slot_computes_one_request_and_a_client_that_leaves_gives_it_back():
    with running("openai-stub", *SLOW) as engine:
        with engine.sent("/v1/completions", ENDLESS) as answer:
            assert answer.readline().startswith(b"data: ")
            with ThreadPoolExecutor(1) as second:
                waiting = second.submit(engine.complete, PROMPT["prompt"], 3)
                engine.until(lambda: metric(engine, "num_requests_waiting") == 1)
                assert metric(engine, "num_requests_running") == 1
                assert not waiting.done()
                leave(answer)
                assert len(waiting.result(30).split()) == 3
        assert metric(engine, "request_success_total") == 1
        assert metric(engine, "num_requests_running") == 0


def leave(answer):
    """End the connection of an answer that is not complete."""
    answer.fp.raw._sock.shutdown(socket.SHUT_RDWR)


def test_told_to_end_it_finishes_what_is_in_flight_and_takes_nothing_new():
    with running("openai-stub", *SLOW, "--shutdown-timeout", "30") as engine:
        with engine.sent("/v1/completions", {**PROMPT, "stream": True}) as answer:
            engine.end()
            status, text = engine.ask("/v1/completions", PROMPT)
            assert (status, json.loads(text)["error"]["code"]) == (503, 503)
            assert len(texts_of(answer.read().decode())) == 13
        assert engine.process.wait(30) == 0


def test_as_a_lame_duck_it_says_that_it_ends_and_still_answers():
    options = (*SLOW, "--shutdown-timeout", "60", "--lame-duck", "60")
    with running("openai-stub", *options) as engine:
        engine.end()
        assert len(engine.complete(PROMPT["prompt"], 3).split()) == 3


def test_it_may_be_as_silent_as_vllm_when_it_is_told_to_end():
    options = (*SLOW, "--shutdown-timeout", "30", "--silent-shutdown")
    with running("openai-stub", *options) as engine:
        with engine.sent("/v1/completions", {**PROMPT, "stream": True}) as answer:
            engine.process.terminate()
            engine.until(lambda: engine.ask("/v1/completions", {"prompt": "a"})[0] == 500)
            assert engine.health() == 200
            assert len(texts_of(answer.read().decode())) == 13
        assert engine.process.wait(30) == 0


def test_told_to_end_without_a_timeout_it_loses_them_as_vllm_does():
    with running("openai-stub", *SLOW) as engine:
        with engine.sent("/v1/completions", ENDLESS) as answer:
            assert answer.readline().startswith(b"data: ")
            engine.process.terminate()
            with pytest.raises((http.client.IncompleteRead, ConnectionError)):
                answer.read()
        assert engine.process.wait(30) == 0


def test_the_client_of_openai_is_served(engine):
    openai = pytest.importorskip("openai", reason="OpenAI's client is not installed")
    with openai.OpenAI(base_url=f"{engine.url}/v1", api_key="none", max_retries=0) as client:
        assert [model.id for model in client.models.list()] == ["stub"]
        asked = {"model": "stub", "max_tokens": 7}
        whole = client.completions.create(prompt="Once", **asked)
        assert (whole.choices[0].finish_reason, whole.usage.completion_tokens) == ("length", 7)
        parts = client.completions.create(prompt="Once", stream=True, **asked)
        assert "".join(part.choices[0].text for part in parts) == whole.choices[0].text
        messages = [{"role": "user", "content": "Once"}]
        chat = client.chat.completions.create(messages=messages, **asked)
        options = {"include_usage": True}
        parts = list(
            client.chat.completions.create(
                messages=messages, stream=True, stream_options=options, **asked
            )
        )
        text = "".join(part.choices[0].delta.content or "" for part in parts if part.choices)
        assert text == chat.choices[0].message.content
        assert parts[-1].usage.total_tokens == 2 + 7
        with pytest.raises(openai.NotFoundError):
            client.completions.create(model="gpt", prompt="Once")
