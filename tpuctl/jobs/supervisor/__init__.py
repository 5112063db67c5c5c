"""The process that reconciles jobs: it takes leases and runs one controller for each job."""
