"""Settings of a web search, and which links they let through."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from madke.knowledge.serper import SerperOptions

LABELS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
DOMAINS = st.lists(LABELS, min_size=2, max_size=4).map(".".join).filter(lambda domain: not domain.startswith("www."))
SHOUTED = st.sampled_from([str.lower, str.upper, str.title])
REST = st.sampled_from(["", "/", ":8080/a", "/a?b=c#d", "./x"])
SCHEMES = st.sampled_from(["https://", "http://", "//", "HTTP://", "https://user:word@"])


def options(**values: Any) -> SerperOptions:
    return SerperOptions.model_validate(values)


@settings(deadline=None)
@given(domain=DOMAINS, below=st.lists(LABELS, max_size=3), scheme=SCHEMES, rest=REST, said=SHOUTED, excluded=SHOUTED)
def test_a_domain_is_left_out_with_all_below_it(
    domain: Any, below: Any, scheme: Any, rest: Any, said: Any, excluded: Any
) -> None:
    link = scheme + said(".".join([*below, domain])) + rest

    assert not options(exclude=[excluded(domain)]).allows([link])
    assert not options(exclude=["other.example", "www." + domain]).allows([link])


@settings(deadline=None)
@given(domain=DOMAINS, prefix=LABELS, other=DOMAINS, scheme=SCHEMES, rest=REST)
def test_nothing_else_is_left_out(domain: Any, prefix: Any, other: Any, scheme: Any, rest: Any) -> None:
    excludes = options(exclude=[domain])

    assert excludes.allows([scheme + prefix + domain + rest])
    assert excludes.allows([f"{scheme}{domain}.{prefix}" + rest]) or f"{domain}.{prefix}".endswith("." + domain)
    assert excludes.allows([scheme + other + rest]) == (other != domain and not other.endswith("." + domain))
    assert excludes.allows([f"https://{prefix}.example/?from=https://{domain}/"]) or domain == f"{prefix}.example"


@settings(deadline=None)
@given(link=st.text())
def test_any_text_can_be_judged(link: Any) -> None:
    assert options().allows([link])
    assert options(exclude=["a.example"]).allows([link]) in (True, False)


@pytest.mark.parametrize(
    "link",
    ["", "quiz.example/17", "mailto:a@b.example", "https://[::1", "https://localhost/", "https://quiz%2eexample/"],
)
def test_a_link_that_cannot_be_read_is_left_out_where_domains_are(link: str) -> None:
    assert not options(exclude=["a.example"]).allows([link])
    assert options().allows([link])


@pytest.mark.parametrize(
    ("domain", "link"),
    [
        ("b\u00fccher.example", "https://xn--bcher-kva.example/"),
        ("xn--bcher-kva.example", "https://B\u00dcCHER.example/"),
        ("quiz.example", "https:\\\\quiz.example\\17"),
        ("quiz.example", "https://quiz.example\\@other.example/"),
        ("quiz.example", "https://quiz.example./17"),
    ],
)
def test_other_spellings_of_a_domain_are_known(domain: str, link: str) -> None:
    assert not options(exclude=[domain]).allows([link])


def test_every_link_of_a_text_counts() -> None:
    excludes = options(exclude=["a.example"])

    assert not excludes.allows(["https://b.example/", "https://a.example/"])
    assert not excludes.allows([])
    assert excludes.allows(["https://b.example/", "https://c.example/"])


@pytest.mark.parametrize(
    ("k", "exclude", "asked"),
    [
        (5, (), 10),
        (5, ("a.example",), 10),
        (8, ("a.example",), 10),
        (9, ("a.example",), 20),
        (11, (), 20),
        (500, (), 100),
    ],
)
def test_tens_are_asked_for_with_some_to_spare_where_domains_are_left_out(
    k: int, exclude: tuple[str, ...], asked: int
) -> None:
    assert options(exclude=exclude).parameters("q", k) == {"q": "q", "num": asked}


def test_the_range_of_dates_may_be_open() -> None:
    assert options(after="2020-01-31").parameters("q", 5)["tbs"] == "cdr:1,cd_min:1/31/2020"
    assert options(before="2020-01-31").parameters("q", 5)["tbs"] == "cdr:1,cd_max:1/31/2020"


def test_the_paper_s_settings_are_the_defaults_and_go_unsaid() -> None:
    paper = options()

    assert (paper.organic, paper.answer_box, paper.knowledge_graph) == (True, False, False)
    assert paper.changed == ""
    assert options(cache_days=3).changed == ""


def test_what_changes_results_is_said() -> None:
    said = options(answer_box=True, after="2020-01-31", exclude=["WWW.b.example", "a.example", "b.example"])

    assert said.changed == 'answer_box=true, after="2020-01-31", exclude=["a.example", "b.example"]'


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"organic": False}, "all off; expected at least one"),
        ({"after": "2021-01-01", "before": "2020-01-01"}, "later than before"),
        ({"after": 2020}, "expected a day such as 2021-01-31, found 2020"),
        ({"country": "usa"}, "country"),
        ({"country": False}, "country"),
        ({"language": "English"}, "language"),
        ({"results": 0}, "results"),
        ({"results": 101}, "results"),
        ({"results": True}, "results"),
        ({"cache_days": -1}, "cache_days"),
        ({"cache_days": "inf"}, "cache_days"),
        ({"answerbox": True}, "answerbox"),
        ({"exclude": "a.example"}, "exclude"),
        *(
            ({"exclude": [wrong]}, f"expected a domain such as example.org, found {wrong!r}")
            for wrong in ("", "example", "https://a.example", "a.example/b", "a b.example", "*.a.example", ".", "a..b")
        ),
    ],
)
def test_wrong_settings_are_refused(values: Any, message: Any) -> None:
    with pytest.raises(ValidationError) as error:
        SerperOptions.model_validate(values)

    assert message in str(error.value)
