"""`tpuctl plan --from-jax` and `--calibrate`: argv -> what is printed; nothing is traced."""

import io
import json

import pytest

from tpuctl.cli.app import main
from tpuctl.cli.plan.traced_program_view import KEYS
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.operations.planning.tracing import traced_program
from tpuctl.operations.planning.tracing.traced_program import TracedProgram
from tpuctl.operations.workers.bench_file import DeviceReport, MeasuredSlice, write_measurements
from tpuctl.perfmodel.workload.program import ProgramOperation
from tpuctl.perfmodel.workload.program.bench_rows import BenchRow, predict_row
from tpuctl.perfmodel.workload.slice_hardware import slice_hardware

V5E_8 = ("--from-jax", "train:step", "-t", "v5litepod-8", "--zone", "us-west4-a")


def traced(**changed):
    fields = {
        "target": "train:step",
        "operations": (
            ProgramOperation("matmul", "dot_general", count=24, sides=(8192, 8192, 8000)),
            ProgramOperation("elementwise", "add", read_bytes=2**30, written_bytes=2**29),
        ),
        "devices": 1,
        "mesh": {},
        "arguments": ("bfloat16[8192,8192]",),
        "argument_bytes": 2.0**30,
        "result_bytes": 2.0**29,
        "peak_bytes": 3.0 * 2**30,
        "notes": ("a while loop counts once",),
        "jax": "0.10.2",
    }
    return TracedProgram(**fields | changed)


@pytest.fixture
def tpuctl(tmp_path, monkeypatch):
    def run(*argv, program=None):
        requests = []

        def trace(request, environ):
            requests.append(request)
            return program or traced()

        monkeypatch.setattr(traced_program, "trace_function", trace)
        out, err = io.StringIO(), io.StringIO()
        environ = {"TPUCTL_HOME": str(tmp_path / "home")}
        runtime = Runtime(out=out, err=err, environ=environ, now=lambda: 1_795_000_000.0)
        code = main(argv, runtime)
        run.requests = requests
        return code, out.getvalue(), err.getvalue()

    return run


def test_a_row_for_the_named_slice_and_what_its_device_holds(tpuctl):
    code, out, err = tpuctl("plan", *V5E_8)
    heading, row = (line.split("\t") for line in out.splitlines())
    assert code == 0
    assert (
        dict(zip(heading, row, strict=True)).items()
        >= {
            "TYPE": "v5litepod-8",
            "DEVICES": "1",
            "FITS": "yes",
            "BOUND": "compute",
        }.items()
    )
    assert err == (
        "memory of a device: arguments 1.0 GiB, results 512.0 MiB, at most 3.0 GiB (an upper "
        "bound: nothing is fused, no argument is donated)\n"
        "note: a while loop counts once\n"
    )


def test_of_each_generation_the_smallest_slice_without_a_type(tpuctl):
    _, out, _ = tpuctl("plan", "--from-jax=train:step", "--generation", "v5e,v6e")
    assert [line.split("\t")[0] for line in out.splitlines()] == ["TYPE", "v5litepod-1", "v6e-1"]


def test_a_mesh_goes_to_the_slices_that_it_fills(tpuctl):
    program = traced(devices=16, mesh={"data": 4, "model": 4})
    _, out, _ = tpuctl("plan", "--from-jax", "a:b", "--generation", "v5e", program=program)
    assert out.splitlines()[1].split("\t")[0] == "v5litepod-16"
    code, out, _ = tpuctl("plan", *V5E_8, "-o", "json", program=program)
    (row,) = json.loads(out)["rows"]
    assert (code, row["fits"]) == (0, "no")
    assert row["why"] == "the mesh data=4,model=4 has 16 devices, not 8"


def test_a_mesh_that_no_slice_has(tpuctl):
    program = traced(devices=7, mesh={"data": 7})
    assert tpuctl("plan", "--from-jax", "a:b", program=program) == (
        12,
        "",
        "error: no slice has the 7 devices of the mesh data=7\nhint: run: tpuctl catalog types\n",
    )


@pytest.mark.parametrize(
    ("changed", "fits"),
    [
        ({}, "yes"),
        ({"peak_bytes": 2.0**40}, "tight"),
        ({"peak_bytes": 2.0**40, "argument_bytes": 2.0**39}, "no"),
    ],
)
def test_an_upper_bound_that_does_not_fit_is_tight_and_arguments_that_do_not_are_no(
    tpuctl, changed, fits
):
    _, out, _ = tpuctl("plan", *V5E_8, "-o", "json", program=traced(**changed))
    assert json.loads(out)["rows"][0]["fits"] == fits


def test_the_longest_operations_and_the_padding_of_each(tpuctl):
    _, out, _ = tpuctl("plan", *V5E_8, "--explain")
    assert [line.split("\t")[:3] for line in out.splitlines()] == [
        ["OPERATION", "TIMES", "SHAPE"],
        ["dot_general", "24", "8192 x 8192 x 8000"],
        ["add", "1", "1.5 GiB"],
    ]
    assert out.splitlines()[1].endswith("\t0.00793651")
    assert out.splitlines()[2].endswith("\t-")


