"""`tpuctl checkpoint ...`: what was saved, whether it is whole, and how often to save."""

from tpuctl.cli.shell.options import Noun
from tpuctl.cli.shell.tables.list_verb import ListVerb

app = Noun("List, verify, copy and prune checkpoints.")

app.verb_in("list", "checkpoint.list:list_checkpoints", ListVerb)
app.verb_in("push", "checkpoint.copy:push")
for verb in ("describe", "verify", "pull", "copy", "prune", "pin", "seal", "advise"):
    app.verb_in(verb, f"checkpoint.{verb}:{verb}")
