"""Traces of functions with JAX itself: their operations against what XLA counts."""

import importlib.util
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("jax") is None, reason="JAX is not installed"
)

from tpuctl.byte_size import size_text  # noqa: E402
from tpuctl.errors import UsageError  # noqa: E402
from tpuctl.operations.planning.tracing.jax_trace import trace  # noqa: E402
from tpuctl.operations.planning.tracing.traced_program import (  # noqa: E402
    TraceRequest,
    operation_of,
    trace_function,
)

ROOT = Path(__file__).parents[3]
PROGRAMS = """
import jax, jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

def shape(*sides, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(sides, dtype)

def mlp():
    def loss(weights, x):
        for weight in weights:
            x = jax.nn.relu(x @ weight)
        return (x ** 2).sum()
    return jax.value_and_grad(loss), [shape(256, 256)] * 4, shape(64, 256)

def attention():
    def attend(q, k, v):
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 8
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
    return attend, *[shape(2, 128, 4, 64, dtype=jnp.bfloat16)] * 3

def convolution():
    def loss(weights, x):
        numbers = ("NHWC", "HWIO", "NHWC")
        y = lax.conv_general_dilated(x, weights, (2, 2), "SAME", dimension_numbers=numbers)
        return (y ** 2).sum()
    return jax.grad(loss, (0, 1)), shape(3, 3, 32, 64), shape(8, 28, 28, 32)

def layer(x, weight):
    return jnp.tanh(x @ weight), None

def scanned():
    return lambda x, ws: lax.scan(layer, x, ws)[0], shape(64, 256), shape(12, 256, 256)

def one_layer():
    return lambda x, w: layer(x, w)[0], shape(64, 256), shape(256, 256)

def nested():
    @jax.jit
    def twice(x, w):
        return lax.fori_loop(0, 5, lambda _, x: lax.fori_loop(0, 3, lambda _, x: x @ w, x), x)
    return twice, shape(64, 64), shape(64, 64)

def rematerialised():
    def loss(x, w):
        return jnp.sin(jnp.sin(x @ w) @ w).sum()
    return jax.grad(jax.checkpoint(loss)), shape(64, 64), shape(64, 64)

def own_gradient():
    @jax.custom_vjp
    def multiply(x, w):
        return x @ w
    multiply.defvjp(lambda x, w: (x @ w, (x, w)), lambda kept, g: (g @ kept[1].T, kept[0].T @ g))
    return jax.value_and_grad(lambda x, w: multiply(x, w).sum(), (0, 1)), shape(8, 8), shape(8, 8)

def branches():
    def choose(x, w):
        return lax.cond(x.sum() > 0, lambda: x @ w @ w @ w, lambda: x @ w)
    return choose, shape(64, 64), shape(64, 64)

def searched():
    def search(x, w):
        return lax.while_loop(lambda x: x.sum() < 9, lambda x: x @ w, x)
    return search, shape(64, 64), shape(64, 64)

def sharded():
    mesh = jax.sharding.AbstractMesh((4, 2), ("data", "model"))
    def step(w, x):
        w = lax.all_gather(w, "data", tiled=True)
        y = lax.psum(x @ w, "model")
        return lax.psum_scatter(x.T @ y, "data", tiled=True)
    specs = (P(("model", "data")), P("data", "model"))
    mapped = jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P(("model", "data")))
    return jax.jit(mapped), shape(512, 256), shape(64, 512)

def spread():
    mesh = jax.make_mesh((4,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    cut = [jax.sharding.NamedSharding(mesh, spec) for spec in (P("data"), P())]
    return jax.jit(lambda x, w: x @ w, in_shardings=cut), shape(64, 256), shape(256, 256)

def explicit():
    mesh = jax.make_mesh((2, 2), ("data", "model"))
    def cut(*sides, spec):
        sharding = jax.sharding.NamedSharding(mesh, spec)
        return jax.ShapeDtypeStruct(sides, jnp.float32, sharding=sharding)
    def step(w, x):
        def loss(w):
            whole = jax.sharding.reshard(w, jax.sharding.NamedSharding(mesh, P(None, "model")))
            return (jnp.einsum("bk,kn->bn", x, whole) ** 2).sum()
        return w - jax.grad(loss)(w)
    return step, cut(256, 512, spec=P("data", "model")), cut(64, 256, spec=P("data", None))

def constants():
    def fill(x):
        return jnp.zeros((1000,)), jnp.arange(50), jnp.broadcast_to(x, (30, 8)), 1.0, x
    return jax.jit(fill), shape(8)

def repeated_zeros():
    mesh = jax.sharding.AbstractMesh((4,), ("data",))
    fill = lambda x: jnp.zeros((1000,))
    return jax.shard_map(fill, mesh=mesh, in_specs=P("data"), out_specs=P()), shape(8)

def precise():
    return lambda x, w: jnp.dot(x, w, precision="highest"), shape(64, 64), shape(64, 64)
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The file of the functions above."""
    path = tmp_path_factory.mktemp("programs") / "traced_programs.py"
    path.write_text(PROGRAMS)
    return path


