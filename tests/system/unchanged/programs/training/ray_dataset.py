"""Ray Data writes a Parquet data set to a bucket and reads it again: ray_dataset.py gs://BUCKET/SET."""

import sys

import ray

ROWS = 10_000
ray.init(log_to_driver=False)
ray.data.DataContext.get_current().enable_progress_bars = False
rows = ray.data.range(ROWS, override_num_blocks=4)
rows.map_batches(lambda batch: {"square": batch["id"] ** 2}).write_parquet(sys.argv[1])
found = ray.data.read_parquet(sys.argv[1])
is_equal = found.sum("square") == sum(number**2 for number in range(ROWS))
print(f"{found.count()} rows over {len(ray.nodes())} hosts, {'equal' if is_equal else 'not equal'}")
