"""`tpuctl checkpoint ...`: what was saved, whether it is whole, and how often to save."""

from tpuctl.cli import (
    checkpoint_advise,
    checkpoint_describe,
    checkpoint_list,
    checkpoint_pin,
    checkpoint_prune,
    checkpoint_pull,
    checkpoint_seal,
    checkpoint_verify,
)
from tpuctl.cli.options import Noun

app = Noun("List, verify, copy and prune checkpoints, tpuctl's and others'.")

app.verb("list")(checkpoint_list.list_checkpoints)
app.verb("describe")(checkpoint_describe.describe)
app.verb("verify")(checkpoint_verify.verify)
app.verb("pull")(checkpoint_pull.pull)
app.verb("prune")(checkpoint_prune.prune)
app.verb("pin")(checkpoint_pin.pin)
app.verb("seal")(checkpoint_seal.seal)
app.verb("advise")(checkpoint_advise.advise)