@pytest.fixture
def traced(programs):
    """A function that traces one of them in this process: its answer, and its operations."""

    def trace_one(name):
        answer = trace({"target": f"{programs}:{name}", "shapes": None})
        return answer, [operation_of(each) for each in answer["operations"]]

    return trace_one


@pytest.fixture
def counted(programs):
    """A function that says what XLA counts: operations of one function, lowered, not compiled."""
    import jax

    from tpuctl.operations.planning.tracing.named_function import program_of

    def count(name):
        function, *arguments = program_of(f"{programs}:{name}", None)
        return jax.jit(function).lower(*arguments).cost_analysis()["flops"]

    return count


def flops(operations):
    return sum(each.matmul_flops + each.count * each.flops for each in operations)


@pytest.mark.parametrize("name", ["mlp", "attention", "one_layer"])
def test_operations_are_those_that_xla_counts(name, traced, counted):
    assert flops(traced(name)[1]) == pytest.approx(counted(name), rel=0.02)


def test_a_convolution_and_its_gradients_are_what_xla_counts_without_zeros(traced, counted):
    from tpuctl.perfmodel.workload.program.convolution import multiply_adds

    convolutions = [each for each in traced("convolution")[1] if each.convolution]
    products = sum(2 * each.count * multiply_adds(each.convolution) for each in convolutions)
    assert len(convolutions) == 3
    assert products == pytest.approx(counted("convolution"), rel=0.03)


def test_a_scan_counts_as_often_as_it_runs_where_xla_counts_it_once(traced, counted):
    """12 layers; `cost_analysis` of the scan has about one."""
    assert flops(traced("scanned")[1]) == pytest.approx(12 * counted("one_layer"), rel=0.02)
    assert counted("scanned") < 2 * counted("one_layer")


@pytest.mark.parametrize(
    ("name", "products"),
    [("nested", 15), ("rematerialised", 4), ("own_gradient", 3), ("branches", 3), ("searched", 1)],
)
def test_loops_branches_and_gradients_are_followed(name, products, traced):
    assert sum(each.count for each in traced(name)[1] if each.kind == "matmul") == products


def test_what_is_not_known_is_noted(traced):
    assert traced("searched")[0]["notes"] == [
        "a while loop counts once: how often it runs is not known before it runs"
    ]
    assert traced("branches")[0]["notes"] == [
        "of a choice (lax.cond, lax.switch) the longest branch counts"
    ]
    assert traced("mlp")[0]["notes"] == []


def test_in_shard_map_arrays_are_a_devices_own_and_exchanges_are_seen(traced):
    answer, operations = traced("sharded")
    assert (answer["devices"], answer["mesh"], answer["notes"]) == (8, {"data": 4, "model": 2}, [])
    exchanges = {
        each.exchange: (each.ways, each.read_bytes) for each in operations if each.exchange
    }
    assert exchanges == {
        "all_gather": (4, 4 * 256 * 256),
        "all_reduce": (2, 4 * 16 * 256),
        "reduce_scatter": (4, 4 * 256 * 256),
    }
    assert [each.sides for each in operations if each.kind == "matmul"] == [
        (16, 256, 256),
        (256, 16, 256),
    ]
    assert answer["argument_bytes"] == 4 * (512 * 256 + 64 * 512) / 8


def test_explicit_sharding_says_what_is_exchanged(programs):
    program = trace_function(TraceRequest(f"{programs}:explicit", devices=4), os.environ)
    assert (program.devices, program.notes) == (4, ())
    exchanges = [
        (each.exchange, each.ways, each.read_bytes) for each in program.operations if each.exchange
    ]
    whole_bytes = 4 * 256 * 512 / 2  # cut over `model` alone
    assert exchanges == [("all_gather", 2, whole_bytes), ("all_reduce", 2, whole_bytes)]
    assert [each.sides for each in program.operations if each.kind == "matmul"] == [
        (32, 256, 256),
        (256, 32, 256),
    ]


def test_a_float32_product_is_one_pass_unless_more_is_asked(traced):
    assert [each.dtype for each in traced("one_layer")[1]][0] == "bf16"
    assert [each.dtype for each in traced("precise")[1]] == ["f32"]


def test_the_peak_holds_arguments_and_what_lives_between(traced):
    answer, _ = traced("mlp")
    arguments = 4 * (4 * 256 * 256 + 64 * 256)
    assert answer["argument_bytes"] == arguments
    assert answer["result_bytes"] == 4 * (4 * 256 * 256 + 1)
    assert arguments + answer["result_bytes"] < answer["peak_bytes"] < 3 * arguments


