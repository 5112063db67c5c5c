"""Each thing that can be wrong with a project: doctor says so, and what it prints mends it."""

import os

import pytest
from clouds import MATRIX
from system.clients.gcloud_cli import GCLOUD, gcloud_program

from client.project.broken_project import project_in
from tpuctl.operations.local import local_cloud

ACCOUNT = "424242424242-compute@developer.gserviceaccount.com"
QUOTA = "TPUV5sLitepodPerProjectPerZoneForTPUAPI"
POOL = "quota v5e multi-worker on-demand"
PROJECT, BUCKET = "permissions in the project", "permissions on the bucket"
VIEWER = ["roles/tpu.viewer", "roles/serviceusage.serviceUsageViewer", "roles/compute.viewer"]
EDITOR = ["roles/editor", "roles/storage.admin", "roles/iam.serviceAccountAdmin"]


def everybody(*roles):
    return {"member_roles": {"allUsers": list(roles)}}


CASES = {
    "an API is not enabled": (
        {"tpu_api": "disabled", "disabled_apis": ["compute.googleapis.com"]},
        {},
        ("APIs", "fail", "tpu.googleapis.com, compute.googleapis.com are not enabled"),
        "gcloud services enable tpu.googleapis.com compute.googleapis.com --project=local-project",
    ),
    "an API that tells more is not enabled": (
        {"disabled_apis": ["iam.googleapis.com"]},
        {},
        ("APIs", "warn", "iam.googleapis.com is not enabled"),
        "gcloud services enable iam.googleapis.com --project=local-project",
    ),
    "the API of the dialer is not enabled": (
        {"disabled_apis": ["iap.googleapis.com"]},
        {"dialer": "iap"},
        ("APIs", "fail", "iap.googleapis.com is not enabled"),
        "gcloud services enable iap.googleapis.com --project=local-project",
    ),
    "nobody pays": (
        {"billing": "disabled"},
        {},
        ("billing", "fail", "project local-project has no open billing account"),
        "gcloud billing projects link local-project --billing-account=00AA00-00BB00-00CC00",
    ),
    "a role for nodes is missing": (
        everybody(*VIEWER, "roles/storage.admin"),
        {},
        (PROJECT, "fail", "you may not create slices: node create, qr create, job submit,"),
        "gcloud projects add-iam-policy-binding local-project --member=allUsers"
        " --role=roles/tpu.admin",
    ),
    "a role to read the quota is missing": (
        everybody("roles/tpu.admin", "roles/compute.viewer", "roles/monitoring.viewer"),
        {},
        (PROJECT, "warn", "you may not see quota: doctor, job submit tell less without serviceus"),
        "gcloud projects add-iam-policy-binding local-project --member=allUsers"
        " --role=roles/serviceusage.serviceUsageViewer",
    ),
    "a role for tunnels is missing": (
        everybody(*EDITOR),
        {"dialer": "iap"},
        (PROJECT, "fail", "you may not reach workers through IAP: node ssh, node exec, node cp,"),
        "gcloud projects add-iam-policy-binding local-project --member=allUsers"
        " --role=roles/iap.tunnelResourceAccessor",
    ),
    "the quota is zero": (
        {"quota": {QUOTA: 0}},
        {},
        (
            POOL,
            "fail",
            "0 of 0 chips left in us-west4-a: no v5litepod-16 can",
        ),
        "gcloud beta quotas preferences create --service=tpu.googleapis.com"
        f" --project=local-project --quota-id={QUOTA} --preferred-value=16"
        " --dimensions=zone=us-west4-a",
    ),
    "the account of workers is disabled": (
        {"service_accounts": {"default": "disabled"}},
        {},
        ("service account of workers", "fail", f"{ACCOUNT} is disabled"),
        f"gcloud iam service-accounts enable {ACCOUNT} --project=local-project",
    ),
    "the account of workers is absent": (
        {},
        {"service_account": "training@local-project.iam.gserviceaccount.com"},
        ("service account of workers", "fail", "there is no service account training@"),
        "gcloud iam service-accounts create training --project=local-project",
    ),
    "the default account was deleted": (
        {"service_accounts": {"default": "absent"}},
        {},
        ("service account of workers", "fail", f"there is no service account {ACCOUNT}"),
        "gcloud iam service-accounts create tpuctl-workers --project=local-project && tpuctl"
        " context edit mine --service-account"
        " tpuctl-workers@local-project.iam.gserviceaccount.com",
    ),
    "the account may not be given to slices": (
        everybody("roles/browser", "roles/iam.serviceAccountAdmin"),
        {},
        ("permission to act as the service account", "fail", "node create, qr create and job"),
        f"gcloud iam service-accounts add-iam-policy-binding {ACCOUNT} --project=local-project"
        " --member=allUsers --role=roles/iam.serviceAccountUser",
    ),
    "workers may not write the bucket": (
        {"worker_roles": ["roles/tpu.viewer"]},
        {},
        ("rights of workers on the bucket", "fail", f"no role lets {ACCOUNT} write gs://local-b"),
        "gcloud storage buckets add-iam-policy-binding gs://local-bucket"
        f" --member=serviceAccount:{ACCOUNT} --role=roles/storage.objectUser",
    ),
    "the bucket is far away": (
        {},
        {"zone": "europe-west4-b"},
        ("bucket beside the zone", "warn", "gs://local-bucket is in us-west4, and europe-west4-b"),
        "gcloud storage buckets create gs://local-bucket-europe-west4 --location=europe-west4"
        " --project=local-project && tpuctl context edit mine --bucket local-bucket-europe-west4",
    ),
    "the network is not there": (
        {"networks": ["default"]},
        {"network": "train"},
        ("network", "fail", "project local-project has no network 'train'"),
        "gcloud compute networks create train --project=local-project",
    ),
    "the firewall is closed": (
        {"firewalls": []},
        {"dialer": "direct"},
        ("firewall for SSH", "fail", "no rule of network 'default' lets tcp:22 in: no worker is"),
        "gcloud compute firewall-rules create tpuctl-ssh-default --project=local-project"
        " --network=default --allow=tcp:22 --source-ranges=0.0.0.0/0",
    ),
    "the firewall lets in others": (
        {"firewalls": [{"name": "a", "allow": ["tcp"], "source_ranges": ["10.0.0.0/8"]}]},
        {"dialer": "iap"},
        ("firewall for SSH", "fail", "tcp:22 is let in from 10.0.0.0/8 alone, and you come from"),
        "gcloud compute firewall-rules create tpuctl-ssh-default --project=local-project"
        " --network=default --allow=tcp:22 --source-ranges=35.235.240.0/20",
    ),
    "workers do not reach the bucket": (
        {"subnets_without_google_access": ["us-west4"], "routers": []},
        {"internal_ips": True},
        ("way out without external addresses", "fail", "subnet default of us-west4 has neither"),
        "gcloud compute networks subnets update default --region=us-west4"
        " --project=local-project --enable-private-ip-google-access",
    ),
    "workers reach no packages": (
        {},
        {"internal_ips": True},
        ("way out without external addresses", "warn", "us-west4 has no Cloud NAT: workers instal"),
        "gcloud compute routers create tpuctl-nat --network=default --region=us-west4"
        " --project=local-project && gcloud compute routers nats create tpuctl-nat"
        " --router=tpuctl-nat --region=us-west4 --project=local-project"
        " --auto-allocate-nat-external-ips --nat-all-subnet-ip-ranges",
    ),
}
"""Scenario, settings of the context; check, state, start of the evidence; the fix."""