def test_the_document_for_programs(tpuctl):
    _, out, _ = tpuctl("plan", *V5E_8, "-o", "json")
    document = json.loads(out)
    assert list(document) == [
        *("label", "target", "jax", "mesh", "arguments", "matmul_flops"),
        *("argument_bytes", "result_bytes", "peak_bytes", "notes", "rows", "sources"),
    ]
    assert list(document["rows"][0]) == list(KEYS)
    assert document["rows"][0]["time_s"] == pytest.approx(
        sum(document["rows"][0]["terms_s"].values()), rel=1e-3
    )


def test_what_is_traced_and_with_how_many_devices(tpuctl):
    tpuctl("plan", *V5E_8, "--args", "f32[8]", "--trace-timeout", "5m")
    (request,) = tpuctl.requests
    assert (request.target, request.shapes) == ("train:step", "f32[8]")
    assert (request.devices, request.deadline_s) == (8, 300)
    tpuctl("plan", "--from-jax", "a:b", "--devices", "4")
    assert tpuctl.requests[0].devices == 4


def test_a_program_without_a_function(tpuctl):
    assert tpuctl("plan", "program") == (
        2,
        "",
        "error: no function is named\nhint: add --from-jax MODULE:FUNCTION\n",
    )


@pytest.fixture
def slow(tmp_path):
    """A file of a slice whose products take twice as long as modelled."""

    def write(platform="tpu", side=8192):
        hardware = slice_hardware("v5e", "2x4")
        row = BenchRow("matmul", 1.0, m=side, k=side, n=side)
        measured_s = 2 * predict_row(hardware, row).value_s
        report = DeviceReport("0.10.2", platform, "TPU v5 lite", 8)
        rows = (BenchRow("matmul", measured_s, m=side, k=side, n=side),)
        path = tmp_path / "slow.json"
        write_measurements(path, MeasuredSlice("v5litepod-8", "v2", report, rows), 0)
        return str(path)

    return write


def test_measurements_scale_the_terms_of_their_generation(tpuctl, slow):
    plain = json.loads(tpuctl("plan", *V5E_8, "-o", "json")[1])["rows"][0]
    mine = json.loads(tpuctl("plan", *V5E_8, "-o", "json", "--calibrate", slow())[1])["rows"][0]
    assert mine["terms_s"]["compute"] == pytest.approx(2 * plain["terms_s"]["compute"], rel=1e-3)
    assert mine["terms_s"]["memory"] == plain["terms_s"]["memory"]
    _, _, err = tpuctl("plan", *V5E_8, "--calibrate", slow())
    assert err.splitlines()[-1] == ("calibrated: compute on v5e: x 2, 1 measured row of slow.json")


def test_measurements_scale_a_training_plan(tpuctl, slow):
    run = ("plan", "--model", "llama-3-8b", "--tokens", "1B", "--seq", "2048", "--batch", "64",
           "-t", "v5litepod-256", "--mesh", "fsdp=64,tensor=4", "-o", "json")  # fmt: skip
    (plain,) = json.loads(tpuctl(*run)[1])["rows"]
    document = json.loads(tpuctl(*run, "--calibrate", slow())[1])
    (mine,) = document["rows"]
    assert mine["terms_s"]["matmul"] == pytest.approx(2 * plain["terms_s"]["matmul"], rel=1e-3)
    assert mine["step_s"] > plain["step_s"]
    assert "compute on v5e: x 2, 1 measured row of slow.json" in document["sources"]


def test_measurements_scale_a_service(tpuctl, slow):
    run = ("plan", "serve", "--model", "llama-3-8b", "--in", "8192", "--out", "256",
           "-t", "v5litepod-8", "--tensor", "8", "-o", "json")  # fmt: skip
    (plain,) = json.loads(tpuctl(*run)[1])["rows"]
    document = json.loads(tpuctl(*run, "--calibrate", slow())[1])
    (mine,) = document["rows"]
    assert 1.5 < mine["first_token_s"] / plain["first_token_s"] < 2  # mostly computed
    assert "compute on v5e: x 2, 1 measured row of slow.json" in document["sources"]


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"platform": "cpu"}, "slow.json was measured on TPU v5 lite (cpu), not on a TPU"),
        ({"side": 128}, "slow.json: no measured row is large enough to tell a term from the rest"),
    ],
)
def test_measurements_that_say_nothing_of_a_tpu(tpuctl, slow, changed, text):
    code, _, err = tpuctl("plan", *V5E_8, "--calibrate", slow(**changed))
    assert (code, err.splitlines()[0].endswith(text)) == (2, True)
    assert err.splitlines()[1] == "hint: write one with: tpuctl bench NODE --output FILE"
