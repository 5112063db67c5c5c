"""What the control port can do to a simulated cloud."""

from dataclasses import asdict
from typing import Any

from localsim.server.components import BUCKET, BUCKET_PROPERTIES, PROJECT, Components
from localsim.services.control.control import ControlActions


def build_controls(parts: Components) -> ControlActions:
    """The control port's ways into the world."""
    world, objects = parts.world, parts.objects

    async def preempt(node: str, zone: str, notice_s: float | None) -> None:
        name = f"projects/{PROJECT}/locations/{zone}/nodes/{node}"
        await world.run(lambda cloud: cloud.preempt(name, notice_s))
        await world.settle()

    async def advance(seconds: float) -> float:
        world.clock.advance(seconds)
        await world.settle()
        return world.clock.now()

    async def reset() -> None:
        await world.reset()
        parts.project.metadata.clear()
        parts.project.secrets.clear()
        objects.clear()
        objects.ensure_bucket(PROJECT, BUCKET, BUCKET_PROPERTIES)

    def status() -> dict[str, Any]:
        counts = {**world.cloud.counts(), "objects": objects.count()}
        return {**counts, "unreadable": [asdict(record) for record in world.cloud.unreadable]}

    return ControlActions(
        preempt,
        advance,
        world.clock.now,
        reset,
        status,
        world.run,
        world.require_possible,
        world.settle,
    )
