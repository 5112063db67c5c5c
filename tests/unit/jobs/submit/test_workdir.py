"""The archive of a working directory."""

import io
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from tpuctl.errors import RefusedError, UsageError
from tpuctl.jobs.submit.workdir_archive import pack

KEY = "-----BEGIN {}PRIVATE KEY-----\n" + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC" * 2 + "\n"


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def packed(root: Path, *include: str) -> tuple[str, bytes]:
    target = io.BytesIO()
    return pack(root, target, include), target.getvalue()


def names(data: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as tar:
        return tar.getnames()


def test_regular_files_in_order_without_what_is_not_source(tmp_path):
    root = tree(tmp_path / "w", {
        "b.py": "", "a/c.py": "", ".git/HEAD": "", "a/__pycache__/c.pyc": "", ".venv/x": "",
        ".env": "A=1",
    })  # fmt: skip
    assert sorted(names(packed(root)[1])) == [".env", "a/c.py", "b.py"]


IGNORING = {
    ".gitignore": "*.log\n!keep.log\n/out/\n# a comment\n\ndata/*\n!data/small.csv\n",
    "a/.gitignore": "!again.log\n*.tmp\n",
    "a/b/.gitignore": "/top.py\n",
    ".tpuctlignore": "notes/\n!/wanted.log\n",
    "x.log": "", "keep.log": "", "wanted.log": "", "out/x.py": "", "a/out/x.py": "",
    "data/large.csv": "", "data/small.csv": "", "a/again.log": "", "a/x.tmp": "", "x.tmp": "",
    "a/b/top.py": "", "a/b/c/top.py": "", "a/b/x.log": "", "a/b/again.log": "",
    "notes/keep.log": "",
}  # fmt: skip
SENT = {
    ".gitignore", "a/.gitignore", "a/b/.gitignore", ".tpuctlignore", "keep.log", "wanted.log",
    "a/out/x.py", "data/small.csv", "a/again.log", "x.tmp", "a/b/c/top.py", "a/b/again.log",
}  # fmt: skip


def test_what_the_ignore_files_name_stays_behind(tmp_path):
    assert set(names(packed(tree(tmp_path, IGNORING))[1])) == SENT


@pytest.mark.system
@pytest.mark.skipif(shutil.which("git") is None, reason="no git here")
def test_git_takes_the_same_files(tmp_path):
    files = {name: text for name, text in IGNORING.items() if name != ".tpuctlignore"}
    root = tree(tmp_path, files)
    git = ["git", "-C", str(root), "-c", "core.excludesFile=/dev/null"]
    subprocess.run([*git, "init", "-q"], check=True)
    listed = subprocess.run(
        [*git, "ls-files", "-o", "-z", "--exclude-standard"], check=True, capture_output=True
    )
    assert set(names(packed(root)[1])) == set(listed.stdout.decode().split("\0")) - {""}


def test_a_file_that_is_insisted_on_comes_out_of_what_stays_behind(tmp_path):
    root = tree(tmp_path, IGNORING)
    taken = set(names(packed(root, "/out/x.py", "*.csv")[1]))
    assert taken == SENT | {"out/x.py", "data/large.csv"}
    with pytest.raises(UsageError, match=r"--include '\*\.txt' matches no file of the workdir"):
        packed(root, "*.txt", "*.csv")


def test_an_ignore_file_with_a_line_that_is_no_pattern_counts_without_it(tmp_path):
    root = tree(tmp_path, {".gitignore": "!\n*.log\n", "x.log": "", "x.py": ""})
    assert names(packed(root)[1]) == [".gitignore", "x.py"]


def test_the_same_files_give_the_same_bytes(tmp_path):
    first = packed(tree(tmp_path / "one", {"x": "1", "y/z": "2"}))
    second = tree(tmp_path / "two", {"y/z": "2", "x": "1"})
    (second / "x").touch()
    assert packed(second) == first


def test_a_link_within_the_tree_is_followed_and_one_out_of_it_refused(tmp_path):
    root = tree(tmp_path / "w", {"x": "1"})
    (root / "same").symlink_to("x")
    assert names(packed(root)[1]) == ["same", "x"]
    (tmp_path / "secret").write_text("s")
    (root / "out").symlink_to("../secret")
    with pytest.raises(RefusedError, match="workdir: out leads out of it"):
        packed(root)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (KEY.format(""), "a private key"),
        (KEY.format("OPENSSH "), "a private key"),
        ("x" * 3_000_000 + KEY.format("EC "), "a private key"),
        ('{"type": "service_account", "private_key": "x"}', "a service account key"),
        ('{"type": "authorized_user", "refresh_token": "x"}', "a person's Google credentials"),
    ],
)
def test_a_file_with_a_key_is_refused_by_name(tmp_path, text, what):
    root = tree(tmp_path, {"conf/key.json": text})
    with pytest.raises(RefusedError, match=f"workdir: conf/key.json holds {what}") as caught:
        packed(root)
    assert caught.value.hint.endswith("--include /conf/key.json")
    assert names(packed(root, "/conf/key.json")[1]) == ["conf/key.json"]
    (root / ".tpuctlignore").write_text("key.json\n")
    assert names(packed(root)[1]) == [".tpuctlignore"]


def test_a_key_store_is_known_by_its_name(tmp_path):
    with pytest.raises(RefusedError, match="workdir: old.P12 holds a private key, by its name"):
        packed(tree(tmp_path, {"old.P12": ""}))


def test_a_link_that_leads_to_itself_is_refused_unless_it_stays_behind(tmp_path):
    root = tree(tmp_path, {"x": "1"})
    (root / "loop").symlink_to("loop")
    with pytest.raises(RefusedError, match="workdir: loop "):
        packed(root)
    (root / ".tpuctlignore").write_text("loop\n")
    assert names(packed(root)[1]) == [".tpuctlignore", "x"]


def test_a_program_that_only_names_a_key_is_not_one(tmp_path):
    root = tree(tmp_path, {"x.py": 'MARK = "-----BEGIN PRIVATE KEY-----"\n'})
    assert names(packed(root)[1]) == ["x.py"]


def test_a_secrets_file_stays_behind_under_all_its_names(tmp_path):
    root = tree(tmp_path / "w", {"train.py": "", "a/wb.key": "value", "other.key": "value"})
    (root / "again").symlink_to(root / "a/wb.key")
    (root / "third").hardlink_to(root / "a/wb.key")
    target, said = io.BytesIO(), []
    secret_files = [root / "a/wb.key", root / "gone"]
    pack(root, target, secret_files=secret_files, say=said.append)
    assert sorted(names(target.getvalue())) == ["other.key", "train.py"]
    assert [line.partition(" ")[0] for line in said] == ["again", "third", "a/wb.key"]
