"""The control port: clock, faults, reset."""
