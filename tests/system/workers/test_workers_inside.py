"""What a worker reaches of the simulator inside the VPC, and what not."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from clouds import Cloud, Runner, serve

REFUSED = "192.168.0.1 is no public address: the proxy leads nowhere else"
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


def test_storage_answers_where_the_environment_says(vpc_cloud: Cloud, on_worker):
    url = f"http://10.127.0.1:{port(vpc_cloud, 'storage')}"
    shown = on_worker(
        "echo $STORAGE_EMULATOR_HOST $GOOGLE_CLOUD_PROJECT $GCSFS_DEFAULT_PROJECT; "
        "curl -s $STORAGE_EMULATOR_HOST/storage/v1/b/local-bucket"
    )
    first, _, bucket = shown.partition("\n")
    assert first == f"{url} local-project local-project"
    assert json.loads(bucket)["name"] == "local-bucket"


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("tpu_rest", "/v2/projects/local-project/locations/us-west4-a/nodes"),
        ("compute", "/compute/v1/projects/local-project"),
    ],
)
def test_the_other_apis_answer_at_the_same_ports_as_outside(
    vpc_cloud: Cloud, on_worker, name: str, path: str
):
    assert on_worker(f"{HTTP} http://10.127.0.1:{port(vpc_cloud, name)}{path}") == "200"


def test_grpc_answers_as_well(vpc_cloud: Cloud, on_worker):
    program = (
        "import grpc, sys; channel = grpc.insecure_channel(sys.argv[1]);"
        " grpc.channel_ready_future(channel).result(5); print('ready')"
    )
    where = f"10.127.0.1:{port(vpc_cloud, 'tpu_grpc')}"
    assert on_worker(f'python3 -c "{program}" {where}') == "ready\n"


@pytest.mark.parametrize("name", ["control", "vpc"])
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
