"""docs/notifications.md says what the code does."""

import json
import re
from pathlib import Path

from tpuctl.jobs.notifications.delivery.command import variables
from tpuctl.jobs.notifications.due_notifications import UNSUPERVISED_S
from tpuctl.jobs.notifications.idle_watch import IDLE_S
from tpuctl.jobs.notifications.shapes import CHAT_CHARS, DISCORD_CHARS, document
from tpuctl.jobs.spec import job_file_schema
from tpuctl.metrics.findings import chip_rules
from tpuctl.models.notify.notify_spec import DEFAULT_EVENTS, NotifyEvent, TargetKind
from tpuctl.network_policy import (
    NOTIFICATION_COMMAND_S,
    NOTIFICATION_GIVE_UP_S,
    NOTIFICATION_LONGEST_PAUSE_S,
)
from unit.jobs.notifications.test_shapes import message

PAGE = (Path(__file__).parents[4] / "docs" / "notifications.md").read_text("utf-8")


def first_cells(heading: str) -> list[str]:
    """The words in the first column of a table below a heading."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `([\w-]+)` \|", section, re.MULTILINE)


def test_every_event_is_on_the_page_and_in_the_schema():
    events = [*NotifyEvent]
    assert first_cells("Events") == events
    items = job_file_schema.load_schema()["properties"]["notify"]["items"]
    assert items["properties"]["events"]["items"]["enum"] == events
    assert set(events) - set(DEFAULT_EVENTS) == {"started"}


def test_every_target_is_on_the_page():
    assert first_cells("Targets") == [*TargetKind]
    once = PAGE.split("\n## Once, at least\n")[1]
    assert {*TargetKind} <= {*re.findall(r"`(\w+)`", once.split("## When")[0])}


def test_the_json_of_the_page_has_every_key():
    shown = json.loads(re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)[1])
    assert list(shown) == list(document(message()))


def test_figures_and_variables_of_the_page_are_those_of_the_code():
    for name in variables(message()):
        assert name in PAGE or f"`_{name.removeprefix('TPUCTL_NOTIFICATION_')}`" in PAGE
    for text in (
        f"for {UNSUPERVISED_S / 60:.0f} minutes or more",
        f"for {IDLE_S / 60:.0f} minutes",
        f"at most {CHAT_CHARS:,} characters",
        f"at most {DISCORD_CHARS:,} characters",
        f"killed after {NOTIFICATION_COMMAND_S:.0f} s",
        f"tried again for {NOTIFICATION_GIVE_UP_S / 60:.0f} minutes",
        f"pauses of up to {NOTIFICATION_LONGEST_PAUSE_S / 60:.0f} minutes",
    ):
        assert text in PAGE, text
    assert IDLE_S == chip_rules.IDLE_S
