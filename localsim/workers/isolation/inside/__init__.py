"""What runs inside the simulated VPC and its workers: standard library only, started by exec."""
