"""`tpuctl local bench`: measured and modelled side by side, and nothing goes on afterwards."""

import io
import json
import os
import signal
import subprocess
import sys

import pytest

from tpuctl.cli.app import main
from tpuctl.cli.local import bench as screen
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.operations.local import bench

ABOUT = {
    "kind": "about",
    "accelerator_type": "v5litepod-16",
    "generation": "v5e",
    "topology": "4x4",
    "chips": 16,
    "workers": 4,
    "processors": 2,
    "rows": 4,
}
PRODUCT = {
    "kind": "matmul",
    "dtype": "bf16",
    "m": 3292,
    "k": 3434,
    "n": 1966,
    "backend": "numpy",
    "host_measured_s": 0.123456,
    "host_measured_ops_per_s": 1.79e11,
    "chip_modelled_s": 5.02e-4,
    "chip_modelled_low_s": 1.954e-4,
    "chip_modelled_high_s": 1.2549e-3,
    "chip_modelled_ops_per_s": 8.854e13,
}
EXCHANGE = {
    "kind": "collective",
    "operation": "reduce_scatter",
    "size_bytes": 16 << 20,
    "host_measured_s": 1.5,
    "host_measured_bytes_per_s": 11184811,
    "chip_modelled_s": 9.96e-5,
    "chip_modelled_low_s": 9.5e-5,
    "chip_modelled_high_s": 1.31e-4,
    "chip_modelled_bytes_per_s": 1.684e11,
}
SAY = """
import sys
sys.stdout.write({said!r})
sys.stderr.write({complaint!r})
sys.exit({status})
"""
# A program that has a worker: both hold the FIFO open for as long as they live.
STAY = """
import os, subprocess, sys, time
held = os.open({fifo!r}, os.O_WRONLY)
os.set_inheritable(held, True)
worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], close_fds=False)
os.write(held, b"up")
sys.stdout.write({about!r} + "\\n")
sys.stdout.flush()
time.sleep(600)
"""
# The command line with another program behind it.
TYPED = """
import sys
from tpuctl.operations.local import bench as local_bench
local_bench.PROGRAM = tuple(sys.argv[1:])
sys.argv[1:] = ["local", "bench"]
from tpuctl.__main__ import main
main()
"""


@pytest.fixture
def instead(monkeypatch):
    """Let another program measure."""

    def use(*rows, complaint="", status=0):
        said = "".join(json.dumps(row) + "\n" for row in rows)
        code = SAY.format(said=said, complaint=complaint, status=status)
        monkeypatch.setattr(bench, "PROGRAM", (sys.executable, "-c", code))

    return use


def test_for_a_pipe_a_line_for_each_measurement(offline, instead):
    instead(ABOUT, PRODUCT, EXCHANGE)
    result = offline("local", "bench", "--limit", "30s")
    assert result.out.splitlines() == [
        "DTYPE\tM X K X N\tBACKEND\tMEASURED\tGOP/S\tMODELLED\tTOP/S",
        "bf16\t3292x3434x1966\tnumpy\t123 ms\t179\t502 us (195-1255)\t88.5",
        "OPERATION\tARRAY\tMEASURED\tMB/S\tMODELLED\tGB/S",
        "reduce_scatter\t16.0 MiB\t1.5 s\t11.2\t99.6 us (95-131)\t168",
    ]
    assert result.err.splitlines() == [
        "measuring v5litepod-16, 30 s at most",
        "left out, as 30 s are over: 2 of 4",
    ]
    assert not offline.home.exists()


