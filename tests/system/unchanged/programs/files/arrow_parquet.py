"""Arrow's own file system writes and reads a partitioned data set: arrow_parquet.py gs://BUCKET/SET."""

import sys

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs

gcs, path = fs.FileSystem.from_uri(sys.argv[1])
table = pa.table({"part": [n % 4 for n in range(40_000)], "value": list(range(40_000))})
partitions = ds.partitioning(pa.schema([("part", pa.int64())]))
ds.write_dataset(table, path, filesystem=gcs, format="parquet", partitioning=partitions)
found = ds.dataset(path, filesystem=gcs, format="parquet", partitioning=partitions)
rows = found.to_table(filter=pc.field("part") == 3)
print(f"{type(gcs).__name__}: {len(found.files)} files, {rows.num_rows} rows of part 3")
assert sorted(rows["value"].to_pylist()) == list(range(3, 40_000, 4))
