import pytest

from madke.engine.parse import parse_selection


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("[1][3]", (1, 3)),
        ("[1, 3]", (1, 3)),
        ("[1-3]", (1, 2, 3)),
        ("[[5, 2]]", (5, 2)),
        ("[0] and [0] again", (0,)),
        ("Knowledge [0] helps.", (0,)),
        ("[Knowledge 4]", (4,)),
        ("The most helpful are **[2]**, **[7]**.", (2, 7)),
        ("Document [3] does not mention it. Knowledge [2] does.", (2,)),
        ("[1] gives the date, but [2] is irrelevant.", (1,)),
        ("[99] and [4]", (4,)),
        ("[8-30]", (8, 9)),
        ("[[0], [3]]", (0, 3)),
        ('["0", "3"]', (0, 3)),
        ("[1], [2], and [5] are irrelevant. [3] is the one.", (3,)),
        ("Neither [1] nor [2] helps. [3] helps.", (3,)),
        ("The most helpful is [2]. Not helpful: [1], [3], [4].", (2,)),
        ("[1]: helpful\n[2]: not helpful\n[3]: helpful", (1, 3)),
        ("Document [9] states that fungal cells lack chloroplasts.", (9,)),
        ("[2] says that he was not born in Paris, which refutes the claim.", (2,)),
        ("I cannot answer without [3].", (3,)),
        ("I select knowledge 0 and 3.", (0, 3)),
        ("Knowledge 0 is helpful. Knowledge 1 is irrelevant. Knowledge 3 gives the date.", (0, 3)),
        ("I pick [0] and [5]. [1] is about something else.", (0, 5)),
        ("I would not choose [1]. [4] is better.", (4,)),
        ("[3] is about another river; [2] names the lake.", (2,)),
    ],
)
def test_reads_the_numbers_named(text: str, ids: tuple[int, ...]) -> None:
    parsed = parse_selection(text, size=10, limit=3)
    assert (parsed.value.ids, parsed.status) == (ids, "ok")


def test_too_many_numbers_give_way_to_the_concluding_sentence() -> None:
    text = "[0] is about rivers. [1] names the lake. [2] and [5] give depths. So I choose [1] and [5]."
    parsed = parse_selection(text, size=10, limit=3)
    assert (parsed.value.ids, parsed.value.dropped, parsed.rule) == ((1, 5), (0, 2), "concluding")


def test_too_many_numbers_in_one_sentence_are_cut_in_order_of_mention() -> None:
    parsed = parse_selection("I choose [6], [0], [2], [4].", size=10, limit=3)
    assert (parsed.value.ids, parsed.value.dropped, parsed.rule) == ((6, 0, 2), (4,), "first")


@pytest.mark.parametrize(
    ("text", "ids", "rule"),
    [
        ("[1] comes close, yet nothing settles it. [No Found]", (), "no_found"),
        ("At first sight [No Found]. Then again, [2] helps.", (2,), "ids"),
        ("[no found]", (), "no_found"),
        ("**[No Found.]**", (), "no_found"),
    ],
)
def test_of_ids_and_no_found_the_last_marker_wins(text: str, ids: tuple[int, ...], rule: str) -> None:
    parsed = parse_selection(text, size=10, limit=3)
    assert (parsed.value.ids, parsed.rule, parsed.status) == (ids, rule, "ok")


def test_a_concluding_sentence_that_names_too_many_is_cut() -> None:
    text = "[0] is one. [1] is one. [5] is one. Final selection: [1], [2], [4], [3]"
    assert parse_selection(text, size=10, limit=3).value.ids == (1, 2, 4)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("Selected: [0] [3]", (0, 3)),
        ("[1] and [2] are close.\n**Selected:** [0] [3]", (0, 3)),
        ("Selected: Entry 0 and entry 4", (0, 4)),
        ("[1] names the lake.\nSelected: 0, 3 and 5", (0, 3, 5)),
        ("Selection: (0), (4)", (0, 4)),
        ("My selected knowledge: 2", (2,)),
        ("Selected:\n[2]", (2,)),
        ("Both name the lake.\nEntry 0 and entry 4", (0, 4)),
        ("0, 3 and 5", (0, 3, 5)),
        ("(0), (4)", (0, 4)),
        ("Selected: [0] [1] [2] [3]", (0, 1, 2)),
        ("Selected: [1]\nOn second thoughts.\nSelected: [2]", (2,)),
    ],
)
def test_the_line_that_was_asked_for_needs_no_brackets(text: str, ids: tuple[int, ...]) -> None:
    parsed = parse_selection(text, size=10, limit=3)
    assert (parsed.value.ids, parsed.rule) == (ids, "first" if "[3]" in text and len(ids) == 3 else "selected")


@pytest.mark.parametrize(
    "text",
    [
        "Selected: [No Found]",
        "No Found",
        "[1] comes close.\nNo Found.",
        "Selected: No Found",
        "Selected: none",
        "Selected: [No Found], since none of [0] and [1] helps.",
        "No knowledge needed.",
        "I don't need knowledge.",
        "I do not need any of the passages to answer this.",
        "No passages are needed.",
    ],
)
def test_knowledge_is_declined_in_words_too(text: str) -> None:
    parsed = parse_selection(text, size=10, limit=3)
    assert (parsed.value.ids, parsed.rule, parsed.status) == ((), "no_found", "ok")


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ('It says: "The lake is very deep[1][2] and old."', ()),
        ('It says: "The lake is very deep[1][2] and old."\nSelected: [5]', (5,)),
        ("“Nairobi grew fast in 1907.[4]” supports it, so I pick [0].", (0,)),
    ],
)
def test_a_number_inside_a_quoted_passage_is_not_chosen(text: str, ids: tuple[int, ...]) -> None:
    assert parse_selection(text, size=10, limit=3).value.ids == ids


@pytest.mark.parametrize(
    "text", ["", "I need nothing.", "[99]", "number 3", "[answer]", "[1] and [2] are not relevant."]
)
def test_nothing_readable_is_no_selection(text: str) -> None:
    parsed = parse_selection(text, size=10, limit=3)
    assert (parsed.value.ids, parsed.status) == ((), "unmarked")


def test_numbers_that_were_not_shown_do_not_count_towards_the_limit() -> None:
    found = parse_selection("I pick [0], [1], [2] and [4].", size=5, limit=3, shown={3, 4})
    assert (found.value.ids, found.value.dropped) == ((4,), ())
