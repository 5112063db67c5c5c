"""The files that predictions are made of and written to: npz, npy, csv, jsonl and parquet."""
