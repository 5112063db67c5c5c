"""Hugging Face's datasets saves to a bucket, loads and streams from it: datasets_bucket.py gs://BUCKET/SET."""

import sys

from datasets import Dataset, load_dataset, load_from_disk

root = sys.argv[1]
rows = Dataset.from_dict({"text": [f"sentence {number}" for number in range(5_000)]})
rows.save_to_disk(f"{root}/disk", num_shards=3)
rows.to_parquet(f"{root}/parquet/train.parquet")
loaded = load_from_disk(f"{root}/disk")
streamed = load_dataset("parquet", data_files=f"{root}/parquet/*.parquet", streaming=True)
assert loaded["text"][:] == rows["text"][:]
assert next(iter(streamed["train"]))["text"] == "sentence 0"
print(f"{loaded.num_rows} rows loaded, {sum(1 for _ in streamed['train'])} rows streamed")
