"""What was watched live without a job, in a file of this user: the newest week, bounded."""

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from tpuctl import packed_samples
from tpuctl.durable_directories import make_private
from tpuctl.metrics.samples import Sample, WorkerSamples, merge
from tpuctl.packed_samples import PackedSamplesError

FILE = "metrics.sqlite"
SCHEMA = """
CREATE TABLE IF NOT EXISTS samples (
  node TEXT NOT NULL, worker INTEGER NOT NULL, time_s REAL NOT NULL, packed BLOB NOT NULL,
  PRIMARY KEY (node, worker, time_s)
) WITHOUT ROWID
"""
KEPT_S = 7 * 86400.0
MOST_ROWS = 200_000
"""About 60 MiB."""
PATIENCE_S = 5.0


class SampleHistory:
    """Samples of nodes, which are named by what the API calls them for ever."""

    def __init__(self, home: Path) -> None:
        self._path = home / FILE

    def add(self, node: str, series: Sequence[WorkerSamples]) -> None:
        """Keep samples and forget the oldest; nothing is kept where the disk takes nothing."""
        rows = [
            (node, worker_id, sample.time_s, packed_samples.pack([_row(sample)]))
            for _, worker_id, samples in series
            for sample in samples
        ]
        if not rows:
            return
        newest_s = max(row[2] for row in rows)
        with contextlib.suppress(sqlite3.OperationalError, OSError), self._open() as connection:
            connection.executemany("INSERT OR REPLACE INTO samples VALUES (?, ?, ?, ?)", rows)
            connection.execute("DELETE FROM samples WHERE time_s < ?", (newest_s - KEPT_S,))
            connection.execute(
                "DELETE FROM samples WHERE time_s < "
                "(SELECT time_s FROM samples ORDER BY time_s DESC LIMIT 1 OFFSET ?)",
                (MOST_ROWS,),
            )

    def read(self, node: str, since_s: float = 0.0) -> list[WorkerSamples]:
        """The samples of a node from a time on; what is damaged is left out."""
        found: list[WorkerSamples] = []
        with contextlib.suppress(sqlite3.OperationalError, OSError), self._open() as connection:
            rows = connection.execute(
                "SELECT worker, packed FROM samples WHERE node = ? AND time_s >= ?", (node, since_s)
            )
            for worker_id, packed in rows:
                with contextlib.suppress(PackedSamplesError):
                    samples = [Sample(**row) for row in packed_samples.unpack(packed)]
                    found.append(WorkerSamples(0, worker_id, samples))
        return merge(found)

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A transaction. Raises sqlite3.OperationalError when the file cannot be used now."""
        make_private(self._path.parent)
        with contextlib.closing(self._connect()) as connection, connection:
            yield connection

    def _connect(self) -> sqlite3.Connection:
        """A connection to the file; one that is not a database is begun again."""
        connection = sqlite3.connect(self._path, timeout=PATIENCE_S)
        try:
            connection.execute(SCHEMA)
        except sqlite3.OperationalError:
            connection.close()
            raise
        except sqlite3.DatabaseError:
            connection.close()
            self._path.unlink()
            return self._connect()
        return connection


def _row(sample: Sample) -> dict[str, object]:
    return {"time_s": sample.time_s, "values": sample.values}
