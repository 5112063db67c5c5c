"""What talks to Google, run for real: TLS, service-account keys, tokens, permissions.

A few tests of `tpuctl node`, `qr` and `data` run once more through a context of Google's kind, so
that each kind of call is made: test_google_commands has all of them.
"""

from pathlib import Path

import pytest
import requests
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from client.cli.data.test_data import (
    test_a_large_file_goes_in_parts_and_comes_in_ranges,
    test_list_shows_size_and_checksum,
    test_push_pull_round_trip,
)
from client.cli.node.test_node import (
    test_create_shows_the_price_first_and_the_node_when_it_is_ready,
    test_delete_takes_the_owning_request_with_it,
    test_errors_in_json_carry_the_reason,
    test_lists_show_every_zone_unless_one_is_named,
    test_stop_and_start_a_slice_of_one_worker,
    test_update_changes_labels_and_removes_one,
)
from client.cli.requests.test_queued_resource import (
    test_the_same_request_again_goes_on_with_it_and_another_is_a_conflict,
    test_wait_shows_every_state_until_active,
)
from client.google.google_fixtures import changed_key, cloud, context, save, tpuctl
from tpuctl.api.connect import tpu_api
from tpuctl.errors import CredentialsError

__all__ = [
    "cloud",
    "test_the_same_request_again_goes_on_with_it_and_another_is_a_conflict",
    "test_a_large_file_goes_in_parts_and_comes_in_ranges",
    "test_create_shows_the_price_first_and_the_node_when_it_is_ready",
    "test_delete_takes_the_owning_request_with_it",
    "test_errors_in_json_carry_the_reason",
    "test_list_shows_size_and_checksum",
    "test_lists_show_every_zone_unless_one_is_named",
    "test_push_pull_round_trip",
    "test_stop_and_start_a_slice_of_one_worker",
    "test_update_changes_labels_and_removes_one",
    "test_wait_shows_every_state_until_active",
    "tpuctl",
]
pytest_plugins = ("client.google.google_server", "client.cli.data.data_fixtures")


def created(cloud, run, account):
    """`context create` with the key of an account."""
    line, google_line = cloud.line, cloud.line["google"]
    return run(
        "context", "create", "lab", "--project", line["project"], "--zone", line["zone"],
        "--bucket", line["bucket"], "--credentials", google_line["keys"][account],
        "--tpu-endpoint", google_line["tpu"], "--tpu-rest-endpoint", google_line["tpu_rest"],
        "--storage-endpoint", google_line["storage"],
    )  # fmt: skip


def test_a_context_of_googles_kind_is_made_after_every_check(cloud, at_home, tmp_path):
    result = created(cloud, at_home(tmp_path), "admin")
    assert (result.code, result.err.count("ok     ")) == (0, 4)


@pytest.mark.parametrize(
    ("account", "failed", "role"),
    [
        ("nobody", "project and Cloud TPU API", "roles/tpu.viewer"),
        ("viewer", "bucket", "roles/storage.objectUser"),
    ],
)
def test_a_context_that_may_not_enough_names_the_role(
    cloud, at_home, tmp_path, account, failed, role
):
    result = created(cloud, at_home(tmp_path), account)
    assert result.code == 21
    assert f"FAILED {failed}" in result.err
    assert result.err.rstrip().endswith(f"--role={role}")


def test_a_viewer_may_look_and_not_create_and_hears_which_role_is_missing(tpuctl):
    assert tpuctl("-c", "viewer", "node", "list").code == 0
    result = tpuctl("-c", "viewer", "node", "create", "n1", "-t", "v5litepod-4")
    assert result.code == 21
    assert "Permission 'tpu.nodes.create' denied" in result.err
    assert "roles/tpu.admin" in result.err.splitlines()[-1]
    assert tpuctl("node", "list").out == ""


def test_nobody_may_not_even_look(tpuctl):
    for argv in (("node", "list"), ("qr", "list"), ("node", "describe", "n1")):
        result = tpuctl("-c", "nobody", *argv)
        assert result.code == 21
        assert "roles/tpu.viewer" in result.err.splitlines()[-1]


def test_a_viewer_of_tpus_may_not_write_to_the_bucket(tpuctl, tmp_path):
    (tmp_path / "a").write_text("a")
    result = tpuctl("-c", "viewer", "data", "push", str(tmp_path / "a"), "gs://local-bucket/a")
    assert result.code == 21
    assert "viewer@local-project.iam.gserviceaccount.com does not have storage.objects." in (
        result.err
    )


def test_a_key_that_is_not_the_accounts_is_refused_at_once(cloud, at_home, tmp_path):
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path = changed_key(cloud, "admin", tmp_path / "key.json", private_key=other.decode())
    save(tmp_path, context(cloud, "admin", credentials=path))
    for argv in (("node", "list"), ("node", "create", "n1", "-t", "v5litepod-4"), ("data", "list")):
        result = at_home(tmp_path)("-c", "admin", *argv)
        assert result.code == 20, argv
        assert "Invalid JWT Signature." in result.err


def test_a_server_of_another_authority_is_not_trusted(cloud, at_home, tmp_path, monkeypatch):
    other = tmp_path / "other.pem"
    other.write_text(Path(requests.certs.where()).read_text())
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(other))
    save(tmp_path, context(cloud, "admin"))
    result = at_home(tmp_path)("-c", "admin", "node", "list")
    assert result.code == 40
    assert "cannot get an access token" in result.err
    assert "certificate verify failed" in result.err
    assert result.err.endswith("hint: set REQUESTS_CA_BUNDLE to the certificate of its authority\n")


def test_a_token_endpoint_that_is_gone_is_transient(cloud, at_home, tmp_path):
    path = changed_key(cloud, "admin", tmp_path / "key.json", token_uri="https://127.0.0.1:1/token")
    save(tmp_path, context(cloud, "admin", credentials=path))
    result = at_home(tmp_path)("-c", "admin", "node", "create", "n1", "-t", "v5litepod-4")
    assert result.code == 40
    assert "cannot get an access token" in result.err


def test_a_token_that_expired_on_the_way_is_no_longer_accepted(cloud):
    api = tpu_api(context(cloud, "admin"))
    assert api.list_nodes() == ([], [])
    cloud.control.advance(3600)
    with pytest.raises(CredentialsError, match="invalid authentication credentials"):
        api.list_nodes()
    api.close()
    again = tpu_api(context(cloud, "admin"))
    assert again.list_nodes() == ([], [])
    again.close()
