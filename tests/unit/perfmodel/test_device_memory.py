"""What a device holds: parameters by their sharding, and what is alive for a while."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl.perfmodel.workload.known_models import known_transformer
from tpuctl.perfmodel.workload.memory.device_memory import (
    memory_constants,
    serving_memory,
    train_memory,
)
from tpuctl.perfmodel.workload.parallelism import Parallelism
from tpuctl.perfmodel.workload.serving_run import ServingRun
from tpuctl.perfmodel.workload.slice_hardware import slice_hardware
from tpuctl.perfmodel.workload.train_run import REMATS, TrainRun
from tpuctl.perfmodel.workload.transformer import Transformer, count_parameters
from tpuctl.perfmodel.workload.workload_estimate import MemoryFit

GIB = 2**30
V5P = slice_hardware("v5p", "4x4x4")
V6E = slice_hardware("v6e", "2x4")
LLAMA = known_transformer("llama-3-8b")
SMALL = Transformer(4, 512, 8, 4, 64, 2048, 32000)
WAYS = st.sampled_from([1, 2, 4, 8])


def held(model: Transformer = LLAMA, **changes: object) -> dict[str, float]:
    run = TrainRun(sequences=64, sequence_tokens=8192, parallelism=Parallelism(fsdp=64))
    return dict(train_memory(V5P, model, replace(run, **changes)).kinds)


def test_parameters_are_cut_by_every_axis_but_data():
    parameters = count_parameters(LLAMA).total
    kinds = held(parallelism=Parallelism(data=4, fsdp=8, tensor=2))

    assert kinds["weights"] == parameters * 4 / 16
    assert kinds["gradients"] == parameters * 4 / 16
    assert kinds["optimizer"] == parameters * 8 / 16


def test_a_policy_that_keeps_less_holds_less():
    activations = [held(remat=remat)["activations"] for remat in REMATS if remat != "offload"]

    assert activations == sorted(activations, reverse=True)
    assert held(remat="full")["activations"] == 8192 * 32 * 4096 * 2
    assert held(remat="offload")["activations"] == 0


def test_a_loss_in_chunks_holds_a_part_of_the_logits():
    whole, halved, chunked = (held(remat="offload", logit_chunks=chunks) for chunks in (1, 2, 16))

    assert whole["logits"] == pytest.approx(8192 * 128256 * memory_constants()["logit_bytes"])
    assert whole["layer_buffers"] == 0
    assert halved["logits"] + halved["layer_buffers"] < whole["logits"]
    assert chunked["logits"] == 0
    assert chunked["layer_buffers"] > 0


def test_a_number_and_an_array_of_it_give_the_same():
    run = TrainRun(np.array([64]), 8192, Parallelism(fsdp=64), remat="offload")
    estimate = train_memory(V5P, LLAMA, run)
    one = held(remat="offload")
    assert {name: float(np.squeeze(kind)) for name, kind in estimate.kinds.items()} == one


def test_experts_of_a_device_have_places_for_tokens_of_all_others():
    model = known_transformer("mixtral-8x7b")
    alone = held(model, parallelism=Parallelism(fsdp=64), remat="offload", logit_chunks=64)
    spread = held(
        model, parallelism=Parallelism(fsdp=8, expert=8), remat="offload", logit_chunks=64
    )

    copies = memory_constants()["dispatch_copies"] * 2 * 2 * 4096 * 2  # of one token, in bytes
    more = spread["layer_buffers"] - alone["layer_buffers"]
    assert more == pytest.approx(8192 * copies * 3)  # the one expert of a device, for 8 devices
    assert spread["gathered_weights"] < alone["gathered_weights"] / 6


def test_with_a_layer_of_multi_token_prediction_logits_and_a_layer_are_held_at_once():
    kinds = held(known_transformer("hunyuan3-295b-a21b"), remat="offload")
    assert kinds["logits"] > 0
    assert kinds["layer_buffers"] > 0


@pytest.mark.parametrize(
    ("sequences", "fit"),
    [(8, MemoryFit.FITS), (40, MemoryFit.TIGHT), (1000, MemoryFit.DOES_NOT_FIT)],
)
def test_a_step_fits_when_the_high_end_of_its_memory_does(sequences, fit):
    run = TrainRun(sequences, 8192, Parallelism(fsdp=8), weight_bytes=2, gradient_bytes=2)
    estimate = train_memory(V6E, LLAMA, replace(run, moment_bytes=4))

    assert estimate.fit is fit
    assert (estimate.high_bytes <= estimate.usable_bytes) == (fit is MemoryFit.FITS)


def test_a_step_that_is_a_little_too_large_ends_at_the_memory():
    run = TrainRun(8, np.arange(1024, 65536, 1024), Parallelism(fsdp=8), weight_bytes=2)
    estimate = train_memory(V6E, LLAMA, run)

    at_the_memory = estimate.value_bytes == estimate.usable_bytes
    assert 0 < np.count_nonzero(at_the_memory) < 10
    assert set(estimate.fit[at_the_memory]) == {MemoryFit.TIGHT}
    assert set(estimate.fit) == set(MemoryFit)


def test_a_device_has_what_the_compiler_says_it_has():
    """`... Ran out of memory in memory space hbm. Used ... of 31.25G hbm.`"""
    stated = {"v4": 30.75, "v5e": 15.75, "v5p": 95.74, "v6e": 31.25, "tpu7x": 94.75, "v3": 15.48}
    for generation, gib in stated.items():
        topology = "2x2x1" if generation in ("v4", "v5p", "tpu7x") else "2x2"
        usable = slice_hardware(generation, topology).device.usable_bytes
        assert usable / GIB == pytest.approx(gib, abs=0.01), generation


def test_a_token_of_cache_has_the_bytes_that_engines_state():
    """vLLM on v5e-1: 26 KiB of Gemma 3 1B, and 18 KiB of Gemma 4 E2B, all layers in full."""
    hardware = slice_hardware("v5e", "1x1")
    for name, kib in (("gemma-3-1b", 26), ("gemma-4-e2b", 18)):
        model = known_transformer(name)
        whole = replace(model.attention, window_tokens=10**9)
        run = ServingRun(requests=1, prompt_tokens=1024, output_tokens=1024)
        cache = serving_memory(hardware, replace(model, attention=whole), run).kinds["kv_cache"]
        assert cache == pytest.approx(2048 * kib * 1024, rel=1e-9), name


def test_one_head_of_one_byte_a_number_takes_the_place_of_two():
    model = known_transformer("gemma-3-1b")
    run = ServingRun(1, 1024, 1024)
    half = replace(run, cache_bytes=1)

    caches = [serving_memory(V6E, model, one).kinds["kv_cache"] for one in (run, half)]

    assert caches[0] == caches[1]


def test_weights_of_a_served_model_are_those_that_an_engine_states():
    """vLLM, Qwen3.5-397B-A17B in FP8 on eight devices of tpu7x: 374.57 GiB in all."""
    hardware = slice_hardware("tpu7x", "2x2x1")
    run = ServingRun(1, 1, 1, Parallelism(tensor=8), weight_bytes=1, cache_bytes=1)

    weights = serving_memory(hardware, known_transformer("qwen3.5-397b-a17b"), run).kinds["weights"]

    assert 8 * weights / GIB == pytest.approx(374.57, rel=0.02)


def test_a_latent_is_whole_on_every_device_and_a_linear_layer_does_not_grow():
    kimi = known_transformer("kimi-linear-48b-a3b")
    short, long = (
        serving_memory(V6E, kimi, ServingRun(8, tokens, 0, Parallelism(tensor=8))).kinds["kv_cache"]
        for tokens in (1000, 2000)
    )
    assert long - short == 8 * 1000 * 7 * 640 * 2


def test_a_cache_with_windows_may_be_allocated_in_full():
    model = known_transformer("gemma-3-27b")
    estimate = serving_memory(V6E, model, ServingRun(8, 32768, 1024, Parallelism(tensor=8)))
    assert estimate.high_bytes > estimate.value_bytes + 3 * GIB


@given(data=WAYS, fsdp=WAYS, tensor=WAYS, expert=WAYS, remat=st.sampled_from(REMATS))
def test_kinds_add_up_and_the_value_is_in_its_interval(data, fsdp, tensor, expert, remat):
    ways = Parallelism(data=data, fsdp=fsdp, tensor=tensor, expert=expert)
    for name in ("llama-3-8b", "mixtral-8x7b", "deepseek-v2-lite", "hunyuan3-295b-a21b"):
        run = TrainRun(np.array([64, 512, 4096]), 4096, ways, remat=remat)
        estimate = train_memory(V5P, known_transformer(name), run)
        total = sum(estimate.kinds.values())
        assert total == pytest.approx(estimate.value_bytes, rel=1e-9)
        assert np.all(estimate.low_bytes <= estimate.value_bytes)
        assert np.all(estimate.value_bytes <= estimate.high_bytes)
        assert all(np.all(kind >= 0) for kind in estimate.kinds.values())


@given(requests=st.integers(1, 4000), tensor=WAYS, data=WAYS, cache_bytes=st.sampled_from([1, 2]))
def test_kinds_of_serving_add_up_and_are_never_negative(requests, tensor, data, cache_bytes):
    ways = Parallelism(tensor=tensor, data=data)
    for name in ("llama-3-8b", "deepseek-v3", "gemma-3-27b", "qwen3-next-80b-a3b"):
        run = ServingRun(requests, 4096, np.array([0, 4096]), ways, cache_bytes=cache_bytes)
        estimate = serving_memory(V6E, known_transformer(name), run)
        assert sum(estimate.kinds.values()) == pytest.approx(estimate.value_bytes, rel=1e-9)
        assert all(np.all(kind >= 0) for kind in estimate.kinds.values())
        assert np.all(estimate.low_bytes <= estimate.value_bytes)
        assert np.all(estimate.value_bytes <= estimate.high_bytes)


def test_weights_that_are_a_little_too_large_do_not_fit():
    model = known_transformer("qwen2.5-32b")
    run = ServingRun(1, 128, 128, Parallelism(tensor=2), weight_bytes=2.08)
    estimate = serving_memory(slice_hardware("v6e", "1x1"), model, run)

    assert 1 < estimate.kinds["weights"] / estimate.usable_bytes < 1.05
    assert estimate.fit is MemoryFit.DOES_NOT_FIT


@given(sequences=st.integers(1, 4096), tokens=st.sampled_from([128, 2048, 32768]), ways=WAYS)
def test_more_of_a_batch_never_holds_less_and_more_devices_never_more(sequences, tokens, ways):
    run = TrainRun(sequences, tokens, Parallelism(fsdp=ways), remat="minimal")
    one = train_memory(V5P, SMALL, run)
    more = train_memory(V5P, SMALL, replace(run, sequences=sequences + 1))
    spread = train_memory(V5P, SMALL, replace(run, parallelism=Parallelism(fsdp=2 * ways)))

    assert more.value_bytes >= one.value_bytes
    assert spread.value_bytes <= one.value_bytes