def test_the_keys_of_the_document(offline, instead):
    instead({**ABOUT, "rows": 2}, PRODUCT, EXCHANGE)
    found = offline("local", "bench", "-q", "-o", "json").json
    products, exchanges = found.pop("matmul"), found.pop("collectives")
    assert products == [{key: value for key, value in PRODUCT.items() if key != "kind"}]
    assert exchanges == [{key: value for key, value in EXCHANGE.items() if key != "kind"}]
    assert found == {
        "accelerator_type": "v5litepod-16",
        "generation": "v5e",
        "topology": "4x4",
        "chips": 16,
        "workers": 4,
        "processors": 2,
        "left_out": 0,
    }


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_on_a_terminal_each_table_says_what_was_measured_and_what_is_modelled(
    instead, monkeypatch, tmp_path
):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    instead(ABOUT, PRODUCT, EXCHANGE)
    runtime = Runtime(out=Terminal(), err=io.StringIO(), environ={"TPUCTL_HOME": str(tmp_path)})
    assert main(["local", "bench"], runtime) == 0
    lines = [line.rstrip() for line in runtime.out.getvalue().splitlines()]
    assert lines == [
        "matmul measured on 2 processors, modelled for one v5e chip",
        "DTYPE  M X K X N       BACKEND  MEASURED  GOP/S  MODELLED           TOP/S",
        "bf16   3292x3434x1966  numpy    123 ms      179  502 us (195-1255)   88.5",
        "",
        "collectives measured on 2 processors, modelled for v5litepod-16",
        "OPERATION       ARRAY     MEASURED  MB/S  MODELLED          GB/S",
        "reduce_scatter  16.0 MiB  1.5 s     11.2  99.6 us (95-131)   168",
    ]


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (2, "run: tpuctl catalog types"),
        (12, "unset that variable"),
        (40, "run it again; nothing of it goes"),
    ],
)
def test_why_nothing_is_measured_is_one_line(offline, instead, status, hint):
    instead(ABOUT, PRODUCT, complaint="a warning\nerror: it is so\n", status=status)
    result = offline("local", "bench", "-q")
    assert (result.code, result.out) == (status, "")
    error, advice = result.err.splitlines()
    assert error == "error: it is so"
    assert advice.startswith(f"hint: {hint}")


def test_a_program_that_ended_without_a_word(offline, instead):
    instead(ABOUT, status=3)
    result = offline("local", "bench", "-q")
    assert (result.code, result.out, result.err) == (1, "", "error: it ended with status 3\n")


def test_a_program_that_was_killed(offline, monkeypatch):
    code = "import os; os.write(2, b'a warning'); os.kill(os.getpid(), 9)"
    monkeypatch.setattr(bench, "PROGRAM", (sys.executable, "-c", code))
    result = offline("local", "bench", "-q")
    assert (result.code, result.out) == (40, "")
    assert result.err.splitlines() == [
        "error: killed by SIGKILL",
        "hint: run it again; nothing of it goes on",
    ]


def test_an_unknown_type_and_one_too_large_are_refused_before_anything_is_measured(offline):
    result = offline("local", "bench", "-t", "v5e-16")
    assert (result.code, result.out) == (2, "")
    assert "unknown accelerator type 'v5e-16'; nearest: v5litepod-16" in result.err
    result = offline("local", "bench", "-t", "v5p-11264")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: v5p-11264 has 1408 workers, and this machine of ")


def test_what_is_said_to_be_measured_is_measured(offline):
    asked = ("-t", "v5litepod-4", "--limit", "1s", "-q", "-o", "json")
    found = offline("local", "bench", *asked).json
    rows = [*found["matmul"], *found["collectives"]]
    assert [["kind", *row] for row in (found["matmul"][0], found["collectives"][0])] == [
        list(PRODUCT),
        list(EXCHANGE),
    ]
    assert all(row["chip_modelled_low_s"] <= row["chip_modelled_s"] for row in rows)
    assert all(row["chip_modelled_high_s"] >= row["chip_modelled_s"] for row in rows)
    assert len(rows) + found["left_out"] == 8 * 3 + 5 * 3


@pytest.fixture
def fifo(tmp_path):
    """A FIFO that is read; it is at its end when no process holds it for writing any more."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    yield path, reading
    os.close(reading)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_who_interrupts_it_ends_all_its_processes(fifo, tmp_path, number, code):
    path, reading = fifo
    stay = STAY.format(fifo=str(path), about=json.dumps(ABOUT))
    typed = [sys.executable, "-c", TYPED, sys.executable, "-c", stay]
    environ = {**os.environ, "TPUCTL_HOME": str(tmp_path / "home")}
    with subprocess.Popen(typed, stderr=subprocess.PIPE, text=True, env=environ) as command:
        assert command.stderr.readline() == "measuring v5litepod-16, 60 s at most\n"
        command.send_signal(number)
        assert "Traceback" not in command.stderr.read()
    os.set_blocking(reading, True)
    assert os.read(reading, 100) == b"up"
    assert os.read(reading, 100) == b""  # both have ended
    assert command.returncode == code


def test_numbers_have_three_digits_that_count():
    assert [screen._digits(each) for each in (0.01234, 1.0, 99.96, 123.4, 12345.6)] == [
        0.0123,
        1.0,
        100.0,
        123,
        12346,
    ]
