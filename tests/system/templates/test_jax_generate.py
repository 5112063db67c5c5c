"""The template that generates text: with the cache as without, each row by itself, over HTTP."""

import json
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest

from system.templates.engines import running, texts_of
from tpuctl.checkpoint import Checkpointer
from tpuctl.operations.local.templates import template_folder

pytestmark = pytest.mark.skipif(find_spec("jax") is None, reason="JAX is not installed")
LENGTH, ROWS = 32, 3
# Most of a short run is the compiler's time.
QUICK = {
    "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
    "JAX_PLATFORMS": "cpu",
}
PROMPTS = ("Of man's first", "disobedience, 16", "and the fruit 017", "a")
"""Below, at and above the size that a prompt is padded to, and the shortest."""


@pytest.fixture(scope="module")
def template():
    """The template's modules, as its program imports them, and weights that differ in all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(template_folder("jax-generate")))
        import generation
        import model

        weights = model.initial_weights(model.Size(128, 2, 32, 4), 1)
        weights["embedding"] *= 30
        weights["layers"] = {name: 3 * array for name, array in weights["layers"].items()}
        yield SimpleNamespace(generation=generation, model=model, weights=weights)
    for name in ("generation", "model"):
        del sys.modules[name]


@pytest.fixture(scope="module")
def generator(template):
    return template.generation.Generator(template.weights, ROWS, LENGTH)


@pytest.fixture(scope="module")
def plain(template):
    """The likeliest text after a prompt, from all of it at every step."""
    import jax

    logits = jax.jit(template.model.logits)

    def write(prompt, count):
        tokens = list(prompt.encode())
        for _ in range(count):
            padded = np.zeros((1, LENGTH), np.int32)
            padded[0, : len(tokens)] = tokens
            tokens.append(int(np.argmax(logits(template.weights, padded)[0, len(tokens) - 1])))
        return tokens[-count:]

    return write


def begin(generator, row, prompt, *chance):
    return [generator.begin(row, list(prompt.encode()), *chance)]


def test_the_cache_changes_no_token(generator, plain):
    for prompt in PROMPTS:
        found = begin(generator, 1, prompt)
        found += [int(generator.step()[1]) for _ in range(LENGTH - len(prompt) - 1)]
        assert found == plain(prompt, LENGTH - len(prompt)), prompt
    assert len(set(found)) > 3  # it is not one token again and again


def test_requests_in_one_batch_do_not_change_each_other(generator, plain):
    """One begins while another is under way, and a third takes the place of one that ended."""
    first = begin(generator, 0, PROMPTS[0])
    first += [int(generator.step()[0]) for _ in range(3)]
    second = begin(generator, 2, PROMPTS[1])
    for _ in range(5):
        tokens = generator.step()
        first.append(int(tokens[0]))
        second.append(int(tokens[2]))
    third = begin(generator, 0, PROMPTS[2])
    for _ in range(5):
        tokens = generator.step()
        second.append(int(tokens[2]))
        third.append(int(tokens[0]))
    for prompt, found in zip(PROMPTS[:3], (first, second, third), strict=True):
        assert found == plain(prompt, len(found)), prompt


def test_a_seed_draws_the_same_text_in_every_row(generator):
    drawn = {}
    for row, seed in ((0, 7), (2, 7), (1, 8)):
        found = begin(generator, row, PROMPTS[0], 2.0, seed)
        drawn[row] = found + [int(generator.step()[row]) for _ in range(10)]
    assert drawn[0] == drawn[2] != drawn[1]


@pytest.fixture(scope="module")
def engine(template, tmp_path_factory):
    """The program of the template on a checkpoint that training would have left."""
    directory = str(tmp_path_factory.mktemp("run"))
    state = {"weights": template.weights, "mean": {"a": np.zeros(1)}}
    with Checkpointer(directory, 0, 1, every=1) as checkpointer:
        checkpointer.restore(like=state)
        checkpointer.save(8, state, force=True)
    options = ("--context", str(LENGTH), "--rows", "2", "--shutdown-timeout", "30")
    with running("jax-generate", *options, TPUCTL_CHECKPOINT=directory, **QUICK) as found:
        yield found


def test_it_serves_the_newest_checkpoint_and_ends_when_all_is_answered(engine, plain):
    text = "".join(map(chr, plain(PROMPTS[0], 10)))
    assert engine.complete(PROMPTS[0], 10) == text
    body = {"prompt": PROMPTS[0], "max_tokens": 10, "stream": True}
    status, stream = engine.ask("/v1/completions", body)
    assert (status, texts_of(stream)) == (200, [*text, ""])
    assert len(engine.complete(PROMPTS[0], 1000)) == LENGTH - len(PROMPTS[0])
    refused = {
        "{": 400, "[]": 400, "[" * 100_000: 400, '{"prompt": 1}': 400, '{"prompt": "\\u00e9"}': 400,
        json.dumps({"prompt": "x" * LENGTH}): 400, '{"prompt": "a", "max_tokens": 0}': 400,
        '{"prompt": "a", "temperature": -1}': 400, '{"prompt": "a", "seed": 1e3}': 400,
        '{"prompt": "a", "model": "gpt"}': 404,
    }  # fmt: skip
    for body, status in refused.items():
        assert engine.ask("/v1/completions", body.encode())[0] == status, body
    with engine.sent("/v1/completions", {"prompt": "a", "stream": True}) as answer:
        first = answer.readline()
        engine.process.terminate()
        assert len(texts_of((first + answer.read()).decode())) == LENGTH - 1 + 1
    assert engine.process.wait(60) == 0
