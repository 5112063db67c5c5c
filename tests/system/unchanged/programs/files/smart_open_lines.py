"""smart_open writes and reads a compressed file of lines: smart_open_lines.py gs://BUCKET/FILE.gz."""

import sys

from smart_open import open as smart_open

with smart_open(sys.argv[1], "w") as file:
    file.writelines(f"line {number}\n" for number in range(100_000))
with smart_open(sys.argv[1]) as file:
    lines = sum(line == f"line {number}\n" for number, line in enumerate(file))
print(f"{lines} lines equal")