WRITE = """
import json, os, urllib.error, urllib.request
host = os.environ["GCE_METADATA_HOST"]
path = "/computeMetadata/v1/instance/service-accounts/default/token"
about = urllib.request.Request(f"http://{host}{path}", headers={"Metadata-Flavor": "Google"})
token = json.load(urllib.request.urlopen(about))["access_token"]
path = "/upload/storage/v1/b/local-bucket/o?uploadType=media&name=a"
url = os.environ["STORAGE_EMULATOR_HOST"] + path
wanted = urllib.request.Request(url, b"a", {"Authorization": f"Bearer {token}"})
try:
    print(urllib.request.urlopen(wanted).status)
except urllib.error.HTTPError as error:
    print(error.code)
"""


@pytest.fixture(scope="module")
def gcloud(manual_cloud, tmp_path_factory):
    if GCLOUD is None:
        pytest.skip("gcloud is not installed")
    exports = local_cloud.client_environment(manual_cloud.line)
    with gcloud_program(tmp_path_factory.mktemp("gcloud-home"), **exports) as program:
        yield program


@pytest.fixture
def project(cloud, gcloud, tmp_path):
    return project_in(tmp_path, cloud, gcloud)


def test_doctor_sees_each_thing_that_is_wrong_and_what_mends_it(cloud, tmp_path):
    project, told = project_in(tmp_path, cloud, None), {}
    for name, (scenario, settings, (check, state, evidence), fix) in CASES.items():
        cloud.control.reset()
        project.break_it(scenario, **settings)
        lines = [line for line in project.ask_cloud() if line.name == check and line.state == state]
        fitting = [line for line in lines if line.evidence.startswith(evidence) and line.fix == fix]
        if not fitting:
            told[name] = lines
    assert told == {}


