"""A driver of Ray core counts chips, and has a task on each host: ray_hosts.py."""

import ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

ray.init(log_to_driver=False)
hosts = len(ray.nodes())
group = placement_group([{"CPU": 1}] * hosts, strategy="STRICT_SPREAD")
ray.get(group.ready(), timeout=60)


@ray.remote(num_cpus=1)
def node_id() -> str:
    """The host that runs it."""
    return ray.get_runtime_context().get_node_id()


places = [PlacementGroupSchedulingStrategy(group, index) for index in range(hosts)]
found = ray.get([node_id.options(scheduling_strategy=place).remote() for place in places])
resources = ray.cluster_resources()
heads = {name: value for name, value in resources.items() if name.endswith("-head")}
print(f"tasks on {len(set(found))} hosts, {resources.get('TPU', 0)} TPU, {heads}")
