"""Google's own clients, as anybody would write it: no line of tpuctl in here.

Usage: python google_clients.py TPU_GRPC STORAGE PROJECT ZONE BUCKET
"""

import sys

import grpc
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage, tpu_v2
from google.cloud.tpu_v2.services.tpu.transports import TpuGrpcTransport


def main(tpu_grpc: str, endpoint: str, project: str, zone: str, bucket: str) -> None:
    with grpc.insecure_channel(tpu_grpc) as channel:
        node_round_trip(
            tpu_v2.TpuClient(transport=TpuGrpcTransport(channel=channel)), project, zone
        )
    client = storage.Client(
        project=project,
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": endpoint},
    )
    object_round_trip(client.bucket(bucket))
    client.close()


def node_round_trip(client: tpu_v2.TpuClient, project: str, zone: str) -> None:
    parent = f"projects/{project}/locations/{zone}"
    node = tpu_v2.Node(accelerator_type="v5litepod-16", runtime_version="v2-alpha-tpuv5-lite")
    made = client.create_node(parent=parent, node=node, node_id="mine").result()
    assert made.state == tpu_v2.Node.State.READY
    assert len(made.network_endpoints) == 4
    assert [found.name for found in client.list_nodes(parent=parent)] == [made.name]
    client.delete_node(name=made.name).result()
    assert list(client.list_nodes(parent=parent)) == []


def object_round_trip(bucket: storage.Bucket) -> None:
    body = bytes(range(256)) * 40_000  # 10 MB: a resumable upload
    bucket.blob("a/b c/ü.bin").upload_from_string(body, if_generation_match=0)
    found = bucket.get_blob("a/b c/ü.bin")
    assert found.download_as_bytes(start=1, end=1000) == body[1:1001]
    assert found.download_as_bytes() == body
    assert [blob.name for blob in bucket.list_blobs(prefix="a/")] == ["a/b c/ü.bin"]
    found.delete(if_generation_match=found.generation)
    assert list(bucket.list_blobs()) == []


if __name__ == "__main__":
    main(*sys.argv[1:])
