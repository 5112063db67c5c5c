"""The program that runs a job on a worker; shipped there, never imported here."""
