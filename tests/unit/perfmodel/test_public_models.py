"""The parameters that a model's shape gives are those that its publisher states."""

import pytest

from tpuctl.catalog.public_models import public_model, public_models
from tpuctl.catalog.unknown_error import UnknownError
from tpuctl.perfmodel.workload.known_models import known_transformer
from tpuctl.perfmodel.workload.transformer import count_parameters


def test_shapes_give_the_parameters_that_are_published():
    off = {
        model.name: ratio
        for model in public_models()
        if not 0.98
        <= (ratio := count_parameters(known_transformer(model.name)).total / model.parameters)
        <= 1.02
    }
    assert not off


def test_a_token_goes_through_some_experts_only():
    count = count_parameters(known_transformer("deepseek-v3"))
    assert count.active == pytest.approx(37.5e9, rel=0.02)  # arXiv 2412.19437: 37B


def test_an_unknown_model_is_refused_with_near_names():
    assert public_model("Llama3-8B").name == "llama-3-8b"
    with pytest.raises(UnknownError, match="llama-3-8"):
        public_model("llama-3-8bb")
