"""`tpuctl plan`: argv -> what is printed. It asks nothing of a cloud, and starts none."""

import io
import json
import os
import re

import pytest

from tpuctl.cli.app import main
from tpuctl.cli.plan.plan_columns import KEYS
from tpuctl.cli.plan.plan_options import load_numpy
from tpuctl.cli.plan.step_view import waterfall
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.operations.planning import training_plan
from unit.operations.planning.simple_models import SIMPLE

RUN = ("plan", "--model", "llama-3-8b", "--tokens", "1T", "--seq", "8192")
SERVE = ("plan", "serve", "--model", "llama-3-8b", "--in", "1024", "--out", "256")
V6E = ("--generation", "v6e", "--zone", "us-east5-b", "--batch", "256")


class Screen(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def tpuctl(tmp_path):
    def run(*argv):
        out, err = io.StringIO(), io.StringIO()
        environ = {"TPUCTL_HOME": str(tmp_path / "home")}
        runtime = Runtime(out=out, err=err, environ=environ, now=lambda: 1_795_000_000.0)
        code = main(argv, runtime)
        assert not (tmp_path / "home").exists()  # no local cloud was started
        return code, out.getvalue(), err.getvalue()

    return run


@pytest.fixture
def simple(monkeypatch):
    """Steps and memory that can be reckoned in the head, whatever is fitted next."""
    monkeypatch.setattr(training_plan, "StepModels", lambda: SIMPLE)


def test_a_table_over_slices(tpuctl, simple):
    assert tpuctl(*RUN, *V6E, "-q") == (
        0,
        "TYPE\tCHIPS\tMESH\tREMAT\tSTEP\tMFU %\tTOKENS/S\tDAYS\tLOW TO HIGH\tUSD\tUSD SPOT\tNOTE\n"
        "v6e-4\t4\tfsdp=4\tnone\t64\t45.9\t"
        "32768\t353.213\t317.891 - 388.534\t91552.7\t49159.3\t-\n"
        "v6e-8\t8\tfsdp=8\tnone\t32\t45.9\t"
        "65536\t176.606\t158.946 - 194.267\t91552.7\t49144\t-\n"
        "v6e-16\t16\tfsdp=16\tnone\t16\t45.9\t"
        "131072\t88.3032\t79.4729 - 97.1335\t91552.7\t48505.1\t-\n"
        "v6e-32\t32\tfsdp=32\tnone\t8\t45.9\t"
        "262144\t44.1516\t39.7364 - 48.5667\t91552.7\t48325.8\t-\n"
        "v6e-64\t64\tfsdp=64\tnone\t4\t45.9\t"
        "524288\t22.0758\t19.8682 - 24.2834\t91552.7\t48202.3\t-\n"
        "v6e-128\t128\tfsdp=128\tnone\t2\t45.9\t"
        "1048580\t11.0379\t9.93411 - 12.1417\t91552.7\t48116.6\t-\n"
        "v6e-256\t256\tfsdp=256\tnone\t1\t45.9\t"
        "2097150\t5.51895\t4.96705 - 6.07084\t91552.7\t48056.8\t"
        "cheapest, fastest, knee\n",
        "",
    )


@pytest.mark.parametrize(
    ("columns", "heading"),
    [
        ("50", "TYPE DAYS USD NOTE"),
        ("60", "TYPE MESH DAYS USD NOTE"),
        ("80", "TYPE MESH STEP MFU % DAYS USD USD SPOT NOTE"),
    ],
)
def test_marks_stay_in_a_narrow_window(simple, tmp_path, monkeypatch, columns, heading):
    for name, value in (("COLUMNS", columns), ("NO_COLOR", "1"), ("TERM", "xterm")):
        monkeypatch.setenv(name, value)
    out = Screen()
    runtime = Runtime(out=out, err=io.StringIO(), environ={"TPUCTL_HOME": str(tmp_path)})
    assert main((*RUN, *V6E, "-q"), runtime) == 0
    lines = re.sub("\x1b\\[[0-9;]*m", "", out.getvalue()).splitlines()
    shown, *rows = [line for line in lines if line.startswith(("TYPE", "v6e-"))]
    assert " ".join(shown.split()) == heading
    assert rows[-1].rstrip().endswith("cheapest, fastest, knee")
    assert max(map(len, rows)) <= int(columns)


def test_people_see_digits_and_units_and_programs_numbers(tpuctl, simple):
    """Even of columns that only the table has, such as `usd`; and they are ordered as numbers."""
    columns = ("--columns", "type,step,tokens/s,low to high,usd", "-q")
    run = (*RUN, *V6E, "-t", "v6e-4,v6e-256", *columns)
    assert tpuctl(*run, "-o", "csv", "--sort", "step")[1] == (
        "type,step,tokens/s,low to high,usd\n"
        'v6e-256,1.0,2097150.0,"[4.96705, 6.07084]",91552.7\n'
        'v6e-4,64.0,32768.0,"[317.891, 388.534]",91552.7\n'
    )
    assert tpuctl(*run, "-o", "tsv", "--limit", "1")[1].splitlines()[1] == (
        "v6e-4\t64.0\t32768.0\t[317.891, 388.534]\t91552.7"
    )


def test_the_answer_is_said_below_the_table(tpuctl, simple):
    _, _, err = tpuctl(*RUN, *V6E, "--target-days", "30", "--max-usd", "92000")
    lines = err.splitlines()
    assert lines[:5] == [
        "cheapest, fastest and knee: v6e-256 in us-east5-b, 5.52 days, 91,553 USD on demand",
        "4 slices more that fit exceed the limits",
        "v6e-1 does not fit: needs 64.0 GiB of 31.2 GiB a device",
        "prices as of 2025: tpuctl catalog prices",
        "assumed of spot: a preemption of each slice every 24 h, 10 min until the program runs "
        "again, without the wait for capacity",
    ]
    assert all(line.startswith("advice: ") and line.endswith("]") for line in lines[5:])


def test_limits_that_nothing_keeps_name_the_nearest(tpuctl, simple):
    code, out, err = tpuctl(*RUN, *V6E, "--target-days", "5")
    assert (code, out.count("\n")) == (12, 8)
    nearest = "the nearest is v6e-256, which takes 5.52 days of 5"
    assert err.endswith(f"error: no slice keeps the limits\nhint: {nearest}\n")
    code, out, err = tpuctl(*RUN, *V6E, "--target-days", "5", "-o", "json")
    rows = json.loads(out)["rows"]
    assert (code, len(rows), json.loads(err)["hint"]) == (12, 8, nearest)
    assert not any(row["is_within_limits"] for row in rows if row["fits"] == "yes")


def test_lists_can_be_ordered_and_cut_short(tpuctl, simple):
    options = ("--sort", "-chips", "--limit", "2", "--columns", "type,largest_batch", "-q")
    # A quarter of a GiB of state and 16 sequences, a tenth more: 17.9 of 31.2 GiB; 32 do not fit.
    assert tpuctl(*RUN, *V6E, *options)[1] == "TYPE\tLARGEST BATCH\nv6e-256\t4096\nv6e-128\t2048\n"


def test_json_keys_are_public(tpuctl):
    _, out, err = tpuctl(*RUN, *V6E, "-o", "json")
    found = json.loads(out)
    assert list(found) == [
        "label", "model", "parameters", "active_parameters", "tokens", "seq", "precision",
        "optimizer", "provisioning", "limits", "rows", "advice", "advice_for", "assumptions",
        "calibration", "sources",
    ]  # fmt: skip
    assert found["label"] == "modelled"
    assert all(list(row) == list(KEYS) for row in found["rows"])
    assert list(KEYS) == [
        "accelerator_type", "generation", "topology", "slices", "chips", "devices", "zone", "fits",
        "why", "is_within_limits", "marks", "mesh", "remat", "accumulation_steps", "batch",
        "least_compute_bound_batch", "largest_batch", "step_s", "step_low_s", "step_high_s",
        "bound", "mfu", "tokens_per_s", "days", "days_low", "days_high", "usd_on_demand",
        "usd_reserved", "usd_spot", "spot_days", "spot_preemptions", "spot_lost_share",
        "spot_save_every_s", "usd_per_hour", "spot_usd_per_hour", "price_as_of", "memory_bytes",
        "memory_high_bytes", "needed_bytes", "usable_bytes", "terms_s", "hidden_s",
        "memory_by_kind_bytes",
    ]  # fmt: skip
    assert list(found["advice"][0]) == ["kind", "text", "source"]
    assert err == ""


def test_the_fitted_models_answer_in_a_sane_way(tpuctl):
    """What holds of every fit: a step is its terms, in its interval; more chips, less time."""
    _, out, _ = tpuctl(*RUN, *V6E, "-o", "json")
    rows = [row for row in json.loads(out)["rows"] if row["fits"] == "yes"]
    assert rows
    for row in rows:
        assert sum(row["terms_s"].values()) == pytest.approx(row["step_s"], rel=1e-2)
        assert row["step_low_s"] <= row["step_s"] <= row["step_high_s"]
        assert row["memory_bytes"] <= row["memory_high_bytes"] <= row["usable_bytes"]
        assert 0.2 < row["mfu"] < 0.9
    days = [row["days"] for row in rows]
    assert days == sorted(days, reverse=True)
    assert sum("cheapest" in row["marks"] for row in rows) == 1


def test_explain_shows_the_terms_as_a_waterfall(tpuctl, simple):
    mesh = ("-t", "v6e-64", "--mesh", "fsdp=-1,tensor=4")
    code, out, _ = tpuctl(*RUN, *V6E, *mesh, "--explain")
    assert code == 0
    assert out == (
        "v6e-64  cheapest, fastest, knee\n"
        "zone           us-east5-b\n"
        "mesh           fsdp=16,tensor=4\n"
        "remat          none\n"
        "batch          256 sequences, 2.1M tokens\n"
        "step           4.03 s (3.63 s to 4.43 s)\n"
        "bound by       matmul\n"
        "mfu            45.6 %\n"
        "tokens/s       520k\n"
        "days           22.2 (20 to 24.5)\n"
        "on demand      92,239 USD\n"
        "spot           48,564 USD in 22.5 days: 22.5 preemptions, 1.3 % lost, a save every "
        "8.38 min\n"
        "compute-bound  from 16 sequences a step\n"
        "largest batch  256 sequences a step\n"
        "\n"
        "the step, term by term (modelled)\n"
        "  matmul  4 s     99.3 %   ████████████████████████████\n"
        "  tensor  30 ms   0.7 %    ···························█\n"
        "  step    4.03 s  100.0 %  ████████████████████████████\n"
        "\n"
        "memory of a device (modelled)\n"
        "  weights      1.0 GiB   3.2 %\n"
        "  activations  16.0 GiB  51.2 %\n"
        "  all          17.0 GiB  54.4 %  up to 18.7 GiB of 31.2 GiB\n"
    )


def test_plots_name_what_they_draw(tpuctl, simple, tmp_path):
    pytest.importorskip("matplotlib")
    run, serve = tmp_path / "run.svg", tmp_path / "serve.svg"
    assert tpuctl(*RUN, *V6E, "--plot", str(run))[2].splitlines()[-1] == f"drawn: {run}"
    text = run.read_text("utf-8")
    assert "cheapest, fastest, knee: v6e-256" in text
    assert "USD of the run, on demand" in text
    tpuctl(*SERVE, "-t", "v6e-4,v6e-8", "--spot", "--plot", str(serve))
    assert "v6e-8" in serve.read_text("utf-8")


def test_a_waterfall_begins_where_the_term_above_ends():
    rows = waterfall({"matmul": 2.0, "fsdp": 1.0, "nothing": 0.0, "memory": 1.0})
    assert [row[0] for row in rows] == ["matmul", "fsdp", "memory", "step"]
    assert [len(row[3]) - row[3].count("·") for row in rows] == [14, 7, 7, 28]
    assert [row[3].count("·") for row in rows] == [0, 14, 21, 0]


def test_a_file_says_the_same_as_options_and_options_are_stronger(tpuctl, tmp_path, simple):
    file = tmp_path / "plan.yaml"
    file.write_text(
        "model: llama-3-8b\n"
        "run: {tokens: 1T, seq: 8192, batch: 256, mesh: {fsdp: -1}}\n"
        "slices: {types: [v5litepod-64, v5litepod-128], zone: us-west4-a}\n"
        "limits: {days: 100}\n"
    )
    _, from_file, _ = tpuctl("plan", str(file))
    _, from_options, _ = tpuctl(
        *RUN, "--batch", "256", "--mesh", "fsdp=-1", "-t", "v5e-64,v5e-128",
        "--zone", "us-west4-a", "--target-days", "100",
    )  # fmt: skip
    assert from_file == from_options
    _, changed, _ = tpuctl("plan", str(file), "-t", "v5litepod-256")
    assert [line.partition("\t")[0] for line in changed.splitlines()] == ["TYPE", "v5litepod-256"]


def test_a_shape_of_your_own(tpuctl, tmp_path):
    shape = "layers: 32, hidden: 4096, heads: 32, kv_heads: 8, head_dim: 128, mlp_hidden: 14336"
    file = tmp_path / "plan.yaml"
    file.write_text(f"model: {{{shape}, vocab: 128256}}\nrun: {{tokens: 1T, seq: 8192}}\n")
    own, public = (
        json.loads(tpuctl(*argv, *V6E, "-o", "json")[1]) for argv in (("plan", str(file)), RUN)
    )
    assert own["model"] is None
    assert own["rows"] == public["rows"]


BAD = {
    ("--tokens", "-1"): "--tokens must be from 1 to 100,000T, not -1",
    ("--tokens", "1e30"): "--tokens must be from 1 to 100,000T, not 1e30",
    ("--tokens", "many"): "--tokens: 'many' is not an amount",
    ("--seq", "0"): "--seq must be from 1 to 16.8M, not 0",
    ("--batch", "0"): "--batch must be from 1 to 16.8M, not 0",
    ("--batch", "1.5"): "--batch must be a whole number, not 1.5",
    ("--batch-tokens", "100"): (
        "--batch-tokens must be at least one sequence of 8192 tokens, not 100"
    ),
    ("--batch", "4", "--batch-tokens", "4M"): "--batch-tokens and --batch exclude each other",
    ("--model", "llama-3-8c"): "unknown model 'llama-3-8c'",
    ("--model", "no such model"): "unknown model 'no such model'",
    ("-t", "v5e-17"): "unknown accelerator type 'v5litepod-17'",
    ("--generation", "v9"): "unknown generation 'v9'",
    ("--zone", "us-west9-a"): "unknown zone 'us-west9-a'",
    ("-t", "v5p-8", "--zone", "us-west4-a"): "v5p-8 is not offered in us-west4-a",
    ("--mesh", "fsdp"): "--mesh: 'fsdp' is not AXIS=WAYS",
    ("--mesh", "fdsp=4"): "unknown axis 'fdsp' of a mesh",
    ("--mesh", "fsdp=-1,fsdp=2"): "--mesh gives 'fsdp' twice",
    ("--mesh", ""): "--mesh: '' is not AXIS=WAYS",
    ("-t", ""): "--accelerator-type must not be empty",
    ("--generation", ","): "--generation must not be empty",
    ("--mesh", "fsdp=0"): "--mesh fsdp must be from 1 to 16.8M, not 0",
    ("--mesh", "fsdp=-1,tensor=-1"): (
        "only one axis of a mesh may be -1, which takes what the others leave"
    ),
    ("--remat", "all"): "--remat must be none, minimal or full, not 'all'",
    ("--precision", "f64"): "--precision must be bf16, int8 or fp8, not 'f64'",
    ("--num-slices", "0"): "--num-slices must be from 1 to 1024, not 0",
    ("--preempted-every", "0s"): "--preempted-every must be above 0 s and at most 36500 d, not 0s",
    ("--plot", "plan.gif"): "a plot is a .png or a .svg, not 'plan.gif'",
}


def test_bad_options_are_one_line_each(tpuctl):
    found = {options: tpuctl(*RUN, *options) for options in BAD}
    errors = {options: err.splitlines()[0] for options, (_, _, err) in found.items()}
    assert errors == {options: f"error: {text}" for options, text in BAD.items()}
    assert {(code, out) for code, out, _ in found.values()} == {(2, "")}


def test_the_nearest_names_are_offered(tpuctl):
    _, _, err = tpuctl(*RUN, "--model", "llama-3-8c")
    assert "did you mean llama-3-8b" in err
    assert err.endswith("run: tpuctl catalog models\n")
    _, _, err = tpuctl("plan", "--model", "lama-3-8b", "--tokens", "1T")
    assert err.startswith("error: unknown model 'lama-3-8b'\nhint: did you mean llama-3-8b")


def test_a_model_in_place_of_a_file_is_told_its_option(tpuctl):
    assert tpuctl("plan", "llama-3-8b") == (
        10,
        "",
        "error: there is no file llama-3-8b\n"
        "hint: a model is named by an option: --model llama-3-8b\n",
    )


BAD_FILES = {
    "model: llama-3-8b\nrun:\n\ttokens: 1T\n": "has a tab where spaces belong (line 3)",
    "run: {token: 1T}\n": "unknown key 'token' in run (line 1); did you mean 'tokens'?",
    "run: {tokens: 1T, tokens: 2T}\n": "key 'tokens' is given twice (line 1)",
    "run: {tokens: }\n": "run.tokens (line 1) has no value",
    "run:\n  tokens: -1\n": "run.tokens (line 2) must be from 1 to 100,000T, not -1",
    "- a list\n": "is not a plan: it has no keys such as model and run",
    "": "is not a plan: it has no keys such as model and run",
    "run: 5\n": "run (line 1) has no keys",
    "model: {experts: 3}\n": "model.experts (line 1) has no keys",
    "run: {tokens: {a: 1}}\n": "run.tokens (line 1) is not a value",
    "model: {layers: 2, hiden: 4}\n": (
        "unknown key 'hiden' in model (line 1); did you mean 'hidden'?"
    ),
    "model: {layers: 2, is_tied: 3}\n": "model.is_tied (line 1) must be true or false, not '3'",
}


def test_bad_files_are_one_line_each(tpuctl, tmp_path):
    file = tmp_path / "plan.yaml"
    errors = {}
    for text in BAD_FILES:
        file.write_text(text)
        code, out, err = tpuctl("plan", str(file), *RUN[3:] if "model: {" in text else ())
        assert (code, out) == (2, "")
        errors[text] = err.splitlines()[0].removeprefix("error: ").removeprefix(f"{file} ")
    assert errors == BAD_FILES
    code, _, err = tpuctl("plan", str(tmp_path / "none.yaml"))
    assert (code, err.splitlines()[0]) == (10, f"error: there is no file {tmp_path}/none.yaml")


def test_what_is_missing_is_named(tpuctl):
    assert tpuctl("plan", "--tokens", "1T") == (
        2,
        "",
        "error: a plan needs --model and --seq\n"
        "hint: run: tpuctl plan --model llama-3-8b --tokens 1T --seq 8192\n",
    )
    assert tpuctl("plan", "serve", "--model", "llama-3-8b")[2].startswith(
        "error: a plan of a service needs --model, --in and --out\n"
    )


def test_a_shape_that_lacks_fields_names_them(tpuctl, tmp_path):
    file = tmp_path / "plan.yaml"
    file.write_text("model: {layers: 32, hidden: 4096}\nrun: {tokens: 1T, seq: 8192}\n")
    assert tpuctl("plan", str(file))[2].startswith(
        "error: the shape of the model has no heads, kv_heads, head_dim, mlp_hidden and vocab\n"
    )


BAD_SHAPES = {
    "heads: 0": "model.heads must be at least 1, not 0",
    "heads: 8, experts: {count: 4}, attention: {latent: {query_rank: 0, kv_rank: 4}}": (
        "the shape of the model has no experts.per_token, experts.hidden, "
        "attention.latent.nope_dim, attention.latent.rope_dim and attention.latent.value_dim"
    ),
    "heads: 8, experts: {count: 4, per_token: 8, hidden: 64}": (
        "model.experts.per_token must be at most its 4 experts"
    ),
    "heads: 8, attention: {window_tokens: 512, window_layers: 9}": (
        "model.attention.window_layers + linear_layers must be at most its 8 layers"
    ),
}


def test_shapes_that_cannot_be_are_one_line_each(tpuctl, tmp_path):
    file = tmp_path / "plan.yaml"
    sides = "layers: 8, hidden: 64, kv_heads: 8, head_dim: 8, mlp_hidden: 64, vocab: 64"
    errors = {}
    for shape in BAD_SHAPES:
        file.write_text(f"model: {{{sides}, {shape}}}\nrun: {{tokens: 1T, seq: 8192}}\n")
        errors[shape] = tpuctl("plan", str(file))[2].splitlines()[0]
    assert errors == {shape: f"error: {text}" for shape, text in BAD_SHAPES.items()}


def test_a_service_has_a_row_for_each_slice_and_a_curve(tpuctl):
    _, out, _ = tpuctl(*SERVE, "-t", "v6e-4,v5litepod-8", "--rate", "10", "-o", "json")
    found = json.loads(out)
    assert list(found) == [
        "label", "model", "in", "out", "rate", "latency_s", "weight_bits", "cache_bits",
        "provisioning", "rows", "sources",
    ]  # fmt: skip
    first = found["rows"][0]
    assert list(first) == [
        "accelerator_type", "generation", "topology", "chips", "zone", "fits", "why", "marks",
        "mesh", "requests", "first_token_s", "token_s", "token_low_s", "token_high_s", "latency_s",
        "tokens_per_s", "requests_per_s", "bound", "is_knee", "usd_per_million_tokens",
        "spot_usd_per_million_tokens", "least_latency_s", "slices_needed", "usd_per_hour",
        "spot_usd_per_hour", "curve",
    ]  # fmt: skip
    for row in found["rows"]:
        assert row["slices_needed"] * row["requests_per_s"] >= 10
        rate = row["usd_per_hour"] / row["slices_needed"] / 3600 / row["tokens_per_s"]
        assert row["usd_per_million_tokens"] == pytest.approx(rate * 1e6, rel=1e-3)
        assert [point["requests"] for point in row["curve"]] == sorted(
            point["requests"] for point in row["curve"]
        )
        times = [point["token_s"] for point in row["curve"]]
        assert times == sorted(times)


def test_a_service_keeps_its_latency_or_says_how_long_it_takes(tpuctl):
    _, out, _ = tpuctl(*SERVE, "-t", "v6e-4", "--latency", "5s", "-o", "json")
    row = json.loads(out)["rows"][0]
    assert row["latency_s"] <= 5
    code, out, err = tpuctl(*SERVE, "--generation", "v6e", "--latency", "10ms", "-o", "json")
    found = json.loads(out)
    assert (code, found["sources"]) == (12, [])
    assert {row["requests"] for row in found["rows"]} == {None}
    error = json.loads(err)
    assert error["error"] == "no slice keeps a latency of 0.01 s"
    assert error["hint"].startswith("the nearest is v6e-16, which takes at least ")
    code, out, _ = tpuctl(*SERVE, "-t", "v6e-4", "--latency", "10ms")
    assert (code, out.count("takes at least")) == (12, 1)
    code, out, _ = tpuctl(*SERVE, "-t", "v6e-4", "--latency", "10ms", "--explain")
    assert (code, out) == (12, "")


def test_an_explanation_is_no_list(tpuctl):
    assert tpuctl(*RUN, *V6E, "--explain", "-o", "csv") == (
        2,
        "",
        "error: --explain is a table or a document, not csv\nhint: add -o json\n",
    )


LONG = "warning: gpt2 reads 1,024 tokens at most: a sequence of {} is planned as if its context "


def test_what_a_model_is_not_made_for_is_said(tpuctl):
    gpt2 = ("--model", "gpt2", "-t", "v6e-8")
    for argv, tokens in (((*RUN, "--seq", "8192"), "8,192"), (SERVE, "1,280")):
        _, _, err = tpuctl(*argv, *gpt2, "-o", "json")
        assert err == LONG.format(tokens) + "were longer\n"
    assert tpuctl(*RUN, *gpt2, "--seq", "1024", "-o", "json")[2] == ""
    encoder = ("--model", "bert-base", "-t", "v6e-8", "--in", "128", "--out", "128")
    assert tpuctl(*SERVE, *encoder, "-o", "json")[2] == (
        "warning: bert-base is an encoder, which writes no answers: it is planned as if it were a "
        "decoder\n"
    )


def test_generations_whose_steps_are_of_other_frameworks_are_named(tpuctl, simple):
    said = "of v2 and v3 only steps of other frameworks than MaxText are published; "
    for generations, is_said in (("v2,v3,v4", True), ("v4", False)):
        assert (said in tpuctl(*RUN, "--generation", generations)[2]) == is_said


@pytest.mark.parametrize(
    ("slices", "text"),
    [
        ("32", ""),
        ("33", "33 x v6e-256 are 8,448 chips in one run: published steps have at most 32 slices, "
         "and times of more are extrapolated"),
        ("200", "200 x v6e-256 are 51,200 chips in one run: the largest that is public had 50,944 "
         "in 199 slices; ask for capacity before you count on more"),
    ],
)  # fmt: skip
def test_more_slices_than_anybody_had_are_doubted(tpuctl, simple, slices, text):
    run = ("-t", "v6e-256", "--zone", "us-east5-b", "--num-slices", slices, "-o", "json")
    code, _, err = tpuctl(*RUN, *run, "--batch", "105600")  # of 256 x 32, x 33 and x 200
    assert (code, err) == (0, f"warning: {text}\n" if text else "")


def test_a_service_on_thousands_of_slices_is_doubted(tpuctl):
    warned = [
        "warning" in tpuctl(*SERVE, "-t", "v6e-4", "--rate", rate, "-o", "json")[2]
        for rate in ("100", "100k")
    ]
    assert warned == [False, True]


def test_a_model_that_no_slice_serves(tpuctl):
    code, out, err = tpuctl(*SERVE, "--model", "llama-3-70b", "-t", "v5litepod-4")
    assert (code, out) == (12, "")
    assert err.startswith("error: llama-3-70b does not fit: v5litepod-4 needs ")


def test_a_context_that_is_not_known(tpuctl):
    assert tpuctl(*RUN, "--context", "nope")[2].startswith("error: there is no context 'nope'\n")


def test_numpy_is_loaded_without_threads_and_programs_of_the_user_have_theirs(monkeypatch):
    seen = []
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    monkeypatch.setattr(
        "importlib.import_module",
        lambda name: seen.append((name, os.environ.get("OPENBLAS_NUM_THREADS"))),
    )
    load_numpy()
    assert seen == [("numpy", "1")]
    assert "OPENBLAS_NUM_THREADS" not in os.environ

    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")  # the user knows better
    load_numpy()
    assert os.environ["OPENBLAS_NUM_THREADS"] == "2"
