"""List the debate protocols, print one or a prompt of it, or copy one to change its prompts."""

from pathlib import Path
from typing import Annotated

import typer

from madke._util.terminal import say, say_json, say_table, say_wrapped
from madke.cli import flags
from madke.core.errors import UserError
from madke.engine.variant import Variant, copy_variant, load_variant, read_protocol, variant_folders
from madke.engine.wording import copy_words
from madke.report.protocol_text import calls_range, protocol_text, sample_prompt
from madke.runs.spec import variant_of

app = typer.Typer(help=__doc__)

_Name = Annotated[str, typer.Argument(metavar="NAME", help="Protocol.")]
_Shown = Annotated[str, typer.Argument(metavar="NAME", help="Protocol, or module:function of your own.")]


@app.callback(invoke_without_command=True)
def _list(
    context: typer.Context,
    prompts: flags.PromptsOption = None,
) -> None:
    """List the debate protocols and the paper or code that each follows. `show NAME` prints one."""
    if (verb := context.invoked_subcommand) is not None:
        if prompts is not None:
            raise UserError(f"--prompts before {verb} applies to the list; put it after the verb")
        return

    # Templates are checked in the user's folder only: to check those that ship takes seconds.
    protocols = {
        name: load_variant(name, prompts).protocol if folder.parent == prompts else read_protocol(folder)
        for name, folder in variant_folders(prompts).items()
    }
    rows = [(name, calls_range(protocol), protocol.source) for name, protocol in protocols.items()]
    say_table(("protocol", "calls", "source"), rows)
    say_wrapped(
        "A vote that costs as much has as many samples as the debate has calls: --protocol self-consistency --set "
        "debaters=CALLS, over the same --sources. docs/compare.md says which protocol is for what."
    )


@app.command()
def show(
    name: _Shown,
    prompts: flags.PromptsOption = None,
    wording: flags.WordingOption = None,
    settings: flags.SettingsOption = None,
) -> None:
    """Print a protocol: its source and notes, settings, calls per question, and the template of each stage."""
    say_wrapped(protocol_text(_variant(name, prompts, wording, settings)))


@app.command()
def prompt(
    name: _Shown,
    stage: Annotated[str, typer.Argument(metavar="STAGE", help="Stage, such as select, speak, reply or judge.")],
    prompts: flags.PromptsOption = None,
    wording: flags.WordingOption = None,
    settings: flags.SettingsOption = None,
    as_json: Annotated[bool, flags.switch("--json", "Print a JSON object: the call's purpose and messages.")] = False,
) -> None:
    """Print the first prompt of a stage in a sample debate, with placeholders for passages and replies."""
    request = sample_prompt(_variant(name, prompts, wording, settings), stage)
    purpose = request.purpose
    if as_json:
        messages = [{"role": message.role, "content": message.content} for message in request.messages]
        query = {"protocol": name, "stage": stage, "agent": purpose.agent, "round": purpose.round}
        say_json({**query, "messages": messages})
        return
    say(f"{purpose.agent}: {stage}, round {purpose.round}")
    for message in request.messages:
        say(f"\n--- {message.role}\n{message.content}")


def _variant(name: str, prompts: Path | None, wording: str | None, settings: list[str] | None) -> "Variant":
    return variant_of(name, prompts, wording).with_settings(flags.settings_of(settings))


@app.command()
def copy(
    name: _Name,
    to: Annotated[Path, typer.Argument(metavar="DIR|FILE", help="Folder for your protocols, or a new file NAME.yaml.")],
    prompts: flags.PromptsOption = None,
) -> None:
    """Copy a protocol to DIR/PROTOCOL for --prompts DIR, or the structure of its paper's prompts to FILE for --wording.

    A comment in each template names the values that it gets. FILE names the printed prompt of each stage.
    """
    if to.suffix == ".yaml":
        copy_words(name, to)
        say(f"the prompts of {name} are in {to}; use them with --wording {to}")
        return
    written = copy_variant(load_variant(name, prompts), to / name)
    say(f"{len(written)} files in {to / name}; use them with --prompts {to}")
