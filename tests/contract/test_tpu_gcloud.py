"""Google's own command line against the REST view: the referee."""

import json
import os
import shutil
import subprocess

import pytest
from tpu_service import serving

from localsim.clock import Clock
from localsim.cloud.scenario import Scenario

GCLOUD = shutil.which("gcloud")
pytestmark = pytest.mark.skipif(GCLOUD is None, reason="gcloud is not installed")

PROMPT = Scenario(acceptance_delay_s=0, provisioning_delay_s=0, deletion_delay_s=0)
SIZE = ("--accelerator-type=v5litepod-16", "--version=v2-alpha-tpuv5-lite")


@pytest.fixture
def gcloud(tmp_path):
    """Runs gcloud with a home of its own; (exit code, stdout, stderr)."""
    with serving(tmp_path / "state.sqlite", clock=Clock(), scenario=PROMPT) as service:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "CLOUDSDK_CONFIG": str(tmp_path / "gcloud"),
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": f"http://127.0.0.1:{service.rest_port}/",
            "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
            "CLOUDSDK_CORE_PROJECT": "demo",
            "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
            "CLOUDSDK_COMPUTE_ZONE": "us-west4-a",
        }

        def run(*argv):
            done = subprocess.run(
                [GCLOUD, "compute", "tpus", *argv],
                env=environment,
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
                timeout=60,
            )
            return done.returncode, done.stdout, done.stderr

        yield run


def test_tpu_vm(gcloud):
    assert gcloud("tpu-vm", "create", "a", *SIZE, "--spot", "--metadata=k=v")[0] == 0
    code, out, _ = gcloud("tpu-vm", "list", "--format=json")
    assert (code, [node["state"] for node in json.loads(out)]) == (0, ["READY"])
    code, out, _ = gcloud("tpu-vm", "describe", "a", "--format=json")
    node = json.loads(out)
    assert (code, node["metadata"], node["schedulingConfig"]) == (0, {"k": "v"}, {"spot": True})
    assert gcloud("tpu-vm", "delete", "a", "--quiet")[0] == 0
    code, _, err = gcloud("tpu-vm", "describe", "a")
    assert code == 1
    assert "NOT_FOUND" in err


def test_queued_resources(gcloud):
    code, _, err = gcloud(
        "queued-resources",
        "create",
        "q",
        "--node-id=a",
        "--accelerator-type=v5litepod-16",
        "--runtime-version=v2-alpha-tpuv5-lite",
    )
    assert code == 0, err
    code, out, _ = gcloud(
        "queued-resources", "list", "--zone=-", "--format=value(name,state.state)"
    )
    assert (code, out.split()) == (0, ["q", "ACTIVE"])
    code, _, err = gcloud("queued-resources", "delete", "q", "--quiet")
    assert (code, "ACTIVE" in err) == (1, True)
    code, _, err = gcloud("queued-resources", "delete", "q", "--quiet", "--force")
    assert code == 0, err
    assert gcloud("tpu-vm", "list", "--format=json")[1].strip() == "[]"
