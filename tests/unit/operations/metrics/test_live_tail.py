"""The newest samples, as an agent's file on the worker has them."""

import json

from tpuctl.metrics.samples import Sample
from tpuctl.operations.metrics.job_metrics import _samples_of


def test_a_line_that_is_cut_is_left_out_and_so_is_the_number_of_a_program_that_diverges():
    values = {"program.step": 7.0, "program.loss": 1e30, "program.norm": -1e16}
    lines = [json.dumps({"time_s": 5.0, "values": values, "dropped": 0}), "[1]", '{"time_s": 6.0']
    assert list(_samples_of("\n".join(lines).encode())) == [Sample(5.0, {"program.step": 7.0})]
