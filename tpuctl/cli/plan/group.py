"""`tpuctl plan ...`: training is planned where no verb is named."""

from typing import Any

from tpuctl.cli.shell.options import Noun
from tpuctl.cli.shell.tables.list_verb import ListVerb

DEFAULT_VERB = "train"
TRACED_VERB = "program"
TRACED_OPTION = "--from-jax"


class PlanGroup(Noun):
    """The verbs of `plan`; `tpuctl plan --model ...` and `tpuctl plan FILE` are `plan train`.

    `tpuctl plan --from-jax ...` is `plan program`.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the verb in front of options and of a file; help and nothing stay as they are."""
        is_own = not args or args[0] in self.commands or args[0] in ctx.help_option_names
        is_traced = any(word.partition("=")[0] == TRACED_OPTION for word in args)
        verb = TRACED_VERB if is_traced else DEFAULT_VERB
        parsed: list[str] = super().parse_args(ctx, args if is_own else [verb, *args])
        return parsed


app = PlanGroup(
    "Which slice a model needs: what fits, how long it takes, what it costs. "
    "Without a verb, a training run is planned."
)
app.verb_in("train", "plan.train:train", ListVerb)
app.verb_in("serve", "plan.serve_load:serve_load", ListVerb)
app.verb_in("program", "plan.traced_program_view:program", ListVerb)
