"""What is typed becomes a question or one line of error, whatever it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl.errors import TpuctlError, UsageError
from tpuctl.models.money.price_book import PriceBook
from tpuctl.models.planning.plan_spec import ModelChoice, SliceChoice, TrainPlanSpec
from tpuctl.operations.planning.given_values import KEYS, GivenValue, nested, read_file
from tpuctl.operations.planning.plan_specs import serve_spec, train_spec, transformer
from tpuctl.operations.planning.training_plan import plan_training

LEAVES = [
    f"{path}.{key}".lstrip(".")
    for path, keys in KEYS.items()
    for key in keys
    if f"{path}.{key}".lstrip(".") not in KEYS
]
TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(["1T", "-1", "0", "1e99", "nan", "fsdp=2", "true", "v6e-8", "v5e", "10s", ","]),
    st.integers(-3, 2**70).map(str),
)
MODEL = {"model": GivenValue("llama-3-8b", "--model")}
RUN = {"run.tokens": GivenValue("1T", "--tokens"), "run.seq": GivenValue("8192", "--seq")}


@given(st.dictionaries(st.sampled_from(LEAVES), TEXTS, max_size=4))
def test_options_make_a_question_or_an_error_of_a_user(texts):
    values = {path: GivenValue(text, f"--{path}") for path, text in texts.items()}
    for read in (train_spec, serve_spec):
        try:
            spec = read({**MODEL, **RUN, **values})
            transformer(spec.model)
        except TpuctlError as error:
            assert "\n" not in str(error)


@given(st.one_of(st.text(max_size=200), st.binary(max_size=200)))
def test_any_file_is_a_plan_or_an_error_of_a_user(tmp_path_factory, content):
    file = tmp_path_factory.mktemp("plans") / "plan.yaml"
    file.write_bytes(content.encode("utf-8", "replace") if isinstance(content, str) else content)
    try:
        assert isinstance(train_spec(read_file(file)), TrainPlanSpec)
    except TpuctlError as error:
        assert "\n" not in str(error)


SIDES = ("layers", "hidden", "heads", "kv_heads", "head_dim", "mlp_hidden", "vocab")
EXPERTS = ("count", "per_token", "hidden", "shared", "dense_layers")
SIDE = st.one_of(st.integers(0, 64), st.sampled_from([128, 4096, 2**24]))


@given(
    st.fixed_dictionaries({name: SIDE for name in SIDES}),
    st.one_of(st.none(), st.fixed_dictionaries({name: SIDE for name in EXPERTS})),
    st.sampled_from([1, 8192, 2**24]),
    st.sampled_from([1.0, 1e12, 1e17]),
)
def test_any_shape_is_planned_or_refused(sides, experts, sequence_tokens, tokens):
    shape = {**sides, **({"experts": experts} if experts else {})}
    slices = SliceChoice(types=("v6e-1", "v5p-128", "tpu7x-8"))
    spec = TrainPlanSpec(ModelChoice(shape=shape), tokens, sequence_tokens, slices=slices)
    try:
        rows = plan_training(spec, PriceBook(), 0.0).rows
        assert all(row.step.step_s > 0 for row in rows if row.is_possible)
    except TpuctlError as error:
        assert "\n" not in str(error)


def test_a_bomb_of_aliases_is_refused(tmp_path):
    file = tmp_path / "plan.yaml"
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    file.write_text("\n".join(lines))
    with pytest.raises(UsageError, match="has more than 100000 values"):
        read_file(file)


def test_paths_become_nested_mappings():
    assert nested({"layers": 2, "experts.count": 8, "attention.latent.kv_rank": 512}) == {
        "layers": 2,
        "experts": {"count": 8},
        "attention": {"latent": {"kv_rank": 512}},
    }
