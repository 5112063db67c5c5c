"""What a worker reaches of the simulator inside the VPC, and what not."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from clouds import Cloud, Runner, serve

REFUSED = "192.168.0.1 is not a public address: the proxy leads nowhere else"
HTTP = "curl -s -m 5 -o /dev/null -w '%{http_code}' "


@pytest.fixture(scope="module")
def vpc_cloud(namespaces, tmp_path_factory) -> Iterator[Cloud]:
    """A simulator with a VPC and the way out of it; a worker is up as node `n1`."""
    options = ("--isolation", "namespace", "--manual-clock")
    for cloud in serve(tmp_path_factory.mktemp("vpc-home"), *options):
        tpuctl = Runner(cloud.home, sleep=cloud.control.advance)
        assert tpuctl("node", "create", "n1", "-t", "v5litepod-4").code == 0
        yield cloud


@pytest.fixture
def on_worker(vpc_cloud: Cloud):
    """`on_worker(command line)` is what it prints on the worker."""

    def run(command: str) -> str:
        done = Runner(vpc_cloud.home)("node", "exec", "n1", "--", "sh", "-c", command)
        assert done.code == 0, done.err
        return done.out

    return run


def port(cloud: Cloud, name: str) -> str:
    return cloud.line[name].rpartition(":")[2]


def test_the_line_says_how_workers_are_kept_apart(vpc_cloud: Cloud):
    assert vpc_cloud.line["mode"] == "namespace"
    assert "mode_reason" not in vpc_cloud.line


def test_programs_find_a_project_and_no_emulator(on_worker):
    shown = on_worker("env | grep -E '_PROJECT=|_EMULATOR_|ENDPOINT'")
    assert shown == "GOOGLE_CLOUD_PROJECT=local-project\n"


TOKEN = (
    "curl -s -H 'Metadata-Flavor: Google' http://metadata.google.internal/computeMetadata/v1/"
    "instance/service-accounts/default/token | cut -d'\"' -f4"
)


@pytest.mark.parametrize(
    ("url", "status", "without_token"),
    [
        ("storage.googleapis.com/storage/v1/b/local-bucket", 200, 401),
        ("www.googleapis.com/storage/v1/b/local-bucket", 200, 401),
        ("www.googleapis.com/compute/v1/projects/local-project", 501, 401),
        ("tpu.googleapis.com/v2/projects/local-project/locations/us-west4-a/nodes", 200, 401),
        ("compute.googleapis.com/compute/v1/projects/local-project", 200, 401),
        ("monitoring.googleapis.com/v3/projects/local-project/metricDescriptors", 200, 401),
        ("iamcredentials.googleapis.com/v1/projects/-/locations", 501, 501),
        ("pubsub.googleapis.com/v1/projects/local-project/topics", 501, 501),
    ],
)
def test_google_answers_by_its_names_and_wants_a_token(
    on_worker, url: str, status: int, without_token: int
):
    asked = f'{HTTP} -H "Authorization: Bearer $({TOKEN})" https://{url}; {HTTP} https://{url}'
    assert on_worker(asked) == f"{status}{without_token}"


@pytest.mark.parametrize("coding", ["identity", "chunked"])
def test_a_body_may_have_two_lengths_as_tensorflow_sends_it(on_worker, coding: str):
    url = "'https://www.googleapis.com/upload/storage/v1/b/local-bucket/o?uploadType=media&name=tf'"
    field = f'-H "Transfer-Encoding: {coding}" -H "Content-Length: 4"'
    headers = f'-H "Authorization: Bearer $({TOKEN})" {field}'
    assert on_worker(f"{HTTP} {headers} -d body {url}") == "200"


def test_other_names_mean_nothing_at_once(on_worker):
    program = """
import socket
try:
    socket.getaddrinfo("nowhere.googleapis.com", 443)
except socket.gaierror as error:
    print(error)
"""
    assert on_worker(f"python3 -c '{program}'") == "[Errno -2] Name or service not known\n"


def test_grpc_answers_by_name_and_refuses_what_is_not_there(on_worker):
    program = """