@MATRIX
@pytest.mark.parametrize("name", CASES)
def test_what_doctor_prints_mends_it(project, name):
    scenario, settings, (check, state, _), fix = CASES[name]
    project.break_it(scenario, **settings)
    assert project.line(check, state).fix == fix
    project.run(fix)
    lines = [line for line in project.examine() if line.check == check]
    assert [line for line in lines if line.state == state and line.fix == fix] == []


@MATRIX
def test_os_login_of_the_project_shuts_out_keys(project):
    project.break_it({})
    project.gcloud("compute", "project-info", "add-metadata", "--metadata=enable-oslogin=TRUE").ok()
    line = project.line("OS Login", "fail")
    assert line.evidence.startswith("the project's metadata has enable-oslogin=TRUE: workers")
    project.run(line.fix)
    assert project.line("OS Login").state == "pass"


def test_who_holds_the_quota_is_named_with_what_frees_it(project):
    project.break_it({"quota": {QUOTA: 16}})
    assert project.line(POOL).evidence == "16 of 16 chips left in us-west4-a"
    assert project.tpuctl("node", "create", "old", "-t", "v5litepod-16").code == 0
    line = project.line(POOL, "fail")
    assert line.evidence == (
        "0 of 16 chips left in us-west4-a; node old has 16 (READY): no v5litepod-16 can be created"
    )
    assert line.fix == "tpuctl node delete old --zone us-west4-a"
    project.run(line.fix)
    assert project.line(POOL).state == "pass"


@MATRIX
def test_objects_of_another_class_cost_more(project, cloud):
    project.break_it({}, bucket="cold-bucket")
    create = "gcloud storage buckets create gs://cold-bucket --location=us-west4"
    project.run(f"{create} --default-storage-class=NEARLINE")
    line = project.line("class of the bucket", "warn")
    assert line.evidence.startswith("new objects of gs://cold-bucket are NEARLINE: each read costs")
    project.run(line.fix)
    assert project.line("class of the bucket").state == "pass"


@MATRIX
def test_a_role_on_the_bucket_is_missing(project):
    project.break_it(everybody("roles/tpu.admin", "roles/storage.objectViewer"))
    assert project.line(BUCKET, "fail").evidence == (
        "you may not write the bucket: data push, data rm, checkpoint push, checkpoint prune, "
        "job submit, run cannot work without storage.objects.create, storage.objects.delete"
    )
    fix = project.line(BUCKET, "fail").fix
    assert fix == (
        "gcloud storage buckets add-iam-policy-binding gs://local-bucket --member=allUsers "
        "--role=roles/storage.objectUser"
    )
    project.break_it(everybody("roles/storage.admin"))  # who may set the policy
    project.run(fix)
    project.break_it(everybody("roles/tpu.admin", "roles/storage.objectViewer"))
    assert project.line(BUCKET).state == "pass"


