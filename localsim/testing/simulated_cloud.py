"""A simulated cloud in the hand of a test: its clients, its clock, and what goes wrong in it."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from localsim.testing import job_runs, rehearsed_jobs
from localsim.testing.client_environment import client_environment
from localsim.testing.home_directory import KEPT, delete_entry, has_supervisor, state_directory
from localsim.testing.job_runs import JobRun
from localsim.testing.local_http import JsonConnection
from localsim.testing.rehearsed_jobs import RehearsedJob
from localsim.testing.simulated_slices import STEP_S, SimulatedSlice, SliceApi, real_pause
from localsim.testing.simulator_options import SimulatorOptions
from localsim.testing.simulator_process import RunningSimulator, run_simulator
from localsim.testing.tpuctl_command import TpuctlResult, run_tpuctl

if TYPE_CHECKING:
    from google.cloud.storage import Bucket, Client
    from google.cloud.tpu_v2 import TpuClient


class SimulatedClock:
    """The clock of a simulated cloud, in seconds since 1970."""

    def __init__(self, control: JsonConnection) -> None:
        """Use the control port of the cloud."""
        self._control = control

    def now(self) -> float:
        """The simulated time."""
        return float(self._control.send("GET", "/clock")["now_s"])

    def advance(self, seconds: float) -> float:
        """Move it ahead, wait until the cloud has followed, and return the new time."""
        return float(self._control.send("POST", "/clock", {"advance_s": seconds})["now_s"])


class SimulatedCloud:
    """A running simulator; `localsim.cloud()` makes one, the pytest fixture `cloud` is one."""

    def __init__(self, simulator: RunningSimulator, options: SimulatorOptions) -> None:
        """Take hold of a simulator that somebody else ends."""
        self.options = options
        self.home: Path = simulator.home
        """TPUCTL_HOME of its commands; its context `local` is this cloud."""
        self.endpoints: Mapping[str, Any] = simulator.endpoints
        """The line of endpoints: `storage`, `tpu_grpc`, `tpu_rest`, `project`, `zone`, …"""
        self._exits = ExitStack()
        self._control = self._connect("control", {"Authorization": f"Bearer {self._token()}"})
        self.clock = SimulatedClock(self._control)
        is_manual = options.clock == "manual"
        self._pass_time = self._advance_step if is_manual else None
        pause = self._pass_time or real_pause(self.clock.now)
        self._slices = SliceApi(self._connect("tpu_rest"), self.project, pause)
        self._numbers = itertools.count(1)
        self._bucket_client: Client | None = None

    @property
    def project(self) -> str:
        """The one project."""
        return str(self.endpoints["project"])

    @property
    def zone(self) -> str:
        """The zone that commands and methods use when none is given."""
        return str(self.endpoints["zone"])

    @property
    def environment(self) -> dict[str, str]:
        """Variables that point other programs at this cloud: Google's clients, gcloud, gcsfs, …"""
        return client_environment(self.endpoints)

    def close(self) -> None:
        """Close the clients; `localsim.cloud()` does it at the end of its block."""
        self._exits.close()

    def reset(self) -> None:
        """Delete every slice, job, object and fault, and begin the scenario again.

        The clock goes on. The clients that were given out stay usable.
        """
        if has_supervisor(self.home):
            self.tpuctl("supervisor", "stop").check()
        self._control.send("POST", "/reset", {})
        for entry in self.home.iterdir():
            if entry.name not in KEPT:
                delete_entry(entry)

    def fault(self, text: str) -> None:
        """Let something go wrong from now on: `worker train/1: hangs` (docs/scenario.md)."""
        self._control.send("POST", "/faults", {"fault": text})

    def faults(self) -> list[dict[str, Any]]:
        """What goes wrong at present: `fault` as written, `met`: how often it had an effect."""
        return list(self._control.send("GET", "/faults")["faults"])

    def clear_faults(self) -> None:
        """Let nothing go wrong any more."""
        self._control.send("DELETE", "/faults")

    def add_timeline(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """Let things happen later: entries of docs/scenario.md#timelines, with `when` and `do`."""
        self._control.send("POST", "/timeline", {"entries": list(entries)})

    def timeline(self) -> list[dict[str, Any]]:
        """Every entry of the timeline, with its `state`: `waiting`, `armed` or `done`."""
        return list(self._control.send("GET", "/timeline")["timeline"])

    def preempt(
        self, node: str | SimulatedSlice, *, zone: str | None = None, notice_s: float | None = None
    ) -> float:
        """Take a slice away after `notice_s` seconds; None draws the notice from the scenario.

        Returns the notice in simulated seconds.
        """
        name, where = (node, self.zone) if isinstance(node, str) else (node.name, node.zone)
        body = {"node": name, "zone": zone or where, "notice_s": notice_s}
        return float(self._control.send("POST", "/preempt", body)["notice_s"])

    def create_slice(
        self,
        accelerator_type: str,
        *,
        name: str | None = None,
        zone: str | None = None,
        spot: bool = False,
        runtime_version: str | None = None,
    ) -> SimulatedSlice:
        """Create a slice and wait until it is READY. Raises SimulatedCloudError.

        On a clock that stands still, time is advanced until then.
        """
        from tpuctl import catalog

        name, zone = name or f"slice-{next(self._numbers)}", zone or self.zone
        node = {
            "acceleratorType": accelerator_type,
            "runtimeVersion": runtime_version or catalog.default_runtime_version(accelerator_type),
            **({"schedulingConfig": {"spot": True}} if spot else {}),
        }
        self._slices.create(zone, name, node)
        return SimulatedSlice(name, zone, accelerator_type, self, self._slices)

    def bucket(self, name: str | None = None) -> "Bucket":
        """A new bucket; without a name, one that no other has. Its URL is `gs://{bucket.name}`."""
        if self._bucket_client is None:
            self._bucket_client = self.storage_client()
        return self._bucket_client.create_bucket(name or f"bucket-{next(self._numbers)}")

    def storage_client(self) -> "Client":
        """A client of Google's for Cloud Storage."""
        from google.auth.credentials import AnonymousCredentials
        from google.cloud.storage import Client

        client = Client(
            project=self.project,
            credentials=AnonymousCredentials(),
            client_options={"api_endpoint": self.endpoints["storage"]},
        )
        self._exits.callback(client.close)
        return client

    def tpu_client(self) -> "TpuClient":
        """A client of Google's for Cloud TPU."""
        import grpc
        from google.cloud.tpu_v2 import TpuClient
        from google.cloud.tpu_v2.services.tpu.transports import TpuGrpcTransport

        channel = self._exits.enter_context(grpc.insecure_channel(self.endpoints["tpu_grpc"]))
        return TpuClient(transport=TpuGrpcTransport(channel=channel))

    def tpuctl(
        self,
        *argv: str | Path,
        stdin: str = "",
        cwd: str | Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> TpuctlResult:
        """Run the command `tpuctl` against this cloud, in a home of its own, to its end.

        A manual clock goes ahead while the command runs, by a second 20 times a second: commands
        wait for the cloud.
        """
        return run_tpuctl(
            self.home, argv, stdin=stdin, cwd=cwd, environ=environ, pass_time=self._pass_time
        )

    def submit_job(self, file: str | Path) -> str:
        """Submit a job file and return the id of the job. Raises SimulatedCloudError."""
        return job_runs.submit_job(self, file)

    def wait_for_job(self, job_id: str, *, timeout_s: float = 600.0) -> JobRun:
        """Wait for the end of a job and return what it did. Raises SimulatedCloudError."""
        return job_runs.wait_for_job(self, job_id, timeout_s)

    def run_job(self, file: str | Path, *, timeout_s: float = 600.0) -> JobRun:
        """Submit a job file, wait for the job's end, and return what it did.

        A program that fails is no error: look at `state` and `exit_code`. Raises
        SimulatedCloudError for a file that is refused and a job that does not end in time.
        """
        return self.wait_for_job(self.submit_job(file), timeout_s=timeout_s)

    def rehearse_job(self, file: str | Path, moment: str, *, seed: int = 0) -> RehearsedJob:
        """Run a job file undisturbed, then disturbed at a moment, and say whether it came back.

        The moments are those of `tpuctl rehearse`, such as `save:middle/none`. The job runs in
        clouds of its own; this one stays as it is. Raises SimulatedCloudError.
        """
        return rehearsed_jobs.rehearse_job(self, file, moment, seed)

    def _advance_step(self) -> float:
        return self.clock.advance(STEP_S)

    def _connect(self, port: str, headers: Mapping[str, str] | None = None) -> JsonConnection:
        connection = JsonConnection(self.endpoints[port], headers)
        self._exits.callback(connection.close)
        return connection

    def _token(self) -> str:
        return (state_directory(self.home) / "control.token").read_text("ascii")


@contextmanager
def cloud(
    scenario: str | Path | Mapping[str, Any] | None = None,
    *,
    clock: Literal["real", "manual"] = "real",
    time_scale: float = 1.0,
    isolation: Literal["namespace", "process"] | None = None,
    offline: bool = False,
    python: str | Path | None = None,
) -> Iterator[SimulatedCloud]:
    """Run a simulated cloud during the block; everything of it ends with the block.

    The arguments are the fields of `SimulatorOptions`. Raises SimulatedCloudError.
    """
    options = SimulatorOptions(scenario, clock, time_scale, isolation, offline, python)
    with cloud_of(options) as running:
        yield running


@contextmanager
def cloud_of(options: SimulatorOptions) -> Iterator[SimulatedCloud]:
    """Run a simulated cloud with these options during the block. Raises SimulatedCloudError."""
    with run_simulator(options) as simulator:
        running = SimulatedCloud(simulator, options)
        try:
            yield running
        finally:
            running.close()
