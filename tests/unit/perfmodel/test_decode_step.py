"""Seconds a token of a batch of requests: terms, arrays and the order of what is asked."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl.catalog.public_models import public_models
from tpuctl.perfmodel.workload.known_models import known_transformer
from tpuctl.perfmodel.workload.parallelism import Parallelism
from tpuctl.perfmodel.workload.serving.decode_step import decode_step
from tpuctl.perfmodel.workload.serving.forward_pass import experts_hit, sequence_cache_bytes
from tpuctl.perfmodel.workload.serving.prefill import prefill
from tpuctl.perfmodel.workload.serving.serving_constants import known_engines
from tpuctl.perfmodel.workload.serving_run import ServingRun
from tpuctl.perfmodel.workload.slice_hardware import slice_hardware

HARDWARE = slice_hardware("v6e", "2x4")
MODEL = known_transformer("llama-3-70b")


def run_of(requests=64, prompt=1000, output=1000, **other) -> ServingRun:
    return ServingRun(requests, prompt, output, Parallelism(tensor=8), **other)


@pytest.mark.parametrize("modelled", [decode_step, prefill])
def test_the_terms_add_up_to_the_value_and_the_interval_holds_it(modelled) -> None:
    estimate = modelled(HARDWARE, MODEL, run_of())

    assert sum(estimate.terms.values()) == pytest.approx(estimate.value_s)
    assert estimate.low_s < estimate.value_s < estimate.high_s
    assert estimate.terms[estimate.bound] == max(estimate.terms.values())


def test_arrays_are_answered_as_each_number_is() -> None:
    requests, tensor = np.array([1, 64, 128]), np.array([8, 8, 4])
    run = ServingRun(requests, 1000, 1000, Parallelism(tensor=tensor))

    together = decode_step(HARDWARE, MODEL, run)

    for i in range(3):
        ways = Parallelism(tensor=int(tensor[i]))
        alone = decode_step(HARDWARE, MODEL, ServingRun(int(requests[i]), 1000, 1000, ways))
        assert together.value_s[i] == pytest.approx(alone.value_s)
        assert together.bound[i] == alone.bound


def test_a_token_takes_longer_beside_prompts_that_are_read() -> None:
    alone = decode_step(HARDWARE, MODEL, run_of(prefills_per_step=0))
    loop = decode_step(HARDWARE, MODEL, run_of())

    assert alone.terms["prefill"] == 0
    assert loop.value_s > alone.value_s


@given(
    requests=st.integers(1, 2000),
    more=st.integers(1, 500),
    prompt=st.integers(1, 30_000),
    output=st.integers(1, 30_000),
    tensor=st.sampled_from([1, 2, 4, 8]),
    name=st.sampled_from(["llama-3-70b", "deepseek-v3", "qwen3.5-397b-a17b", "gemma-4-31b"]),
)
def test_more_requests_take_longer_and_the_interval_holds_the_value(
    requests, more, prompt, output, tensor, name
) -> None:
    model = known_transformer(name)
    ways = Parallelism(tensor=tensor, expert=8 // tensor)
    counts = np.array([requests, requests + more])

    both = decode_step(HARDWARE, model, ServingRun(counts, prompt, output, ways))
    alone = decode_step(HARDWARE, model, ServingRun(requests, prompt, output, ways))

    assert both.value_s[1] >= both.value_s[0]
    assert both.value_s[0] == pytest.approx(alone.value_s)
    assert sum(alone.terms.values()) == pytest.approx(alone.value_s)
    assert 0 < alone.low_s < alone.value_s < alone.high_s


def test_few_tokens_hit_few_experts_and_many_hit_all() -> None:
    model = known_transformer("deepseek-v3")

    assert experts_hit(model, 1.0) == pytest.approx(8)
    assert experts_hit(model, 1e5) == pytest.approx(256)
    assert experts_hit(MODEL, 10.0) == 0


def test_a_cache_is_read_by_its_kind() -> None:
    run = ServingRun(1, 1000, 0, Parallelism(tensor=1))

    def kept(name: str, tokens: float) -> float:
        return float(sequence_cache_bytes(known_transformer(name), run, tokens))

    # 80 layers, keys and values of 8 heads of 128 numbers, two bytes each.
    assert kept("llama-3-70b", 1000.0) == 80 * 1000 * 2 * 8 * 128 * 2
    # A latent of 512 numbers and 64 of the position, padded to 128.
    assert kept("deepseek-v3", 1000.0) == 61 * 1000 * (512 + 128) * 2
    # Five of six layers keep the last 1024 tokens only.
    assert kept("gemma-3-27b", 9000.0) < 0.3 * kept("gemma-3-27b", 1024.0) * 9000 / 1024
    # A state does not grow; the other layers' caches do.
    growth = kept("qwen3-next-80b-a3b", 2000.0) - kept("qwen3-next-80b-a3b", 1000.0)
    assert growth == 12 * 1000 * 2 * 2 * 256 * 2


def test_a_device_holds_at_least_one_head_of_keys() -> None:
    eight = ServingRun(1, 1000, 0, Parallelism(tensor=8))
    more = ServingRun(1, 1000, 0, Parallelism(tensor=16))

    assert sequence_cache_bytes(MODEL, eight, 1000.0) == sequence_cache_bytes(MODEL, more, 1000.0)


def test_what_is_known_makes_the_interval_narrower() -> None:
    def width(model, engine: str) -> float:
        estimate = decode_step(HARDWARE, model, run_of(engine=engine))
        return estimate.high_s / estimate.low_s

    unknown = known_transformer("llama-2-70b")
    assert width(MODEL, "vllm") < width(unknown, "vllm")
    assert width(MODEL, "vllm") < width(MODEL, "")


def test_every_public_decoder_is_served() -> None:
    run = ServingRun(16, 1000, 100, Parallelism(tensor=8))
    shapes = {model.name: known_transformer(model.name) for model in public_models()}
    wrong = [name for name, it in shapes.items() if not decode_step(HARDWARE, it, run).value_s > 0]

    assert not wrong


def test_experts_of_half_a_byte_are_read_faster() -> None:
    model = known_transformer("deepseek-v3")
    ways = Parallelism(expert=8)
    bytes_8 = ServingRun(256, 1000, 1000, ways, weight_bytes=1)
    bytes_4 = ServingRun(256, 1000, 1000, ways, weight_bytes=1, expert_bytes=0.5)

    faster, slower = (decode_step(HARDWARE, model, run) for run in (bytes_4, bytes_8))
    assert faster.terms["weights"] < slower.terms["weights"]


def test_a_cached_prompt_is_read_in_a_shorter_time() -> None:
    cached = prefill(HARDWARE, MODEL, run_of(prompt=8000, cached_prompt_tokens=7000))

    assert cached.value_s < prefill(HARDWARE, MODEL, run_of(prompt=8000)).value_s


def test_stages_of_a_pipeline_share_the_requests_and_not_the_layers() -> None:
    stages = ServingRun(64, 1000, 1000, Parallelism(tensor=4, pipeline=2), prefills_per_step=0)
    one = ServingRun(32, 1000, 1000, Parallelism(tensor=4), prefills_per_step=0)

    piped, alone = (decode_step(HARDWARE, MODEL, run) for run in (stages, one))
    same = ("weights", "cache", "collectives", "layers")
    assert {name: piped.terms[name] for name in same} == {name: alone.terms[name] for name in same}


def test_an_engine_is_known_in_upper_and_lower_case() -> None:
    names = ("jetstream", "sglang-jax", "vllm", "vllm-spring-2026", "vllm-torchtpu")
    assert known_engines() == names
    small, capital, other = (
        decode_step(HARDWARE, MODEL, run_of(engine=engine)).value_s
        for engine in ("vllm", "vLLM", "another")
    )
    assert small == capital != other
