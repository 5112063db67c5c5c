"""Names that cannot be files, or not these files: each is said, the others arrive."""

import errno
import os
from pathlib import Path

pytest_plugins = ("client.cli.data.data_fixtures",)

BUCKET = "gs://local-bucket"

UNSAFE = (
    "../x", "/etc/x", "a/../../x", "..\\x", "a//b", "./c", "d/.", "..", "folder/", "deep/folder/",
    "back\\slash", "x" * 256, "deep/" + "y" * 300 + "/z", "\u00e9" * 130, ".tpuctl-part-left",
)  # fmt: skip
"""What must not become a file."""
SHADOWED = ("clash", "tree/clash")
"""Objects whose names others need as a directory."""
BELOW_A_LINK = ("planted/x", "planted/deep/y")
"""Where the test plants a link that leads out."""
UNUSUAL = (
    "%2e%2e/x", "%2e%2e%2fetc", "-rf", "--help", " leading", "trailing ", "with space", "#1", "*",
    "?", "[a]", "~", "$HOME", "`id`", "a;b", "a|b", "a&b", "'", '"', "a:b", "CON", "nul", ".hidden",
    "...", "..a", "a..", "\U0001f600", "\u65e5\u672c", "caf\u00e9", "\u202etxt", "tab\there",
    "w" * 255, "/".join(["p" * 100] * 10), "clash/inside", "tree/clash/inside", "plain", "Case",
    "zero", "sub/dir/file", "a+b", "a=b",
)  # fmt: skip
"""What is only unusual."""


def test_sixty_names(tpuctl, local_bucket, tmp_path):
    names = (*UNSAFE, *SHADOWED, *BELOW_A_LINK, *UNUSUAL)
    assert len(set(names)) == 60
    for name in names:
        local_bucket.blob(f"set/{name}").upload_from_string(
            b"" if name == "zero" else name.encode()
        )
    canary, target = tmp_path / "canary", tmp_path / "in"
    canary.mkdir()
    target.mkdir()
    (target / "planted").symlink_to(canary)
    result = tpuctl("data", "pull", f"{BUCKET}/set", str(target))

    refused = {line.partition(": not copied: ")[0] for line in result.err.splitlines()}
    assert result.code == 70
    assert refused >= {f"warning: set/{name}" for name in (*UNSAFE, *SHADOWED, *BELOW_A_LINK)}
    assert result.err.count("not copied") == 19
    arrived = {
        path.relative_to(target).as_posix(): path.read_text("utf-8")
        for path in target.rglob("*")
        if path.is_file()
    }
    assert arrived == {name: "" if name == "zero" else name for name in UNUSUAL}
    assert list(canary.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["canary", "in"]


def test_what_stands_for_a_folder_is_passed_over(tpuctl, local_bucket, tmp_path):
    for name in ("set/", "set/deep/", "set/deep/a"):
        local_bucket.blob(name).upload_from_string("alpha" if name.endswith("a") else "")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "old").touch()
    argv = ("data", "pull", f"{BUCKET}/set", str(tmp_path / "in"), "--delete", "--yes")
    result = tpuctl(*argv, "-o", "json")
    assert (result.code, result.json["objects_received"], result.json["objects_deleted"]) == (
        0,
        1,
        1,
    )
    assert tpuctl("data", "verify", f"{BUCKET}/set", str(tmp_path / "in")).code == 0


def test_a_source_that_may_not_be_looked_at_is_local_io(tpuctl, tmp_path, monkeypatch):
    source = str(tmp_path / "closed" / "x")

    def denied(path, *arguments, stat=os.stat, **options):
        if path == source:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return stat(path, *arguments, **options)

    monkeypatch.setattr(os, "stat", denied)
    result = tpuctl("data", "push", source, f"{BUCKET}/x")
    assert result.code == 60
    assert result.err.splitlines()[0].endswith("closed/x: Permission denied")


def test_when_every_name_is_refused_so_is_the_command(tpuctl, local_bucket, tmp_path):
    local_bucket.blob("set/../x").upload_from_string(b"x")
    result = tpuctl("data", "pull", f"{BUCKET}/set", str(tmp_path / "in"))
    assert result.code == 80
    assert result.err.splitlines()[-2:] == [
        "error: 1 name was refused",
        "hint: put right what the warnings name, or leave it out with --exclude",
    ]


def test_names_that_a_file_system_cannot_tell_apart(tpuctl, local_bucket, tmp_path, monkeypatch):
    for name in ("a", "A", "other"):
        local_bucket.blob(f"set/{name}").upload_from_string(name.encode())
    # This one can: the test says that it ignores case.
    monkeypatch.setattr("tpuctl.operations.stage.plan.names.folding_of", lambda _: str.casefold)
    result = tpuctl("data", "pull", f"{BUCKET}/set", str(tmp_path / "in"))
    assert result.code == 70
    assert "set/A: not copied: this file system cannot tell A from a" in result.err
    assert [path.name for path in (tmp_path / "in").iterdir()] == ["other"]


def test_a_link_planted_between_plan_and_copy_is_not_followed(
    tpuctl, local_bucket, tmp_path, monkeypatch
):
    from tpuctl.operations.stage.transfer import pull_objects as stage_pull

    outside, target = tmp_path / "outside", tmp_path / "in"
    outside.mkdir()
    local_bucket.blob("set/deep/x").upload_from_string(b"x")

    def planted(plan, bulk, pull=stage_pull.pull):
        target.mkdir()
        (target / "deep").symlink_to(outside)
        return pull(plan, bulk)

    monkeypatch.setattr(stage_pull, "pull", planted)
    result = tpuctl("data", "pull", f"{BUCKET}/set", str(target))
    assert result.code == 60
    assert "a file or a link stands where a directory must be" in result.err
    assert list(outside.iterdir()) == []


def test_what_a_push_refuses_is_named_and_the_rest_is_sent(tpuctl, three_files, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (three_files / "inside").symlink_to("a.txt")
    (three_files / "outside").symlink_to(secret)
    (three_files / "nowhere").symlink_to("gone")
    (three_files / "round").symlink_to(".")
    os.mkfifo(three_files / "pipe")
    Path(os.fsdecode(os.fsencode(three_files) + b"/caf\xe9")).write_text("not UTF-8")
    result = tpuctl("data", "push", str(three_files), f"{BUCKET}/set")
    whys = dict(
        line.removeprefix(f"warning: {three_files}/").split(": not copied: ")
        for line in result.err.splitlines()
        if "not copied" in line
    )
    assert result.code == 70
    assert whys == {
        "outside": "a symbolic link that leads out of the tree",
        "nowhere": "a symbolic link that leads nowhere",
        "round": "a symbolic link that leads out of the tree",
        "pipe": "not a regular file",
        "caf?": "its name is not UTF-8",
    }
    listed = tpuctl("data", "list", "-o", "name").out.split()
    assert listed == ["set/a.txt", "set/deep/b.bin", "set/empty", "set/inside"]


def test_a_file_that_cannot_be_read_is_local_io(tpuctl, three_files, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may read anything
    result = tpuctl("data", "push", str(three_files / "a.txt"), f"{BUCKET}/x")
    assert (result.code, result.err) == (
        60,
        f"error: cannot read {three_files / 'a.txt'}: Permission denied\n",
    )
