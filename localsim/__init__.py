"""localsim: Cloud TPU and Cloud Storage in a box, at the wire, offline."""
