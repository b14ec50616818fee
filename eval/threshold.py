"""How many debaters of the other opinion turn a debate: the threshold experiment of Zhang et al. (MADC, RQ3).

    python eval/threshold.py QUESTIONS --model openai/NAME --out DIR --plan
    python eval/threshold.py QUESTIONS --model openai/NAME --out DIR

Each question is answered 400 times (``cot``, one agent). From these stances 40 right and 40 wrong ones are drawn and
put into three orders: the right ones first, then the wrong ones added one by one; the wrong ones first; alternating,
beginning with a right one. For every k from 1 to 80 the first k of an order are the given first round of a debate, in
which 10 debaters read them in that order and answer once each. All of it is done with 5 draws. What comes out is the
share of right replies by k, and where it crosses one half.

The first form says what it would cost, and starts nothing. The second form goes on where it was stopped: calls are
kept in DIR/calls.sqlite. It leaves DIR/curve.csv, DIR/curve.txt and, where matplotlib is installed, DIR/curve.png; the
stances are an ordinary run in DIR/stances. Stances that are there already, from another run or a file of ``{"id",
"stances": [{"agent", "text", "answer"?}]}`` lines, are named with --stances. A question with fewer than 40 right or 40
wrong stances is left out, and said so. Exit status: 0, or 1 if calls failed, 2 for bad input, 130 if interrupted.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from threshold_curve import Cell, Curve, as_csv, as_text, curves

from madke._util.concurrency import gather
from madke._util.files import atomic_write
from madke._util.terminal import printable
from madke.cli.progress import counter
from madke.core.chat import ChatRequest, Completion
from madke.core.errors import UserError
from madke.core.question import Question
from madke.core.transcript import Stance, Turn
from madke.data import read_dataset, read_first_rounds
from madke.data.stance_draw import ORDERS, DrawnOrder, Sampled, sort_out
from madke.endpoints.prices import estimated_usage
from madke.engine.debate import hold_debate
from madke.engine.scene import Cast, Scene
from madke.llm import CallStore, Limits, close
from madke.llm.call_key import call_key
from madke.runs.cast import open_models
from madke.runs.directory import read_transcripts
from madke.runs.guard import Guard
from madke.tasks import get_task
from madke.variants import Variant, load_variant
from madke.variants.load import setting

SAMPLING = {"marker": "parentheses"}
"""How ``cot`` is changed to sample stances: they end as the replies will."""

READING = {"first_round_given": True, "order": "fixed", "sees.own": "none", "overflow": "drop"}
"""How ``madc`` is changed: its debaters read what is given, in that order, and had no stance of their own before."""

STANCE_CHARACTERS = 1000
"""How long a stance is taken to be where none has been sampled yet."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Experiment:
    """How stances are drawn and read."""

    variant: Variant
    """Its debaters read the stances and answer once each."""
    cast: Cast
    each: int
    draws: int
    seed: int

    async def run(
        self, questions: Sequence[Sampled], cells: list[Cell], show: Callable[[int], None], *, workers: int
    ) -> None:
        """Play every debate; what came of it is added to ``cells`` as soon as it is there, and sorted in the end.

        ``show`` gets their number after each.
        """

        def jobs() -> Iterator[tuple[Sampled, int, DrawnOrder]]:
            for sampled in questions:
                for draw in range(self.draws):
                    for order in ORDERS:
                        yield sampled, draw, order

        # One iterator shared by all workers. Within an order k rises: a server's prefix cache knows all but the last.
        left = jobs()

        async def work() -> None:
            for sampled, draw, order in left:
                stances = sampled.drawn(order, self.each, draw, self.seed)
                for k in range(1, len(stances) + 1):
                    cells.append(await self._cell(sampled.question, order, stances[:k], draw))
                    show(len(cells))

        await gather(work() for _ in range(workers))
        ids, orders = [sampled.question.id for sampled in questions], list(ORDERS)
        cells.sort(key=lambda cell: (ids.index(cell.question), orders.index(cell.order), cell.draw, cell.k))

    async def _cell(self, question: Question, order: str, stances: Sequence[Stance], draw: int) -> Cell:
        task = get_task(question.task)
        transcript = await hold_debate(
            Scene(
                question,
                self.variant.protocol,
                self.cast,
                task=task,
                prompts=self.variant,
                repeat=draw,
                seed=self.seed,
                # A name says where a stance stands, and nothing else.
                first_round=[Turn(agent=f"Agent {n}", stance=stance) for n, stance in enumerate(stances, start=1)],
            )
        )
        said = [turn.stance for turn in transcript.rounds[-1].turns]
        heard = [stance for stance in said if stance.status != "failed"]
        return Cell(
            question=question.id,
            order=order,
            k=len(stances),
            draw=draw,
            right=sum(s.answer is not None and task.accepts(s.answer, question) for s in heard),
            replies=len(heard),
            unread=sum(stance.answer is None for stance in heard),
            failed=len(said) - len(heard),
            cut=sum(stance.truncated is not None for stance in heard),
        )


