"""`tpuctl checkpoint ...`: what was saved, whether it is whole, and how often to save."""

from tpuctl.cli.shell.options import Noun

app = Noun("List, verify, copy and prune checkpoints, tpuctl's and others'.")

app.verb_in("list", "checkpoint.list:list_checkpoints")
app.verb_in("describe", "checkpoint.describe:describe")
app.verb_in("verify", "checkpoint.verify:verify")
app.verb_in("pull", "checkpoint.pull:pull")
app.verb_in("prune", "checkpoint.prune:prune")
app.verb_in("pin", "checkpoint.pin:pin")
app.verb_in("seal", "checkpoint.seal:seal")
app.verb_in("advise", "checkpoint.advise:advise")
