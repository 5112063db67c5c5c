"""Event files, taken apart by the description of the formats alone."""

import struct

import google_crc32c
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tpuctl.metrics.exporters.event_files import ScalarEvent, event_file
from tpuctl.metrics.exporters.tensorboard_runs import FILE, events_of, write_runs
from tpuctl.metrics.samples import Sample, WorkerSamples
from tpuctl.store import open_store

T = 1_800_000_000.0


def event_message():
    """The class of `Event`, of the fields of tensorboard/compat/proto that are used."""
    file = descriptor_pb2.FileDescriptorProto(name="event.proto", package="tensorboard")
    fields = {
        "Value": [("tag", 1, 9, ""), ("simple_value", 2, 2, "")],
        "Summary": [("value", 1, 11, "Value")],
        "Event": [("wall_time", 1, 1, ""), ("step", 2, 3, ""), ("file_version", 3, 9, ""),
                  ("summary", 5, 11, "Summary")],
    }  # fmt: skip
    for name, of_message in fields.items():
        message = file.message_type.add(name=name)
        for field, number, kind, of_type in of_message:
            label = 3 if field == "value" else 1
            added = message.field.add(name=field, number=number, type=kind, label=label)
            if of_type:
                added.type_name = f".tensorboard.{of_type}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tensorboard.Event"))


EVENT = event_message()


def masked(data: bytes) -> int:
    checksum = google_crc32c.value(data)
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) % 2**32


def read_events(data: bytes) -> list[tuple[float, int, dict[str, float]]]:
    """The events of a file after the first, which must be its version."""
    events = []
    while data:
        length, of_length = struct.unpack_from("<QI", data)
        body, (of_body,) = data[12 : 12 + length], struct.unpack_from("<I", data, 12 + length)
        data = data[16 + length :]
        assert (of_length, of_body) == (masked(struct.pack("<Q", length)), masked(body))
        events.append(EVENT.FromString(body))
    assert events[0].file_version == "brain.Event:2"
    return [
        (each.wall_time, each.step, {one.tag: one.simple_value for one in each.summary.value})
        for each in events[1:]
    ]


def test_an_event_file_has_every_scalar_with_its_time_and_step():
    events = [
        ScalarEvent(T, 0, {"loss": 2.5, "system/chip/duty_cycle_percent/0": 83.0}),
        ScalarEvent(T + 10.5, 2**40, {"loss": -0.5, "é": 2.0**34}),
        ScalarEvent(T + 20, -1, {"too_large": 1e300}),
    ]
    assert read_events(event_file(events, T)) == [
        *map(tuple, events[:2]), (T + 20, -1, {"too_large": float("inf")}),
    ]  # fmt: skip


def test_a_step_lasts_until_the_next_one_is_told():
    told = [{"host.load_1m": 1.0}, {"program.step": 5.0}, {"host.load_1m": 2.0}]
    samples = [Sample(T + 10 * index, values) for index, values in enumerate(told)]
    assert [each.step for each in events_of(samples)] == [0, 5, 5]
    without = [Sample(T, {"chip.held": 1.0}), Sample(T + 10.4, {"chip.held": 1.0})]
    assert [each.step for each in events_of(without)] == [0, 10]


def run(*times: int, step: bool = True) -> list[WorkerSamples]:
    values = {"program.step": 1.0} if step else {"chip.held": 1.0}
    return [WorkerSamples(1, 0, [Sample(T + time_s, values) for time_s in times])]


def times_of(store) -> list[list[int]]:
    """The times of the samples in each file."""
    keys = [entry.key for entry in store.list("a1/w0/")]
    assert all(FILE.fullmatch(key.rpartition("/")[2]) for key in keys)
    return [[int(each[0] - T) for each in read_events(store.get_range(key))] for key in keys]


def test_a_second_call_adds_what_is_new_and_replaces_what_has_changed(tmp_path):
    store = open_store(str(tmp_path))
    assert write_runs(store, run(0, 10, step=False)) == (1, 2)
    assert write_runs(store, run(0, 10)) == (1, 2)  # only now it has steps
    assert write_runs(store, run(0, 10, 20)) == (1, 1)
    assert write_runs(store, run(0, 10, 20)) == (1, 0)
    assert times_of(store) == [[0, 10], [20]]
    assert write_runs(store, run(0, 10, 15, 20)) == (1, 2)  # one came late
    assert times_of(store) == [[0, 10], [15, 20]]
    assert write_runs(store, run(0, 5, 10, 15, 20)) == (1, 5)
    assert times_of(store) == [[0, 5, 10, 15, 20]]
