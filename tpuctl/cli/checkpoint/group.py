"""`tpuctl checkpoint ...`: what was saved, whether it is whole, and how often to save."""

from tpuctl.cli.checkpoint import advise, describe, list, pin, prune, pull, seal, verify
from tpuctl.cli.shell.options import Noun

app = Noun("List, verify, copy and prune checkpoints, tpuctl's and others'.")

app.verb("list")(list.list_checkpoints)
app.verb("describe")(describe.describe)
app.verb("verify")(verify.verify)
app.verb("pull")(pull.pull)
app.verb("prune")(prune.prune)
app.verb("pin")(pin.pin)
app.verb("seal")(seal.seal)
app.verb("advise")(advise.advise)
