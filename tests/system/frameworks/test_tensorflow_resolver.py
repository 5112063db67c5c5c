"""TensorFlow's TPUClusterResolver finds the workers of a slice, from within and from without."""

import pytest

from system.frameworks.jax_slices import PROGRAMS, ZONE, open_lab, reports

pytest.importorskip("oauth2client", reason="the resolver's own clients are not installed")
tensorflow = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
RESOLVE = PROGRAMS / "resolve.py"


def test_on_a_worker_a_name_and_the_metadata_server_are_enough(namespaces, tmp_path):
    for lab in open_lab(tmp_path, "namespace"):
        two = lab.node("two", 2)
        two.put(RESOLVE)
        url = "https://tpu.googleapis.com/$discovery/rest?version=v2"
        started = two.start("env", f"'TPU_API_DISCOVERY_URL={url}'", "python3", RESOLVE.name, "two")
        expected = [f"{address}:8470" for address in two.addresses]
        for told in reports(started)[0]:
            assert told == {"cluster": {"worker": expected}, "master": f"grpc://{expected[0]}"}


def test_from_without_it_is_told_where_to_ask_and_as_whom(tmp_path):
    from google.auth.credentials import AnonymousCredentials

    for lab in open_lab(tmp_path, "process"):
        two = lab.node("two", 2)
        resolver = tensorflow.distribute.cluster_resolver.TPUClusterResolver(
            tpu="two",
            project=lab.cloud.line["project"],
            zone=ZONE,
            credentials=AnonymousCredentials(),
            discovery_url=f"{lab.cloud.line['tpu_rest']}/$discovery/rest?version=v2",
        )
        expected = [f"{address}:8470" for address in two.addresses]
        assert resolver.cluster_spec().as_dict() == {"worker": expected}
