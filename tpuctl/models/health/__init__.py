"""What `tpuctl doctor` says about one thing."""

from tpuctl.models.health.health_check import HealthCheck, HealthState

__all__ = ["HealthCheck", "HealthState"]
