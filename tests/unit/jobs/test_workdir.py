"""The archive of a working directory."""

import io
import tarfile
from pathlib import Path

import pytest

from tpuctl.errors import RefusedError
from tpuctl.jobs.workdir import pack

KEY = "-----BEGIN {}PRIVATE KEY-----\n" + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC" * 2 + "\n"


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def packed(root: Path) -> tuple[str, bytes]:
    target = io.BytesIO()
    return pack(root, target), target.getvalue()


def names(data: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as tar:
        return tar.getnames()


def test_regular_files_in_order_without_what_is_not_source(tmp_path):
    root = tree(tmp_path / "w", {
        "b.py": "", "a/c.py": "", ".git/HEAD": "", "a/__pycache__/c.pyc": "", ".venv/x": "",
        ".env": "A=1",
    })  # fmt: skip
    assert sorted(names(packed(root)[1])) == [".env", "a/c.py", "b.py"]


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
        ('{"type": "service_account", "private_key": "x"}', "a service account key"),
    ],
)
def test_a_file_with_a_key_is_refused_by_name(tmp_path, text, what):
    root = tree(tmp_path, {"conf/key.json": text})
    with pytest.raises(RefusedError, match=f"workdir: conf/key.json holds {what}"):
        packed(root)


def test_a_program_that_only_names_a_key_is_not_one(tmp_path):
    root = tree(tmp_path, {"x.py": 'MARK = "-----BEGIN PRIVATE KEY-----"\n'})
    assert names(packed(root)[1]) == ["x.py"]
