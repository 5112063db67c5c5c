"""`tpuctl bench ...`: a node is measured where no verb is named."""

from typing import Any

from tpuctl.cli.shell.options import Noun

DEFAULT_VERB = "node"


class BenchGroup(Noun):
    """The verbs of `bench`; `tpuctl bench NODE` is `tpuctl bench node NODE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the verb in front of the name of a node; verbs, help and nothing stay as they are."""
        words = [word for word in args if not word.startswith("-")]
        is_own = not words or words[0] in self.commands
        parsed: list[str] = super().parse_args(ctx, args if is_own else [DEFAULT_VERB, *args])
        return parsed


app = BenchGroup("Measure the chips of a node, or a server under load.")
app.verb_in("node", "bench.bench_node:bench_node")
app.verb_in("serve", "bench.bench_load:serve")
