"""The page of the papers' printed prompts: what ``--wording paper`` sends, and what still differs, stage by stage."""

from __future__ import annotations

from madke.engine.wording import PAPER, Wording, read_wordings

_HEAD = """# Printed prompts

Papers print their prompts, and their sentences cannot be shipped. Everything else about them can: what stands where, who is
shown first, which role speaks, which examples and which form of an answer. `--wording paper` asks in that structure, in
words of madke's own; a file of yours puts in the printed words.

```bash
madke protocols prompt madke-reference judge --wording paper
madke ask "Which lake is the deepest?" -p mad --wording paper
madke protocols copy madke-reference printed.yaml
madke protocols prompt madke-reference judge --wording printed.yaml
```

The third command writes one file with all prompts of a protocol; each names the printed prompt that it stands for. Put
the printed sentences in their place. The values are those of templates (`prompts/README.md`):

| printed | in the file |
|---|---|
| `{question}` | `{% include "question.j2" %}`, with its label and its options, or `{{ question.question }}` |
| `{knowledges}` | `{% include "passages.j2" %}` |
| `{answer_from_other_agents}` | `{% include "said.j2" %}` |
| `{your_historical_answer}`, `{agent_history_answer}` | `{% include "own_answer.j2" %}`, or `{{ own }}` |
| `{all_answers_from_agents}` | `{% include "replies.j2" %}` |
| `{example}`, `{examples}` | `{% for example in examples %}`, as in the file; or your text |

```text
madke run questions.jsonl -p madke-reference --wording printed.yaml --model openai/NAME --out runs/printed
madke ablate madke-table-2 --data hotpotqa=dev.json --pools pools.jsonl --wording printed.yaml --out tables/printed
madke ablate prompt-sensitivity --data hotpotqa=dev.json --pools pools.jsonl --out words
```

`run.json` records the wording and its hash. A recipe's arms of other protocols keep their words; an arm may name its own
(`wording: paper`, a file, or `prompts: FOLDER` with [protocols of yours](extend.md#other-words-for-a-protocol)). The last
command measures the words alone: its arms have the same questions, pools, seeds and repeats; copy the recipe to add yours. A
verdict names *own words* as a reason unless a file or folder gave all prompts of a protocol.

## One example, or none

Wang et al. ask `standard` and `cot` with one demonstration (section 4.2), and so do these protocols; `--set examples=0` sends
none. Measured both ways on Qwen2.5-Coder-Instruct (Q4_K_M) with 60 questions without passages, 12 of each of the paper's five
datasets, one call each, in percent (none → one, paired difference with its 95 % interval; *mended* and *spoiled*: answers
that became right or wrong by `match`):

| protocol | model | match, points | mended, spoiled | EM | F1 | readable |
|---|---|---|---|---|---|---|
| `standard` | 0.5B | 11.7 → 15.0 (+3.3 [-4.5, +10.9]) | 3, 1 | 11.7 → 13.3 (+1.7 [-5.4, +8.7]) | 14.9 → 17.0 (+2.1 [-3.7, +7.8]) | 100.0 → 100.0 |
| `cot` | 0.5B | 8.3 → 13.3 (+5.0 [-3.4, +13.1]) | 4, 1 | 8.3 → 10.0 (+1.7 [-6.7, +10.0]) | 11.3 → 16.4 (+5.1 [-1.1, +12.1]) | 91.7 → 98.3 |
| `standard` | 1.5B | 25.0 → 18.3 (-6.7 [-17.3, +4.4]) | 3, 7 | 20.0 → 18.3 (-1.7 [-12.1, +8.9]) | 24.5 → 20.1 (-4.4 [-14.4, +5.4]) | 100.0 → 100.0 |
| `cot` | 1.5B | 23.3 → 25.0 (+1.7 [-10.6, +13.8]) | 7, 6 | 21.7 → 21.7 (+0.0 [-11.8, +11.8]) | 23.8 → 25.8 (+2.0 [-9.2, +13.0]) | 96.7 → 96.7 |

No difference was found, and differences of ten points cannot be excluded, so the paper decides: one example is the default.
No reply repeated the example: neither its answer nor six words of its reason. The example of `standard` is the bare answer:
with reasons before it, fewer answers were exact on the 0.5B (EM 11.7 → 6.7, -5.0 [-11.8, +2.1]). Studies of madke pin
`examples: 0`.

## What still differs

With `--wording paper`, besides words. Without it, the protocol's own notes say more ([protocols](protocols.md)): the
question first and not last, the own answer first and not last, two sentences and not step by step, the roles of
appendix A, the moderator's request not to prefer a debater, SAME or DIFFERENT, and the examples.
"""  # noqa: E501


def page() -> str:
    """The text of the page."""
    parts = [_HEAD.strip()]
    told: dict[str, list[str]] = {}
    wordings = read_wordings(PAPER)
    for name, words in wordings.items():
        told.setdefault(_table(words), []).append(f"`{name}`")
    parts += [f"### {', '.join(names)}\n\n{table}" for table, names in told.items()]
    return "\n\n".join(parts) + "\n"


def _table(words: Wording) -> str:
    settings = ", ".join(f"`{name}: {value}`" for name, value in words.settings.items())
    lines = [
        f"{words.paper}.{f' Sets {settings}.' if settings else ''}\n",
        "| stage | printed | still differs |",
        "|---|---|---|",
    ]
    lines += [
        f"| `{stage}` | {each.printed} | {' '.join(each.differs.split())} |"
        for stage, each in words.prompts.items()
        if not isinstance(each, str)
    ]
    return "\n".join(lines)
