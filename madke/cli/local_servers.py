"""Model servers on this machine, for the terminal: what was found, and the command that uses it."""

from madke._util.terminal import say
from madke.core.errors import count_of
from madke.models.local_servers import LocalServer, find_servers

_WIDTH = 78


def show_local_servers() -> None:
    """Say on stderr which model servers run on this machine, if any, and how to ask them."""
    for server in find_servers():
        if server.models:
            say(f"madke: {server_line(server)}. To use it:\n  {shell_lines(server.command, indent=2)}", err=True)


def server_line(server: LocalServer) -> str:
    """What answers, and what it serves."""
    whose = f"{server.program}'s port" if server.program else "port"
    place = f"a model server is on {whose} {server.port}"
    if server.needs_key:
        return f"{place}; it asks for a key"
    if not server.models:
        return f"{place}; it has no model"
    more = len(server.models) - 1
    return f"{place}: {server.models[0]}" + (f" and {count_of(more, 'more model')}" if more else "")


def shell_lines(command: str, *, indent: int = 0) -> str:
    """The command on one line, or on two that a shell joins."""
    if indent + len(command) <= _WIDTH:
        return command
    head, flag, tail = command.rpartition(" --base-url ")
    return f"{head} \\\n{' ' * (indent + 2)}{flag.strip()} {tail}"
