"""The table of permissions names verbs that there are, and roles that suffice."""

import re
from pathlib import Path

from localsim.rules.scenario.roles import ROLES
from tpuctl.operations.health.needed_permissions import (
    IAP_NEEDS,
    IN_PROJECT,
    ON_BUCKET,
    ROLES_THAT_WRITE_OBJECTS,
)

NEEDS = (*IN_PROJECT, *ON_BUCKET, IAP_NEEDS)
PAGES = Path(__file__).parents[4] / "docs" / "cli"


def documented_commands():
    """`node create` and so on, by the pages of the reference."""
    text = "\n".join(path.read_text("utf-8") for path in PAGES.glob("*.md"))
    return set(re.findall(r"^    tpuctl ((?:[a-z-]+ ?)+?)(?= [\[{]|$)", text, re.MULTILINE))


def test_the_role_that_is_proposed_has_all_permissions():
    assert {each.role: each.missing(ROLES[each.role]) for each in NEEDS} == {
        each.role: [] for each in NEEDS
    }


def test_every_command_of_the_table_is_there():
    known = documented_commands()
    named = {command for each in NEEDS for command in each.commands}
    unabbreviated = {re.sub(r"^qr ", "queued-resource ", each) for each in named}
    assert unabbreviated - known == set()


def test_a_role_that_writes_objects_has_what_a_job_needs():
    writing = ON_BUCKET[-1]
    assert [role for role in ROLES_THAT_WRITE_OBJECTS if writing.missing(ROLES[role])] == []
