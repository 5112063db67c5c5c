"""Who hears of a job: those of its file, or those of the context whose secrets are known here."""

from dataclasses import replace

import pytest

from tpuctl.errors import UsageError
from tpuctl.jobs.submit import notify_targets
from tpuctl.models.job import JobSpec
from tpuctl.models.notify.notify_spec import NotifyTarget, TargetKind

SPEC = JobSpec("digits", "true")
CONTEXT = ("slack: env:SLACK_URL", "webhook: https://ops.example.com/tpu")
OURS = NotifyTarget(TargetKind.NTFY, "env:NTFY_URL")


def labels(spec: JobSpec) -> list[str]:
    return [target.label for target in spec.notify or ()]


def test_a_file_without_the_list_has_the_targets_of_the_context():
    spec = notify_targets.with_context_targets(SPEC, CONTEXT, {"SLACK_URL": "https://h"})
    assert labels(spec) == ["slack (env:SLACK_URL)", "webhook at ops.example.com"]
    assert list(notify_targets.context_warnings(SPEC, CONTEXT, {"SLACK_URL": "https://h"})) == []


@pytest.mark.parametrize("own", [(), (OURS,)])
def test_a_list_of_the_file_stands_in_place_of_it(own):
    spec = replace(SPEC, notify=own)
    assert notify_targets.with_context_targets(spec, CONTEXT, {}) == spec
    assert list(notify_targets.context_warnings(spec, CONTEXT, {})) == []


def test_a_target_whose_secret_is_not_known_is_left_out_with_a_warning():
    assert labels(notify_targets.with_context_targets(SPEC, CONTEXT, {})) == [
        "webhook at ops.example.com"
    ]
    assert list(notify_targets.context_warnings(SPEC, CONTEXT, {})) == [
        "no messages to slack (env:SLACK_URL), which the context names: secret env:SLACK_URL: the "
        "environment has no SLACK_URL"
    ]


def test_a_secret_of_the_file_must_be_known():
    with pytest.raises(UsageError, match="secret env:NTFY_URL: the environment has no NTFY_URL"):
        notify_targets.require_known((OURS,), {})


def test_what_is_handed_over_goes_by_its_reference():
    spec = replace(SPEC, notify=(OURS, NotifyTarget(TargetKind.SLACK, "env:GONE")))
    assert notify_targets.known_values(spec, {"NTFY_URL": "https://n"}) == {
        "env:NTFY_URL": "https://n"
    }