def test_results_that_no_kernel_makes_are_written_and_held(traced):
    answer, operations = traced("constants")
    written = 4 * (1000 + 50 + 30 * 8)
    assert sum(each.count * each.written_bytes for each in operations) == written
    assert answer["result_bytes"] == written + 4 + 4 * 8
    assert answer["peak_bytes"] == answer["argument_bytes"] + written + 4
    assert traced("repeated_zeros")[0]["result_bytes"] == 4 * 1000, "each device has all of them"


def test_a_process_of_its_own_traces_with_the_devices_of_a_mesh(programs):
    program = trace_function(TraceRequest(f"{programs}:spread", devices=4), os.environ)
    assert (program.devices, program.arguments) == (4, ("float32[64,256]", "float32[256,256]"))
    assert program.argument_bytes == 4 * (64 * 256 / 4 + 256 * 256)
    assert [each.sides for each in program.operations] == [(16, 256, 256)]
    assert "what XLA exchanges there is not counted" in program.notes[0]


BAD = """
import os, sys, time
print("noise" * 9, flush=True)
number = 3

def fails():
    import jax.numpy as jnp
    from jax import ShapeDtypeStruct
    return lambda x: x @ x, ShapeDtypeStruct((3, 4), jnp.float32)

def leaves():
    sys.exit(3)

def crashes():
    os.abort()

def hangs():
    time.sleep(600)

def returns_nothing():
    pass

def takes(x, weight, scale=1):
    return x @ weight

def returns_functions():
    return takes, takes, takes
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("fails", r".*:fails does not trace: TypeError: dot_general requires contracting "
                  r"dimensions to have the same shape, got \(4,\) and \(3,\). \(.*bad.py:9\)$"),
        ("leaves", r".*:leaves: the program ended with exit status 3 before it was traced: noise"),
        ("crashes", r".*:crashes: the program was ended by SIGABRT before it was traced: "),
        ("missing", r".*bad.py has no 'missing', which .*bad.py:missing names$"),
        ("number", r".*bad.py:number is of type int and cannot be called$"),
        ("returns_nothing", r".*returns a value of type NoneType, not \(function, \*arguments\)$"),
        ("returns_functions", r".* does not trace: TypeError: .* <function takes> as an abstract"),
        ("takes", r".*:takes takes arguments \(x, weight\), and their shapes are not given$"),
    ],
)  # fmt: skip
def test_a_function_that_cannot_be_traced_is_one_line(tmp_path, name, text):
    (tmp_path / "bad.py").write_text(BAD)
    with pytest.raises(UsageError, match=text) as error:
        trace_function(TraceRequest(f"{tmp_path}/bad.py:{name}"), os.environ)
    assert "\n" not in str(error.value)


def test_a_function_that_does_not_end_is_ended(tmp_path):
    (tmp_path / "bad.py").write_text(BAD)
    with pytest.raises(UsageError, match="is not traced after 1 s"):
        trace_function(TraceRequest(f"{tmp_path}/bad.py:hangs", deadline_s=1), os.environ)


def test_shapes_that_are_typed_are_arguments(tmp_path):
    (tmp_path / "bad.py").write_text(BAD)
    request = TraceRequest(f"{tmp_path}/bad.py:takes", shapes="bf16[8,16] bf16[16,4]")
    (product,) = trace_function(request, os.environ).operations
    assert product.sides == (8, 16, 4)


def test_a_module_that_is_not_there():
    with pytest.raises(UsageError, match="no module named 'nowhere.at.all'"):
        trace_function(TraceRequest("nowhere.at.all:train"), os.environ)


def test_the_example_of_the_page_is_traced_and_holds_what_the_page_says(tmp_path):
    page = (ROOT / "docs" / "from-jax.md").read_text()
    (code,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "train.py").write_text(code)
    program = trace_function(TraceRequest(f"{tmp_path}/train.py:step"), os.environ)
    held = [size_text(round(each)) for each in (program.argument_bytes, program.peak_bytes)]
    assert f"arguments {held[0]}, results {held[0]}, at most {held[1]}" in page
    assert max(each.count for each in program.operations) == 48


SLOW = """
import os, pathlib, time
def f():
    pathlib.Path("pid").write_text(str(os.getpid()))
    time.sleep(60)
"""


def test_a_trace_ends_with_a_command_that_is_killed(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    argv = [sys.executable, "-m", "tpuctl", "plan", "--from-jax", "slow.py:f", "-t", "v6e-1"]
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(argv, cwd=tmp_path, env=environ, stderr=subprocess.DEVNULL) as command:
        until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        command.kill()
    until(lambda: not Path("/proc", (tmp_path / "pid").read_text()).exists())


def until(condition):
    """Wait for what must come within half a minute."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
