"""Which steps of a program are one kernel, what moves between them, and what is held."""

import pytest

from tpuctl.operations.planning.tracing.kernels import (
    Scope,
    Step,
    Value,
    held_bytes,
    merged,
    operations_of,
)


class Written:
    """A program of one device, written step by step; every array has 100 numbers of two bytes."""

    def __init__(self):
        self.scope = Scope(1)

    def argument(self, elements=100):
        return Value(2.0 * elements, float(elements))

    def step(self, kind, name, *ins, elements=100, **fields):
        out = self.argument(elements)
        default = {"flops": float(elements)} if kind != "matmul" else {"sides": [10, 10, 10]}
        out.producer = Step(kind, name, list(ins), [out], default | fields)
        self.scope.steps.append(out.producer)
        return out

    def kernels(self, *results):
        """Name, bytes read, bytes written, and `fused` where it is part of another kernel."""
        return [
            (
                each["name"],
                each["read_bytes"],
                each["written_bytes"],
                *(["fused"] if each.get("is_fused") else []),
            )
            for each in operations_of(self.scope, results)
        ]


@pytest.fixture
def program():
    return Written()


def test_passes_that_feed_each_other_are_one_kernel(program):
    x = program.argument()
    y = program.step("elementwise", "mul", x, program.argument())
    z = program.step("elementwise", "exp", y)
    assert program.kernels(z) == [("mul+exp", 400, 200)]


def test_a_pass_over_a_product_alone_is_part_of_it(program):
    x, w = program.argument(), program.argument()
    product = program.step("matmul", "dot", x, w)
    y = program.step("elementwise", "max", product)
    assert program.kernels(y) == [("dot", 400, 0), ("max", 0, 200, "fused")]


def test_a_product_that_is_a_result_too_is_written(program):
    product = program.step("matmul", "dot", program.argument(), program.argument())
    y = program.step("elementwise", "max", product)
    assert program.kernels(product, y) == [("dot", 400, 200), ("max", 200, 200)]


def test_a_pass_that_only_feeds_a_product_is_read_by_it(program):
    x = program.argument()
    y = program.step("elementwise", "convert", x)
    product = program.step("matmul", "dot", y, program.argument())
    assert program.kernels(product) == [("convert", 200, 0, "fused"), ("dot", 200, 200)]


def test_a_sum_ends_a_kernel_for_those_who_read_it(program):
    x = program.argument()
    total = program.step("reduce", "reduce_sum", x, elements=1)
    y = program.step("elementwise", "div", x, total)
    assert program.kernels(y) == [("reduce_sum", 200, 2), ("div", 202, 200)]


def test_passes_before_and_after_a_product_are_not_one_kernel(program):
    x = program.argument()
    before = program.step("elementwise", "mul", x)
    product = program.step("matmul", "dot", before, program.argument())
    after = program.step("elementwise", "add", product, before)
    assert program.kernels(after) == [
        ("mul", 200, 200),
        ("dot", 400, 0),
        ("add", 200, 200, "fused"),
    ]


def test_two_passes_over_all_of_one_array_read_it_once(program):
    product = program.step("matmul", "dot", program.argument(), program.argument())
    y = program.step("elementwise", "max", product)
    z = program.step("elementwise", "gt", product)
    assert program.kernels(y, z) == [("dot", 400, 0), ("max+gt", 0, 400, "fused")]


def test_what_nobody_uses_is_left_out(program):
    x = program.argument()
    program.step("elementwise", "exp", x)
    assert program.kernels(program.step("elementwise", "neg", x)) == [("neg", 200, 200)]


def test_the_counter_of_a_loop_is_no_kernel(program):
    counter = program.step("elementwise", "add", program.argument(elements=1), elements=1)
    x = program.step("elementwise", "neg", program.argument())
    assert program.kernels(counter, x) == [("neg", 200, 200)]


def test_held_is_what_lives_at_once(program):
    x = program.argument()
    y = program.step("elementwise", "exp", x)
    z = program.step("elementwise", "neg", y)
    program.step("elementwise", "abs", z)
    steps = program.scope.steps
    assert held_bytes(steps, {id(x)}) == 400  # two of the three results, and never the argument
    steps[1].extra_bytes = 1000.0
    assert held_bytes(steps, {id(x)}) == 1400


def test_equal_operations_are_one_with_the_sum_of_their_counts():
    same = {"kind": "matmul", "sides": [1, 2, 3]}
    assert merged([{**same, "count": 2}, {"kind": "other", "count": 1}, {**same, "count": 3}]) == [
        {**same, "count": 5},
        {"kind": "other", "count": 1},
    ]
