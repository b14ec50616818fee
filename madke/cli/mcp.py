"""``madke mcp``: the tools ``debate`` and ``search`` for a client that starts this process."""

import asyncio
import signal

from madke._util.assets import require
from madke.cli import flags
from madke.cli.serve import NOT_FOR_SERVERS, PACKAGES, DebateDeadline, Out, Protocols, names_of, tell_left_out
from madke.runs.request import RunOptions, RunRequest

EPILOG = flags.epilog(
    *flags.NAMES,
    flags.SCORER,
    flags.PRICES,
    """Clients of the Model Context Protocol start this command and talk to it over standard input and output. It ends
    when they close its input. Each client process needs its own OUT. For clients over HTTP: /mcp of madke serve.""",
    "Examples:",
    "  madke mcp --out ~/madke-served",
    "  madke mcp --out ~/madke-served -m openai/gpt-4o-mini --protocols madke,cot",
)


@flags.request_options("serve", without=NOT_FOR_SERVERS)
def command(
    out: Out,
    request: RunRequest,
    options: RunOptions,
    protocols: Protocols = None,
    deadline: DebateDeadline = 3600.0,
) -> None:
    """Offer debates and searches to an MCP client on standard input and output. Write what was served to OUT."""
    require("madke mcp needs", "serve", *PACKAGES)
    from madke.serve.debates import Debates
    from madke.serve.mcp import serve_stdio
    from madke.serve.offers import ServeOptions

    offered = ServeOptions(out=out, protocols=names_of(protocols), request=request, run=options, deadline=deadline)
    # Python would wait for the thread that reads standard input. What is paid is stored, so the process may just end.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    debates = Debates(offered)
    tell_left_out(debates.offers)
    asyncio.run(serve_stdio(debates))