import google.auth, google.auth.transport.grpc as g, google.auth.transport.requests as r, grpc
credentials = google.auth.default()[0]
for host, method, text, found in (
    ("tpu", "google.cloud.tpu.v2.Tpu/ListNodes",
     "projects/local-project/locations/us-west4-a", "nodes/n1"),
    ("storage", "google.storage.control.v2.StorageControl/GetStorageLayout",
     "projects/_/buckets/local-bucket/storageLayout", "US-WEST4"),
    ("storage", "google.storage.v2.Storage/ReadObject", "x", ""),
):
    channel = g.secure_authorized_channel(credentials, r.Request(), f"{host}.googleapis.com:443")
    body = bytes([10, len(text)]) + text.encode()
    try:
        print(found.encode() in channel.unary_unary("/" + method)(body, timeout=20))
    except grpc.RpcError as error:
        print(error.code().name, error.details())
"""
    assert on_worker(f"python3 -c '{program}'").splitlines() == [
        "True",
        "True",
        "UNIMPLEMENTED Method ReadObject is not emulated by localsim",
    ]


@pytest.mark.parametrize("name", ["control", "vpc", "storage", "tpu_grpc"])
@pytest.mark.parametrize("host", ["10.127.0.1", "10.128.0.1", "127.0.0.1"])
def test_what_is_this_machine_s_user_s_does_not(vpc_cloud: Cloud, on_worker, name: str, host: str):
    shown = on_worker(f"{HTTP} http://{host}:{port(vpc_cloud, name)}/ || echo ' curl' $?")
    assert shown.split() == ["000", "curl", "7"]  # connection refused


def test_the_way_out_refuses_what_is_near_and_the_apis_need_none(vpc_cloud: Cloud, on_worker):
    shown = on_worker("curl -sv -m 5 -o /dev/null https://192.168.0.1/ 2>&1 || echo curl $?")
    assert f"HTTP/1.1 403 {REFUSED}" in shown
    assert shown.endswith("curl 56\n")
    assert on_worker(f"{HTTP} http://metadata.google.internal/") == "200"


def test_programs_cannot_tell_that_there_is_a_way_out(on_worker):
    """JAX warns of a proxy in the environment, and gRPC would use one for its own connections."""
    assert on_worker("env | grep -ic _proxy= || true") == "0\n"


@pytest.mark.parametrize(
    "installer",
    [
        "python3 -m pip download --no-deps --retries 1 -i https://192.168.0.1/simple wheel",
        "git ls-remote https://192.168.0.1/repository",
        "wget -t 1 -O /dev/null https://192.168.0.1/",
    ],
    ids=lambda line: next(word for word in line.split() if word in ("pip", "git", "wget")),
)
def test_what_installs_packages_knows_it_and_tells_why_it_is_refused(on_worker, installer: str):
    if not shutil.which(installer.split()[0]):
        pytest.skip("this machine does not have it")
    shown = on_worker(f"{installer} 2>&1 || true")
    assert REFUSED in shown or "response 403" in shown  # git tells the number alone


def test_packages_of_the_distribution_come_by_https(on_worker):
    if not Path("/etc/apt").is_dir():
        pytest.skip("this machine's system has no apt")
    shown = on_worker(
        "apt-config dump Acquire::https::Proxy; grep -rlw http: /etc/apt/sources* || true"
    )
    assert shown == 'Acquire::https::Proxy "http://10.127.0.1:3128";\n'


def test_offline_there_is_no_way_out(namespaces, tmp_path):
    for cloud in serve(tmp_path, "--isolation", "namespace", "--manual-clock", "--offline"):
        tpuctl = Runner(cloud.home, sleep=cloud.control.advance)
        assert tpuctl("node", "create", "n1", "-t", "v5litepod-4").code == 0
        command = f"env | grep -ic _proxy=; {HTTP} http://10.127.0.1:3128/ || echo ' curl' $?"
        shown = tpuctl("node", "exec", "n1", "--", "sh", "-c", command).out
        assert shown.split() == ["0", "000", "curl", "7"]
