"""The log of a run on its worker: bounded files, redaction, upload."""
