"""The newest samples, as an agent's file and its status on the worker have them."""

import json

from tpuctl.metrics.samples import Sample
from tpuctl.operations.metrics.job_metrics import _documents, _dropped, _samples_of

VALUES = {"program.step": 7.0}


def test_the_status_has_the_newest_sample_and_how_many_were_lost():
    status = {"phase": "running", "sample": {"time_s": 6.0, "values": VALUES, "dropped": 3}}
    lines = [json.dumps({"time_s": 5.0, "values": VALUES, "dropped": 0}), "", json.dumps(status)]
    found = list(_documents("\n".join(lines).encode()))
    assert list(_samples_of(found)) == [Sample(5.0, VALUES), Sample(6.0, VALUES)]
    assert _dropped(found) == 3


def test_a_line_that_is_cut_is_left_out_and_so_is_the_number_of_a_program_that_diverges():
    values = {**VALUES, "program.loss": 1e30, "program.norm": -(10**400)}
    lines = [json.dumps({"time_s": 5.0, "values": values, "dropped": 0}), "[1]", '{"time_s": 6.0']
    found = list(_documents("\n".join([*lines, '{"sample": 3}', "x"]).encode()))
    assert list(_samples_of(found)) == [Sample(5.0, VALUES)]
    assert _dropped(found) == 0
