"""The parameters that a model's shape gives are those that its publisher states."""

from collections import Counter

import pytest

from tpuctl.catalog.public_models import public_model, public_models
from tpuctl.catalog.unknown_error import UnknownError
from tpuctl.perfmodel.workload.known_models import known_transformer
from tpuctl.perfmodel.workload.transformer import (
    Attention,
    LinearAttention,
    Transformer,
    count_parameters,
    full_attention_parameters,
)


def test_shapes_give_the_parameters_that_are_published():
    off = {
        model.name: ratio
        for model in public_models()
        if not 0.98
        <= (ratio := count_parameters(known_transformer(model.name)).total / model.parameters)
        <= 1.02
    }
    assert not off


def test_layers_of_every_kind_are_no_more_than_all_layers():
    shapes = {model.name: known_transformer(model.name) for model in public_models()}
    wrong = {
        name: shape.full_layers
        for name, shape in shapes.items()
        if not 0 < shape.full_layers <= shape.layers or shape.expert_layers > shape.layers
    }
    assert not wrong


@pytest.mark.parametrize(
    ("name", "published_active"),
    [
        ("deepseek-v3", 37e9),  # arXiv 2412.19437
        ("mixtral-8x7b", 12.9e9),  # arXiv 2401.04088
        ("qwen3-235b-a22b", 22e9),
        ("gemma-4-26b", 3.8e9),
        ("llama-4-maverick", 17e9),
        ("qwen3.5-397b-a17b", 17e9),
        ("hunyuan3-295b-a21b", 21e9),
    ],
)
def test_a_token_goes_through_some_experts_only(name, published_active):
    count = count_parameters(known_transformer(name))
    assert count.active == pytest.approx(published_active, rel=0.03)


def test_a_name_or_an_alias_is_of_one_model_and_in_lower_case():
    names = Counter(name for model in public_models() for name in (model.name, *model.aliases))
    assert not [name for name, count in names.items() if count > 1 or name != name.lower()]


def test_models_are_found_as_maxtext_and_hugging_face_spell_them():
    spelled = {
        "llama3.1-70b": "llama-3.1-70b",
        "meta-llama/Llama-3.1-70B": "llama-3.1-70b",
        "deepseek3-671b": "deepseek-v3",
        "llama4-17b-128e": "llama-4-maverick",
        "Qwen/Qwen3.5-397B-A17B": "qwen3.5-397b-a17b",
        "gemma4-31b": "gemma-4-31b",
    }
    assert {alias: public_model(alias).name for alias in spelled} == spelled


def test_every_model_names_its_source():
    assert not [model.name for model in public_models() if len(model.source) < 10]


def test_an_unknown_model_is_refused_with_near_names():
    assert public_model("Llama3-8B").name == "llama-3-8b"
    with pytest.raises(UnknownError, match="llama-3-8"):
        public_model("llama-3-8bb")


def test_keys_that_are_values_have_one_matrix():
    shape = Transformer(2, 100, 4, 2, 10, 100, 1000, attention=Attention(full_head_dim=20))
    shared = Attention(full_head_dim=20, full_keys_are_values=True)

    both = full_attention_parameters(shape)
    one = full_attention_parameters(Transformer(2, 100, 4, 2, 10, 100, 1000, attention=shared))

    assert both - one == 100 * 20 * 2


def test_a_linear_layer_keeps_a_matrix_for_every_value_head():
    linear = LinearAttention(key_heads=2, value_heads=4, key_dim=8, value_dim=16)

    assert linear.state == 4 * 8 * 16 + 4 * (2 * 16 + 64)
    assert Attention().linear_state == 0
