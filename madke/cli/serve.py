"""``madke serve``: debates behind the API of OpenAI's chat completions, or as tools of an MCP client."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Annotated

import typer

from madke._util.assets import require
from madke._util.terminal import say
from madke.cli import flags
from madke.cli.flags import SERVER, option, switch
from madke.core.errors import UserError
from madke.runs.request import COST, RunOptions, RunRequest

_NOT_FOR_SERVERS = "batch deadline engine replay retry_degraded"
_HTTP = ("alias", "host", "port", "no_auth", "queue", "grace")
"""Options that mean nothing to a client on standard input and output."""

EPILOG = flags.epilog(
    *flags.NAMES,
    flags.SCORER,
    flags.PRICES,
    """HTTP: base URL http://127.0.0.1:8000/v1, a protocol as the model. Keys: MADKE_SERVE_KEYS, separated by
    commas. Without keys the server listens on 127.0.0.1 only; --no-auth allows other addresses. Ctrl-C or SIGTERM: no
    further debate starts, running ones finish.""",
    """--mcp: a client of the Model Context Protocol starts this command, talks to it over standard input and output,
    and ends it by closing its input. Each client process needs its own OUT. Over HTTP, MCP clients use /mcp.""",
)


@flags.request_options("serve", without=_NOT_FOR_SERVERS)
def command(
    context: typer.Context,
    out: Annotated[Path, option("Folder of the runs: what was served, and its calls.", "DIR")],
    request: RunRequest,
    options: RunOptions,
    protocols: Annotated[
        str | None, option("Protocols to serve, e.g. madke,cot. Default: all that can run.", "NAMES")
    ] = None,
    mcp: Annotated[bool, switch("--mcp", "Serve an MCP client on standard input and output, not HTTP.")] = False,
    alias: Annotated[
        list[str] | None, option("Further name of a protocol, e.g. gpt-4o=madke. Repeatable.", "NAME=PROTOCOL", SERVER)
    ] = None,
    host: Annotated[str, option("Address to listen at.", "ADDRESS", SERVER)] = "127.0.0.1",
    port: Annotated[int, option("Port; 0: a free one.", "N", SERVER, min=0, max=65535)] = 8000,
    no_auth: Annotated[bool, switch("--no-auth", "Serve other addresses than 127.0.0.1 without keys.", SERVER)] = False,
    queue: Annotated[int, option("Requests that may wait for a place.", "N", SERVER, min=0)] = 256,
    deadline: Annotated[
        float, option("Maximum seconds of a request, waiting included.", "S", COST, min=0.001)
    ] = 3600.0,
    grace: Annotated[float, option("Seconds for debates to finish at the end.", "S", SERVER, min=0)] = 30.0,
) -> None:
    """Serve debates to chat clients and programs, as OpenAI's API or by MCP. Write them to OUT, one run per protocol.

    Examples:
      madke serve --out served
      madke serve --out served -m openai/gpt-4o-mini --protocols madke,cot --max-cost 5 --prices prices.yaml
      madke serve --out ~/madke-served --mcp
    """
    require("madke serve needs", "serve", "mcp", "starlette", "uvicorn")
    from madke.serve.debates import Debates
    from madke.serve.offers import ServeOptions

    sources = {name: context.get_parameter_source(name) for name in _HTTP}
    if mcp and (named_sources := [name for name, source in sources.items() if source and source.name != "DEFAULT"]):
        raise UserError(f"--mcp serves no HTTP; leave out --{named_sources[0].replace('_', '-')}")
    keys = [] if mcp else _keys(host, no_auth=no_auth)
    aliases = dict(text.partition("=")[::2] for text in alias or ())
    if not all(map(all, aliases.items())):
        raise UserError("--alias: expected NAME=PROTOCOL, for instance --alias gpt-4o=madke")
    offered = ServeOptions(
        out=out,
        protocols=tuple(name.strip() for name in protocols.split(",")) if protocols else (),
        aliases=aliases,
        request=request,
        run=options,
        queue=queue,
        deadline=deadline,
    )
    debates = Debates(offered)
    for name, reason in debates.offers.left_out.items():
        say(f"madke: {name} is not served: {reason}", err=True)
    if mcp:
        from madke.serve.mcp import serve_stdio

        # Python would wait for the thread that reads standard input. What is paid is stored, so the process may end.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        asyncio.run(serve_stdio(debates))
        return
    from madke.cli.ask import knowledge_lines, model_line
    from madke.serve.server import create_app, listening_socket, serve

    app = create_app(debates, keys, host)
    listening = listening_socket(host, port)
    place = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"

    def tell_started() -> None:
        say(f"madke: serving {', '.join(debates.offers.variants)} at {place}/v1", err=True)
        knowledge = "; ".join(line.strip() for line in knowledge_lines(debates.offers.sources))
        say(f"{model_line({'': request.model, **request.cast})}\n{knowledge}\nPage: {place}/", err=True)

    asyncio.run(serve(app, debates, listening, grace=grace, ready=tell_started))
    say(f"served debates: {out}; score and report them: madke score {out}/*", err=True)


def _keys(host: str, *, no_auth: bool) -> list[str]:
    """The bearer keys of the environment; UserError for a server that others could use at the user's cost."""
    from madke.serve.gate import KEYS, LOCAL_HOSTS, keys_from_environment

    keys = keys_from_environment()
    if host not in LOCAL_HOSTS and not keys and not no_auth:
        raise UserError(f"--host {host}: others could ask at your cost; set {KEYS}, or pass --no-auth")
    if no_auth and keys:
        raise UserError(f"--no-auth is for servers without keys, but {KEYS} is set")
    return keys
