"""`tpuctl plan ...`: training is planned where no verb is named."""

from typing import Any

from tpuctl.cli.shell.options import Noun
from tpuctl.cli.shell.tables.list_verb import ListVerb

DEFAULT_VERB = "train"


class PlanGroup(Noun):
    """The verbs of `plan`; `tpuctl plan --model ...` and `tpuctl plan FILE` are `plan train`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the verb in front of options and of a file; help and nothing stay as they are."""
        is_own = not args or args[0] in self.commands or args[0] in ctx.help_option_names
        parsed: list[str] = super().parse_args(ctx, args if is_own else [DEFAULT_VERB, *args])
        return parsed


app = PlanGroup(
    "Which slice a model needs: what fits, how long it takes, what it costs. "
    "Without a verb, a training run is planned."
)
app.verb_in("train", "plan.train:train", ListVerb)
app.verb_in("serve", "plan.serve_load:serve_load", ListVerb)