@dataclass(kw_only=True, slots=True)
class Counting:
    """A model that says nothing, and counts what it is asked; what the call store would know is asked once."""

    name: str = "counting"
    tokens: dict[str, int] = field(default_factory=dict)
    """Key of a call -> tokens of its prompt."""

    @property
    def calls(self) -> int:
        """How many different ones there were."""
        return len(self.tokens)

    async def complete(self, request: ChatRequest) -> Completion:
        """Count a request."""
        self.tokens[call_key(self.name, request)] = estimated_usage(request.messages, "").prompt_tokens
        return Completion()

    def budget(self, times: int, characters: float) -> str:
        """What was asked, so many times over, with replies of so many characters."""
        calls, read = self.calls * times, sum(self.tokens.values()) * times
        return f"{calls:,} calls, about {read:,} prompt and {calls * characters / 4:,.0f} completion tokens"


async def plan(questions: Sequence[Question], arguments: argparse.Namespace) -> str:
    """What the experiment costs, found out by playing it with a model that only counts."""
    lines, counting = [], Counting()
    stances = read_stances(arguments, questions)
    complete = arguments.stances is not None
    if not complete:
        variant = load_variant("cot").with_settings({**SAMPLING, **settings(arguments)})
        for question in questions:
            task = get_task(question.task)
            await hold_debate(Scene(question, variant.protocol, {"Answerer": counting}, task=task, prompts=variant))
        done = sum(map(len, stances.values()))
        complete = done >= counting.calls * arguments.samples
        lines.append(f"sampling: {counting.budget(arguments.samples, STANCE_CHARACTERS)}; {done:,} calls are done")
    if complete:
        sampled = sort_all_out(questions, stances, arguments.each)
    else:
        # No two are alike: only debates of the same stances are the same.
        right, wrong = (
            tuple(Stance(text=f"{kind} {n} ".ljust(STANCE_CHARACTERS, "x")) for n in range(arguments.each))
            for kind in ("right", "wrong")
        )
        sampled = [Sampled(question=question, right=right, wrong=wrong) for question in questions]
    texts = [len(stance.text) for entry in sampled for stance in (*entry.right, *entry.wrong)]
    length = sum(texts) / len(texts)
    # The other draws and debaters ask for as much.
    counting = Counting()
    variant = reading_variant(arguments, debaters=1)
    experiment = Experiment(
        variant=variant, cast={"Debater 1": counting}, each=arguments.each, draws=1, seed=arguments.seed
    )
    await experiment.run(sampled, [], lambda done: None, workers=1)
    lines.append(f"debates: {counting.budget(arguments.draws * arguments.replies, length)}")
    having = "have on average" if complete else "are taken to have"
    lines.append(f"stances and replies {having} {length:,.0f} characters; four characters are taken for a token")
    return "\n".join(lines)


def sample(arguments: argparse.Namespace) -> None:
    """Sample stances with ``madke run``, which goes on where it was stopped."""
    command = ["run", arguments.questions, "--protocol", "cot", "--repeats", arguments.samples]
    command += ["--model", arguments.model, "--seed", arguments.seed, "--concurrency", arguments.concurrency]
    command += ["--out", arguments.out / "stances"]
    for name, value in (("--base-url", arguments.base_url), ("--task", arguments.task)):
        command += [name, value] if value is not None else []
    for text in (*(f"{path}={value}" for path, value in SAMPLING.items()), *arguments.set):
        command += ["--set", text]
    words = [str(word) for word in command]
    print(f"$ madke {' '.join(words)}", file=sys.stderr, flush=True)
    status = subprocess.run([sys.executable, "-m", "madke", *words], stdout=subprocess.DEVNULL).returncode
    if status not in (0, 1):  # 1: some calls failed; what was sampled is still there
        sys.exit(status)


def read_stances(arguments: argparse.Namespace, questions: Sequence[Question]) -> dict[str, list[Stance]]:
    """Question id -> stances: those of a file, or the first round of every repeat of a run. Empty before sampling."""
    path: Path = arguments.stances or arguments.out / "stances"
    if path.is_file():
        given = read_first_rounds(path, questions, reading_variant(arguments, debaters=1).protocol)
        return {question.id: [turn.stance for turn in given.of(question.id, 0)] for question in questions}
    found: dict[str, list[Stance]] = {question.id: [] for question in questions}
    if arguments.stances is not None or (path / "transcripts.jsonl").exists():
        for transcript in read_transcripts(path):
            if transcript.id in found:
                found[transcript.id] += [replace(turn.stance, truncated=None) for turn in transcript.rounds[0].turns]
    return found


