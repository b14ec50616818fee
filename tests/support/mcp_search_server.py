"""An MCP server with search tools, made with the package's own server; on standard input and output, or HTTP."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer

server = MCPServer("library")


def _record() -> None:
    with Path(os.environ.get("MCP_STARTS", os.devnull)).open("a") as file:
        file.write(f"{os.getpid()}\n")


@server.tool()
def find(query: str, limit: int = 3) -> list[dict[str, Any]]:
    """Search the library."""
    if query == "broken":
        raise ValueError(f"no index {os.environ.get('LIBRARY_KEY')}")
    if query == "die":
        os._exit(3)
    if query == "hang":
        time.sleep(60)
    if query == "huge":
        return [{"name": "", "body": "x" * 6_000_000}]
    key = os.environ.get("LIBRARY_KEY", "")
    text = f"on {query}, key {bool(key)}"
    return [{"name": f"Book {n}", "body": text, "href": f"https://a.example/{n}"} for n in range(limit)]


@server.tool(structured_output=False)
def find_text(query: str) -> str:
    """Search the library; the results are text."""
    return f"Book 1: on {query}"


@server.tool(structured_output=False)
def find_json(query: str) -> str:
    """Search the library; the results are JSON in a text."""
    return json.dumps({"hits": [{"body": f"on {query}"}]})


if __name__ == "__main__":
    _record()
    if sys.argv[1:]:
        server.run(transport="streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run()
