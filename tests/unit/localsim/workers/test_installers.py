"""What installs packages is told of the way out by files, without touching this machine's own."""

from pathlib import Path

import pytest

from localsim.workers.disk import installers

PROXY = "http://10.127.0.1:3128"


@pytest.fixture
def top(tmp_path: Path) -> Path:
    (tmp_path / "root" / "etc").mkdir(parents=True)
    return tmp_path / "root"


def test_what_a_file_says_already_stays(top: Path):
    etc = top / "etc"
    (etc / "pip.conf").write_text("[install]\nno-binary = x\n[global]\nproxy = http://old:1\n")
    (etc / "gitconfig").write_text("[user]\n\tname = Ada")
    (etc / "uv").mkdir()
    (etc / "uv" / "uv.toml").write_text('https-proxy = "http://old:1"\n[pip]\nsystem = true\n')
    installers.configure_proxy(top, PROXY)
    assert (etc / "pip.conf").read_text().split("\n\n") == [
        "[install]\nno-binary = x",
        f"[global]\nproxy = {PROXY}",
        "",
    ]
    assert (etc / "gitconfig").read_text() == f'[user]\n\tname = Ada\n[http]\n\tproxy = "{PROXY}"\n'
    assert (etc / "uv" / "uv.toml").read_text().startswith(f'https-proxy = "{PROXY}"\n[pip]')
    assert (etc / "wgetrc").read_text().startswith(f"https_proxy = {PROXY}\n")


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("sources.list", "deb http://deb.debian.org/debian x main\n", "deb https://deb.debian.org"),
        (
            "sources.list.d/a.list",
            "deb [arch=amd64] http://a.example x\n",
            "deb [arch=amd64] https://a",
        ),
        (
            "sources.list.d/a.sources",
            "URIs: http://a.example https://b.example\n",
            "URIs: https://a",
        ),
    ],
)
def test_distributions_are_asked_by_https(top: Path, name: str, before: str, after: str):
    path = top / "etc" / "apt" / name
    path.parent.mkdir(parents=True)
    path.write_text(before)
    installers.configure_proxy(top, PROXY)
    assert path.read_text().startswith(after)
    assert "http://" not in path.read_text()


def test_links_to_this_machine_s_own_files_are_not_followed(top: Path, tmp_path: Path):
    machine = tmp_path / "machine"
    (machine / "apt" / "sources.list.d").mkdir(parents=True)
    source = machine / "apt" / "sources.list.d" / "a.list"
    source.write_text("deb http://a.example x\n")
    (machine / "wgetrc").write_text("tries = 3\n")
    (top / "etc" / "wgetrc").symlink_to(machine / "wgetrc")
    (top / "etc" / "apt").symlink_to(machine / "apt")
    installers.configure_proxy(top, PROXY)
    assert f"tries = 3\nhttps_proxy = {PROXY}\n" in (top / "etc" / "wgetrc").read_text()
    assert (machine / "wgetrc").read_text() == "tries = 3\n"
    assert source.read_text() == "deb http://a.example x\n"
    assert sorted(each.name for each in (machine / "apt").iterdir()) == ["sources.list.d"]