def sort_all_out(questions: Sequence[Question], stances: Mapping[str, Sequence[Stance]], each: int) -> list[Sampled]:
    """The questions that have enough stances of each kind; the others are named on stderr.

    Raises:
        UserError: There is none.
    """
    sampled = []
    for question in questions:
        try:
            sampled.append(sort_out(question, stances[question.id], each))
        except UserError as error:
            print(error, file=sys.stderr)
    if not sampled:
        raise UserError("no question has enough stances of each kind")
    return sampled


def reading_variant(arguments: argparse.Namespace, *, debaters: int) -> Variant:
    """The debate in which given stances are read."""
    return load_variant("madc").with_settings({"debaters": debaters, **READING, **settings(arguments)})


def settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """What ``--set`` says."""
    return dict(map(setting, arguments.set))


async def experiment(sampled: Sequence[Sampled], arguments: argparse.Namespace) -> list[Cell]:
    """All debates, through the call store."""
    variant = reading_variant(arguments, debaters=arguments.replies)
    models = open_models(dict.fromkeys(variant.protocol.roles, arguments.model), base_url=arguments.base_url)
    debates = len(sampled) * arguments.draws * len(ORDERS) * 2 * arguments.each
    cells: list[Cell] = []
    with CallStore(arguments.out / "calls.sqlite") as store:
        guard = Guard(limits=Limits(arguments.concurrency), store=store)
        cast = {role: guard.model(model) for role, model in models.items()}
        played = Experiment(variant=variant, cast=cast, each=arguments.each, draws=arguments.draws, seed=arguments.seed)
        try:
            show = counter("debates")
            await played.run(
                sampled, cells, lambda done: show(done, debates), workers=-(-arguments.concurrency // arguments.replies)
            )
        finally:
            for model in set(models.values()):
                await close(model)
    return cells


def draw_curves(found: Sequence[Curve], path: Path) -> None:
    """One panel a question, as in Figure 9 of the paper."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    questions = list(dict.fromkeys(curve.question for curve in found))
    figure = Figure(figsize=(8, 3 * len(questions)), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(questions), squeeze=False)
    for question, panel in zip(questions, panels[:, 0], strict=True):
        for curve in found:
            if curve.question == question:
                panel.plot(*zip(*curve.means(), strict=True), label=curve.order.replace("_", " "))
        panel.axhline(0.5, color="grey", linewidth=0.8)
        panel.set(title=question, xlabel="stances read", ylabel="right replies", ylim=(-0.02, 1.02))
        panel.legend()
    figure.savefig(path, format="png", dpi=150)


def read_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    positive = _at_least(1)
    parser.add_argument("questions", type=Path, help="questions with gold answers, JSONL")
    parser.add_argument("--model", required=True, help="as for madke run: openai/NAME, hf/NAME, ...")
    parser.add_argument("--out", type=Path, required=True, help="a folder; the same command again goes on")
    parser.add_argument("--stances", type=Path, help="a file of stances, or a run whose first rounds are taken")
    parser.add_argument("--samples", type=positive, default=400, help="stances sampled a question (default 400)")
    parser.add_argument("--each", type=positive, default=40, help="right stances, and wrong ones (default 40)")
    parser.add_argument("--replies", type=positive, default=10, help="replies to the same stances (default 10)")
    parser.add_argument("--draws", type=positive, default=5, help="repeats with other stances (default 5)")
    parser.add_argument("--seed", type=_at_least(0), default=0, help="of draws and samples (default 0)")
    parser.add_argument("--concurrency", type=positive, default=16, help="calls under way at once (default 16)")
    parser.add_argument("--base-url", help="endpoint of an openai/ or azure/ model")
    parser.add_argument("--task", help="task of questions that name none")
    parser.add_argument(
        "--set", action="append", default=[], metavar="PATH=VALUE", help="change both protocols, e.g. temperature=1"
    )
    parser.add_argument("--plan", action="store_true", help="say what it costs, and stop")
    return parser.parse_args()


def _at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least {least}")
        return int(text)

    return number


def main() -> int:
    """Read the arguments and do what they say."""
    arguments = read_arguments()
    try:
        questions = read_dataset(arguments.questions, task=arguments.task)
        if arguments.plan:
            print(asyncio.run(plan(questions, arguments)))
            return 0
        arguments.out.mkdir(parents=True, exist_ok=True)
        if arguments.stances is None:
            sample(arguments)
        sampled = sort_all_out(questions, read_stances(arguments, questions), arguments.each)
        cells = asyncio.run(experiment(sampled, arguments))
        found = curves(cells)
        bases = {order: None if order == "alternating" else arguments.each for order in ORDERS}
        text = as_text(found, bases)
        for name, content in (("curve.csv", as_csv(found)), ("curve.txt", text)):
            with atomic_write(arguments.out / name) as file:
                file.write(content.encode())
        if find_spec("matplotlib"):
            draw_curves(found, arguments.out / "curve.png")
        print(printable(text))
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the same command again goes on from there", file=sys.stderr)
        return 130
    failed = sum(cell.failed for cell in cells)
    if failed:
        print(f"{failed} calls failed; the same command again makes them anew", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
