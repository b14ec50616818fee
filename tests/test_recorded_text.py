"""What is measured on recorded text: the table of ``eval/judge.py``."""

from eval.judge import SHIPPED, Pair, Relation, table


def pair(id_: str, relation: Relation, *answers: str) -> Pair:
    one, two = answers
    return Pair(
        id=id_,
        place="kept",
        task="short_answer",
        question="Which lake is the deepest?",
        answers=(one, two),
        texts=(one, two),
        relation=relation,
    )


def test_a_judge_is_compared_with_the_known_relation_of_each_pair_and_of_those_that_the_matcher_leaves_to_it() -> None:
    known = [
        (pair("spelling", "same", "Lake Baikal", "Baikal"), "SAME"),
        (pair("words", "same", "Lake Baikal", "the lake in Siberia"), "They name one lake.\nSAME"),
        (pair("lakes", "different", "Lake Baikal", "Lake Chad"), "Verdict: DIFFERENT"),
        (pair("misjudged", "different", "Lake Baikal", "Tanganyika"), "SAME"),
        (pair("numbers", "different", "1642", "1653"), "DIFFERENT"),
        (pair("unread", "different", "Lake Baikal", "Lake Victoria"), "SAME or DIFFERENT"),
    ]
    replies = [{"pair": each.id, "way": SHIPPED, "reply": reply} for each, reply in known]
    found = table("small", {each.id: each for each, _ in known}, replies)
    assert "| answers, one word | report | 2 of 2 | 2 of 4 | 1 of 1 | 1 of 3 | 1 of 2 [9, 91] % |" in found
