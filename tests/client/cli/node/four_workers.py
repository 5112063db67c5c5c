"""A slice of four workers for the tests of a file, and a look at what is on them."""

from clouds import Cloud, Runner

from tpuctl.jobs.local import open_jobs

BUCKET = "gs://local-bucket"
NODE = ("node", "create", "n1", "-t", "v5litepod-16")


def slice_of_four(cloud: Cloud) -> Runner:
    """`tpuctl` in an empty cloud, with the node n1."""
    cloud.control.reset()
    open_jobs.remove_file(cloud.home, "local")  # its jobs are gone with its bucket
    tpuctl = Runner(cloud.home, sleep=cloud.control.advance)
    assert tpuctl(*NODE).code == 0
    return tpuctl


def on_workers(tpuctl, script, worker="all"):
    """What a shell line prints on each worker."""
    argv = ("node", "exec", "n1", "--worker", worker, "-o", "json", "--", "sh", "-c", script)
    return [row["stdout"] for row in tpuctl(*argv).json]


def bucket(cloud):
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage

    client = storage.Client(
        project="p",
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": cloud.line["storage"]},
    )
    vars(client).pop("_bucket_metadata_cache", None)  # no look-ups in the background
    return client.bucket("local-bucket")
