"""The commands of `agentchat replay`."""

from ops.admin.options import group
from ops.replay import feed, rebuild, show, trace, transfer, verify, what_if, why

app = group(
    "The log as it was and as it is: conversations shown and moved, read models built anew and proved. Works "
    "on the running stack, or on AGENTCHAT_DATABASE_URL."
)
app.command()(rebuild.rebuild)
app.command()(verify.verify)
app.command("what-if")(what_if.what_if)
app.command()(feed.feed)
app.command()(show.show)
app.command()(why.why)
app.command()(trace.trace)
app.command("export")(transfer.export)
app.command("import")(transfer.import_)
