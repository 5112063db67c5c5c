"""Which commands of records this machine runs: those that were submitted here, and no others."""

from tpuctl.jobs.local import notify_commands

SAY = ("notify-send", "tpuctl")


def test_a_command_is_allowed_for_its_job_and_in_its_words_alone(tmp_path):
    notify_commands.allow(tmp_path, "lab", "digits-1", [SAY])
    assert notify_commands.is_allowed(tmp_path, "lab", "digits-1", SAY)
    for context, job_id, command in (
        ("team", "digits-1", SAY),
        ("lab", "digits-2", SAY),
        ("lab", "digits-1", ("notify-send", "tpuctl", "evil")),
        ("lab", "digits-1", ("notify-send tpuctl",)),
    ):
        assert not notify_commands.is_allowed(tmp_path, context, job_id, command)


def test_a_damaged_file_allows_nothing(tmp_path):
    notify_commands.allow(tmp_path, "lab", "digits-1", [SAY])
    (file,) = (tmp_path / "supervisors").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    for text in ("{", "[]", '{"digests": 1}'):
        file.write_text(text)
        assert not notify_commands.is_allowed(tmp_path, "lab", "digits-1", SAY)
    notify_commands.allow(tmp_path, "lab", "digits-1", [SAY])
    assert notify_commands.is_allowed(tmp_path, "lab", "digits-1", SAY)
