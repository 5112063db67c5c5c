"""TensorBoard serves the runs of a bucket: tensorboard_runs.py gs://BUCKET/LOGS."""

import json
import subprocess
import sys
import time
import urllib.request
from urllib.error import URLError

import fsspec
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

HERE = "http://127.0.0.1:6106"


def ask(path: str) -> object:
    """What the server answers, as soon as it is there."""
    while True:
        try:
            with urllib.request.urlopen(HERE + path) as reply:
                return json.loads(reply.read())
        except URLError:
            time.sleep(0.2)


for run in ("first", "second"):
    writer = EventFileWriter(f"events/{run}")
    for step in range(5):
        value = Summary.Value(tag="loss", simple_value=1 / (step + 1))
        writer.add_event(Event(step=step, summary=Summary(value=[value])))
    writer.close()
files, folder = fsspec.url_to_fs(sys.argv[1])
files.put("events/", folder, recursive=True)
options = ("--port", "6106", "--load_fast", "false")  # the fast one trusts no authority but its own
server = subprocess.Popen(["tensorboard", "--logdir", sys.argv[1], *options])
while not (runs := ask("/data/runs")):
    time.sleep(0.2)
points = ask("/data/plugin/scalars/scalars?run=second&tag=loss")
server.terminate()
print(f"runs {runs}, {len(points)} points")
