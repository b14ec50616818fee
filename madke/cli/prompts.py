"""``madke prompts``: print a prompt of a protocol, or copy a protocol to change its prompts."""

from pathlib import Path
from typing import Annotated

import typer

from madke._util.terminal import say, say_json
from madke.cli import flags

app = typer.Typer(help="Print a prompt as models get it, or copy a protocol to change its prompts.")

_Name = Annotated[str, typer.Argument(metavar="PROTOCOL", help="Protocol; see `madke protocols`.")]


@app.command()
def show(
    name: _Name,
    stage: Annotated[str, typer.Argument(metavar="STAGE", help="Stage, such as select, speak, reply or judge.")],
    prompts: flags.PromptsOption = None,
    settings: flags.SettingsOption = None,
    as_json: Annotated[bool, flags.switch("--json", "Print a JSON object: the call's purpose and messages.")] = False,
) -> None:
    """Print the first prompt of a stage in a debate about a sample question. Replies in it are placeholders."""
    from madke.engine.variant import load_variant
    from madke.report.sample_prompt import sample_prompt

    variant = load_variant(name, prompts).with_settings(flags.settings_of(settings))
    request = sample_prompt(variant, stage)
    purpose = request.purpose
    if as_json:
        messages = [{"role": message.role, "content": message.content} for message in request.messages]
        asked = {"protocol": name, "stage": stage, "agent": purpose.agent, "round": purpose.round}
        say_json({**asked, "messages": messages})
        return
    say(f"{purpose.agent}: {stage}, round {purpose.round}")
    for message in request.messages:
        say(f"\n--- {message.role}\n{message.content}", verbatim=True)


@app.command()
def copy(
    name: _Name,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder for your protocols; the copy is DIR/PROTOCOL.")],
    prompts: flags.PromptsOption = None,
) -> None:
    """Copy a protocol to DIR, to be used with --prompts DIR instead of the one that ships with madke.

    A comment in each template names the prompt of the paper that it stands for, and the values that it gets.
    """
    from madke.engine.skeleton import copy_variant
    from madke.engine.variant import load_variant

    written = copy_variant(load_variant(name, prompts), folder / name)
    say(f"{len(written)} files in {folder / name}; use them with --prompts {folder}")
