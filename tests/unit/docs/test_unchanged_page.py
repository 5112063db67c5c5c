"""docs/unchanged.md is what programs.toml and the results of the last runs say."""

from system.rehearsals import rehearsals_page
from system.unchanged.unchanged_page import PAGE, PROGRAMS, page, programs, results


def test_the_page_is_what_the_data_say():
    assert PAGE.read_text("utf-8") == page(programs(), results())


def test_every_program_was_run_and_every_failure_has_its_reason():
    known, found = programs(), results()
    assert list(found) == sorted(known)
    failures = {
        name: [mode for mode, result in each.items() if result == "failed"]
        for name, each in found.items()
    }
    assert failures == {name: list(each.fails) for name, each in known.items()}


def test_at_least_twelve_programs_run_in_both_modes():
    assert sum(set(each.values()) == {"ok"} for each in results().values()) >= 12


def test_the_files_that_are_run_are_there():
    ours = [each.run for each in programs().values() if not each.source]
    named = {word for run in ours for word in run.split() if word.endswith(".py")}
    assert named == {path.name for folder in PROGRAMS for path in folder.glob("*.py")}


def test_the_page_of_rehearsals_says_what_the_last_ones_found():
    found = rehearsals_page.results()
    assert rehearsals_page.PAGE.read_text("utf-8") == rehearsals_page.page(found)
