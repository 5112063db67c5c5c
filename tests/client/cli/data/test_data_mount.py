"""`tpuctl data mount`: what gcsfuse is started with; a program of that name writes it down."""

import pytest

from tpuctl.config import Config, Context, save

BUCKET = "gs://local-bucket"


@pytest.fixture
def gcsfuse(tmp_path, monkeypatch):
    """A program on PATH; returns the arguments that it was started with."""
    program, record = tmp_path / "bin" / "gcsfuse", tmp_path / "record"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" > {record}\n[ "$CODE" ] && exit "$CODE"\n:\n'
    )
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{program.parent}:/bin:/usr/bin")
    return lambda: record.read_text().splitlines()


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "mnt").mkdir()
    return tmp_path / "mnt"


def test_gcsfuse_gets_the_endpoint_and_the_credentials_of_the_context(
    tpuctl, cloud, gcsfuse, directory
):
    result = tpuctl(
        "data", "mount", f"{BUCKET}/set/a b/", str(directory), "--read-only", "-o", "json"
    )
    assert (result.code, result.json, result.err) == (
        0,
        {"url": f"{BUCKET}/set/a b/", "directory": str(directory)},
        f"unmount it with: fusermount -u {directory}\n",
    )
    assert gcsfuse() == [
        "--implicit-dirs",
        f"--custom-endpoint={cloud.line['storage']}/storage/v1/",
        "--anonymous-access",
        "--only-dir=set/a b",
        "-o",
        "ro",
        "local-bucket",
        str(directory),
    ]


def test_google_s_own_endpoint_needs_no_option_and_a_key_file_has_one(
    tpuctl, cloud, gcsfuse, directory
):
    for credentials, option in (("application-default", []), ("/k.json", ["--key-file=/k.json"])):
        context = Context("google", "p", "us-west4-a", "b", credentials=credentials)
        save(cloud.home, Config(None, {"google": context}))
        try:
            mounted = tpuctl(
                "-c", "google", "data", "mount", "gs://b", str(directory), "--foreground"
            )
        finally:
            (cloud.home / "config.yaml").unlink()
        assert (mounted.code, mounted.out, mounted.err) == (0, "", "")
        assert gcsfuse() == ["--implicit-dirs", *option, "--foreground", "b", str(directory)]


def test_without_gcsfuse_the_hint_installs_it(tpuctl, cloud, directory, monkeypatch):
    monkeypatch.setenv("PATH", str(directory))
    result = tpuctl("data", "mount", BUCKET, str(directory))
    assert (result.code, result.err.splitlines()) == (
        12,
        [
            "error: gcsfuse is not installed on this machine",
            "hint: run: sudo apt-get install -y gcsfuse (first add its repository: "
            "https://cloud.google.com/storage/docs/cloud-storage-fuse/install)",
        ],
    )


def test_what_gcsfuse_refuses_is_exit_60_and_no_directory_exit_10(
    tpuctl, cloud, gcsfuse, directory, monkeypatch
):
    missing = tpuctl("data", "mount", BUCKET, f"{directory}/none")
    assert (missing.code, missing.err.splitlines()[1]) == (
        10,
        f"hint: run: mkdir -p {directory}/none",
    )
    monkeypatch.setenv("CODE", "3")
    refused = tpuctl("data", "mount", BUCKET, str(directory))
    assert (refused.code, refused.err.splitlines()[0]) == (
        60,
        "error: gcsfuse ended with exit code 3",
    )