@MATRIX
def test_a_role_on_the_bucket_lets_workers_in(project):
    project.break_it({"worker_roles": ["roles/tpu.viewer"]})
    fix = project.line("rights of workers on the bucket").fix
    assert project.tpuctl("node", "create", "n1", "-t", "v5litepod-4").code == 0
    wanted = ("node", "exec", "n1", "--", "python3", "-c", WRITE)
    assert "403" in project.tpuctl(*wanted).out
    project.run(fix)
    assert "200" in project.tpuctl(*wanted).out


NEW_USER = [
    "gcloud services enable tpu.googleapis.com compute.googleapis.com cloudbilling.googleapis.com"
    " --project=local-project",
    "gcloud billing projects link local-project --billing-account=00AA00-00BB00-00CC00",
    "gcloud projects add-iam-policy-binding local-project --member=allUsers --role=roles/tpu.admin",
    "tpuctl node delete old --zone us-west4-a",
    f"gcloud iam service-accounts add-iam-policy-binding {ACCOUNT} --project=local-project"
    " --member=allUsers --role=roles/iam.serviceAccountUser",
    "gcloud storage buckets create gs://far-bucket-us-west4 --location=us-west4"
    " --project=local-project",
    "tpuctl context edit mine --bucket far-bucket-us-west4",
    "gcloud compute firewall-rules create tpuctl-ssh-default --project=local-project"
    " --network=default --allow=tcp:22 --source-ranges=10.0.0.0/8",
]
"""What a person runs who does what the first line says that is wrong, and asks again."""
BROKEN = {
    "tpu_api": "disabled",
    "disabled_apis": ["cloudbilling.googleapis.com", "compute.googleapis.com"],
    "billing": "disabled",
    "quota": {QUOTA: 16, QUOTA.replace("Litepod", "PreemptibleLitepod"): 16},
    "firewalls": [],
    **everybody(
        *("roles/tpu.viewer", "roles/storage.admin", "roles/billing.projectManager"),
        *("roles/serviceusage.serviceUsageAdmin", "roles/compute.securityAdmin"),
        *("roles/monitoring.viewer", "roles/iam.serviceAccountAdmin"),
    ),
}


def test_a_new_user_reaches_a_ready_slice_by_what_doctor_prints_alone(project, cloud):
    project.break_it({"quota": {QUOTA: 16}})
    assert project.tpuctl("node", "create", "old", "-t", "v5litepod-16").code == 0
    project.run("gcloud storage buckets create gs://far-bucket --location=europe-west4")
    project.break_it(BROKEN, bucket="far-bucket")
    commands = []
    while line := next((each for each in project.examine() if is_to_mend(each)), None):
        commands += line.fix.split(" && ")
        assert len(commands) < 20, commands
        project.run(line.fix)
    assert project.tpuctl("node", "create", "mine", "-t", "v5litepod-16").code == 0
    assert project.tpuctl("node", "exec", "mine", "--worker=0", "--", "true").code == 0
    assert commands == NEW_USER


def is_to_mend(line):
    is_of_cloud = line.check not in ("completion",)
    return is_of_cloud and line.state in ("fail", "warn") and line.fix


@MATRIX
@pytest.mark.skipif(GCLOUD is None, reason="gcloud is not installed")
def test_fix_enables_the_apis_by_itself(cloud, tmp_path):
    project = project_in(tmp_path / "home", cloud, None)
    project.break_it({"tpu_api": "disabled", "disabled_apis": ["iam.googleapis.com"]})
    environ = {
        **local_cloud.client_environment(cloud.line),
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "CLOUDSDK_CONFIG": str(tmp_path / "gcloud"),
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
    }
    done = project.tpuctl("doctor", "--fix", "--yes", environ=environ)
    assert (
        "fix: gcloud services enable tpu.googleapis.com iam.googleapis.com --project=" in done.err
    )
    assert project.line("APIs").evidence == "all 7 that tpuctl asks are enabled"
