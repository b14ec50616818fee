"""What of a page's markup is prose."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from madke.retrieval.wikitext import plain_text

ARTICLE = """{{Short description|Lake in Siberia}}
{{Infobox body of water
| name = Lake Baikal {{small|(old)}}
| depth = {{convert|1642|m}}<ref>{{cite book |title=Depths}}</ref>
}}
[[File:Baikal.jpg|thumb|A [[map]] of {{lang|ru|Байкал}} and [https://x.example its shore]]]
'''Lake ''Baikal''''' ({{lang-ru|Озеро Байкал}}, {{IPA|ru|bajkal}}) is a [[rift lake]] in [[Russia|the Russian \
''Federation'']].<ref name="a" /> It is {{convert|1642|m|ft|0}} deep{{efn|A note<ref>and its source</ref>.}} and \
{{nowrap|{{cvt|48|to|79|km}}}} wide.<!-- check -->

== Name ==
R&amp;D calls it H<sub>2</sub>O&nbsp;No.&#x31;;<br />see [https://baikal.example the site]{{citation needed|date=May}}.
* [[One]] item
# numbered
; term
: indented
{| class="wikitable"
|-
| a || {{small|never closed
|}
After the table<math>x^2 < y</math>, the text goes on; i < n and m > k, [0, 1) too. __NOTOC__
<gallery>
File:A.jpg|A picture
</gallery>
----
[[Category:Lakes]]
[[de:Baikalsee]]
[[:Category:Seas|Seas]] and [[wikt:lake|lake]]s stay, <nowiki>[[as written]] ''here''</nowiki>.
"""


def test_an_article_keeps_its_prose_and_nothing_else() -> None:
    assert plain_text(ARTICLE).split("\n") == [
        "Lake Baikal (Озеро Байкал) is a rift lake in the Russian Federation. It is 1642 m deep and 48 to 79 km wide.",
        "R&D calls it H2O No.1; see the site.",
        "After the table, the text goes on; i < n and m > k, [0, 1) too.",
        "Seas and lakes stay, [[as written]] ''here''.",
    ]


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        # Templates that belong to the sentence are written out.
        ("{{convert|5|km|mi}}", "5 km"),
        ("{{lang|de|[[Haus|das Haus]]|italic=no}}", "das Haus"),
        ("{{circa|1900}} {{snd}} {{USS|Enterprise|CV-6}}", "c. 1900 \N{EN DASH} USS Enterprise"),
        ("{{blockquote|text=Well said.|author=X}}", "Well said."),
        ("{{unknown|words}}", ""),
        ("{{lang|de|{{nowrap|a {{unknown}} b}}}}", ""),
        # A mark without its partner swallows no text.
        ("before {{cite|x [[a]]\n\nafter", "before cite|x a\nafter"),
        ("before <ref>note\n== H ==\nafter</ref> end", "before note\nafter end"),
        ("{{Infobox\n| a = b\n\nText {{efn|x}} goes on.\n== H ==\nafter }} end", "Infobox\nText goes on.\nafter end"),
        ("a }} b ]] c </ref> d |} e", "a b c d |} e"),
        ("one <ref>first<ref>second</ref> two", "one first two"),
        ("a <nowiki>b [[c", "a b c"),
    ],
)
def test_markup_becomes_text(markup: str, text: str) -> None:
    assert plain_text(markup) == text


MARKS = ["\n", " ", "http://x ", "== H ==", "<ref", "&", ";", "(", "File:", "a", "é", "{{lang|"]
MARKS += ["{{", "}}", "[[", "]]", "[", "]", "{|", "|}", "|", "=", "<ref>", "</ref>", "<b>", "<!--", "-->"]
MARKS += ["''", "'''", "<nowiki>", "</nowiki>", "&amp;"]


@given(st.lists(st.sampled_from(MARKS), max_size=60).map("".join))
def test_any_markup_gives_clean_lines(markup: str) -> None:
    for line in plain_text(markup).split("\n"):
        assert line == " ".join(line.split())


OPEN = ["{|\n", "[https://x ", "{{a|\n", "{{ ", "\n=", "{{<ref>[["]
OPEN += ["{{", "[[", "[", "<ref", "<ref>", "<b>", "[[a|", "{{lang|", "<!--", "<nowiki>", "(", "__A", "=", "''", "&"]


@pytest.mark.slow
@pytest.mark.parametrize("piece", OPEN)
def test_open_marks_without_end_take_linear_time(piece: str) -> None:
    text = piece * (50_000 // len(piece)) + "}}]]</ref>|}\n" * 5_000

    started = time.process_time()
    plain_text(text)

    assert time.process_time() - started < 2  # most take a tenth of that; anything quadratic takes far more
