"""Where the values of secrets are found, and where they are not."""

import json
from dataclasses import replace

import pytest

from tpuctl.errors import NotFoundError, PreconditionError, UsageError
from tpuctl.jobs.record import record_store as records
from tpuctl.jobs.secrets import job_secrets
from tpuctl.jobs.secrets.job_secrets import SecretCache
from tpuctl.models.job import JobRecord, JobSpec

VALUE = "hf_abcdefgh"


def job(**references: str) -> JobRecord:
    spec = JobSpec("digits", "true", secrets=references)
    return JobRecord("digits-1", spec, "ada@desk", 0.0, "us-west4-a", "v5litepod-4", host_id="here")


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "key"
    path.write_text(f"{VALUE}\n")
    return path


def test_the_submitters_machine_knows_its_environment_and_its_files(key_file):
    references = {"A": "env:TOKEN", "B": f"file:{key_file}", "C": "sm://projects/p/secrets/s"}
    assert job_secrets.resolve_values(references, {"TOKEN": "t"}) == {"A": "t", "B": VALUE}
    assert job_secrets.references_to(references, job_secrets.SECRET_MANAGER) == {
        "C": "sm://projects/p/secrets/s"
    }


@pytest.mark.parametrize(
    ("reference", "content", "kind", "message"),
    [
        ("env:TOKEN", b"", UsageError, "secret A: the environment has no TOKEN"),
        ("file:{}.gone", b"", NotFoundError, "secret A: there is no file {}.gone"),
        ("file:{}", b"\xff" + VALUE.encode(), UsageError, "secret A: {} is not UTF-8 text"),
        ("file:{}", b"x" * 70_000, UsageError, "secret A: {} is larger than 64 KiB"),
        ("file:{}", VALUE.encode() + b"\0", UsageError, "secret A has a NUL byte"),
    ],
)
def test_what_cannot_be_had_is_told_without_a_value(key_file, reference, content, kind, message):
    key_file.write_bytes(content)
    with pytest.raises(kind) as caught:
        job_secrets.resolve_values({"A": reference.format(key_file)}, {"TOKEN": ""})
    assert str(caught.value).startswith(message.format(key_file))
    assert VALUE not in repr(caught.value) + repr(caught.value.__context__)


def test_what_was_handed_over_counts_before_the_supervisors_own_environment():
    vault = SecretCache("here", {"TOKEN": "old"})
    assert vault.values(job(A="env:TOKEN")) == {"A": "old"}
    vault.take("digits-1", {"A": VALUE})
    assert vault.values(job(A="env:TOKEN")) == {"A": VALUE}
    assert VALUE not in repr(vault)
    vault.forget("digits-1")
    assert vault.values(job(A="env:TOKEN")) == {"A": "old"}


def test_a_file_is_read_when_it_is_needed(key_file):
    vault = SecretCache("here", {})
    wanted = job(A=f"file:{key_file}")
    key_file.write_text("renewed")
    assert vault.values(wanted) == {"A": "renewed"}
    key_file.unlink()
    assert vault.missing_reason(wanted) == f"secret A: there is no file {key_file}"


def test_bytes_of_the_environment_that_are_no_text_are_refused():
    with pytest.raises(UsageError, match="secret A is not UTF-8 text"):
        job_secrets.resolve_values({"A": "env:TOKEN"}, {"TOKEN": "hf_\udcff"})


def test_a_value_that_is_gone_is_named_with_the_command_that_helps():
    vault = SecretCache("here", {})
    assert vault.missing_reason(job(A="env:TOKEN")) == (
        "secret A: the environment has no TOKEN; set TOKEN, then run: tpuctl job retry digits-1"
    )
    with pytest.raises(PreconditionError):
        vault.values(job(A="env:TOKEN"))
    assert vault.missing_reason(job(A="sm://projects/p/secrets/s")) == ""


def test_another_machine_does_not_guess():
    elsewhere = SecretCache("there", {"TOKEN": "another one"})
    wanted = job(A="env:TOKEN")
    assert elsewhere.missing_reason(wanted) == (
        "the value of A is known on desk alone, where the job was submitted; "
        "run there: tpuctl supervisor run"
    )
    assert elsewhere.missing_reason(replace(wanted, spec=JobSpec("digits", "true"))) == ""


def test_a_record_says_where_and_never_what():
    written = records.encode(job(A="env:TOKEN", B="sm://projects/p/secrets/s"))
    assert json.loads(written)["spec"]["secrets"] == {
        "A": "env:TOKEN",
        "B": "sm://projects/p/secrets/s",
    }
    assert records.decode(written, "digits-1") == job(A="env:TOKEN", B="sm://projects/p/secrets/s")


@pytest.mark.parametrize(
    ("values", "text", "expected"),
    [
        ([VALUE], f"token={VALUE}, {VALUE}", "token=***, ***"),
        (["abcd", "abcdefgh"], "abcdefgh abcd", "*** ***"),
        (["first line\nsecond line\n"], "> second line", "> ***"),
        (["yes", ""], "yes, and nothing", "yes, and nothing"),
    ],
)
def test_a_text_is_shown_without_the_values(values, text, expected):
    assert job_secrets.redact(text, values) == expected
