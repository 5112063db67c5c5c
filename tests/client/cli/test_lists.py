"""Every list is chosen from, ordered, cut short and watched in the same way."""

import pytest

CREATE = ("node", "create", "n1", "-t", "v5litepod-16", "--spot", "-q")


def test_rows_and_columns_of_a_list_are_chosen(tpuctl):
    kinds = ("catalog", "types", "--filter", "generation=v5e")
    listed = tpuctl(*kinds, "--sort", "-chips", "--columns", "name,chips", "--limit", "2")
    assert listed.out == "NAME\tCHIPS\nv5litepod-256\t256\nv5litepod-128\t128\n"
    assert tpuctl(*kinds, "--filter", "name~-8$", "-o", "name").out == "v5litepod-8\n"
    wrong = tpuctl("catalog", "types", "--filter", "colour=red")
    assert (wrong.code, wrong.out, wrong.err) == (
        2,
        "",
        "error: this list has no column 'colour'\n"
        "hint: choose among name, generation, chips, topology, workers, chips_per_worker\n",
    )


def test_public_models_are_listed_with_what_a_token_goes_through(tpuctl):
    listed = tpuctl("catalog", "models", "--filter", "family=mixtral")
    assert listed.out == (
        "NAME\tFAMILY\tPARAMETERS\tACTIVE PARAMETERS\tCONTEXT\tSOURCE\n"
        "mixtral-8x22b\tmixtral\t141B\t39.2B\t65536\tmistralai/Mixtral-8x22B-v0.1, config.json\n"
        "mixtral-8x7b\tmixtral\t46.7B\t12.9B\t32768\tmistralai/Mixtral-8x7B-v0.1, config.json\n"
    )
    keys = tpuctl("catalog", "models", "--limit", "1", "-o", "json").json
    assert list(keys[0]) == [
        "name",
        "family",
        "parameters",
        "active_parameters",
        "context_tokens",
        "source",
    ]


def test_a_watched_list_is_shown_again_when_it_differs(cloud, tpuctl, at_home):
    assert tpuctl(*CREATE).code == 0
    rounds = []

    def wait(pause_s):
        rounds.append(pause_s)
        if len(rounds) == 2:
            assert tpuctl("local", "preempt", "n1", "--no-notice").code == 0
        if len(rounds) == 4:
            raise KeyboardInterrupt

    watched = at_home(cloud.home, sleep=wait)(
        "node", "list", "--watch", "--columns", "name,state", "--no-headers"
    )
    assert (watched.code, watched.out) == (130, "n1\tREADY\nn1\tPREEMPTED\n")
    assert watched.err == "\ninterrupted\n"


@pytest.mark.parametrize("verb", [("qr", "list"), ("job", "list"), ("data", "list"), ("history",)])
def test_an_empty_list_has_no_headings(tpuctl, verb):
    assert tpuctl(*verb).out == ""
