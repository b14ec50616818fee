"""Normalise text into comparable words: no accents or punctuation, one spelling, singular, numbers as digits.

Units of measure, currencies, times of day and eras have one spelling each. The table is closed, and nothing is
converted: 1 km and 1000 m have different numbers.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import takewhile
from typing import NamedTuple

# Units.

_TABLE = """
millimeter millimetre mm, centimeter centimetre cm, meter metre m, kilometer kilometre km, inch inches in,
foot feet ft, yard yd, mile mi;
milligram mg, gram gramme g, kilogram kilogramme kg, ton tonne t, pound lb, ounce oz;
milliliter millilitre ml, liter litre l, gallon gal;
millisecond ms, second sec s, minute min, hour hr h, day, week wk, month, year yr, decade, century;
knot; degree deg, celsius c, fahrenheit f, kelvin; acre, hectare ha;
kilobyte kb, megabyte mb, gigabyte gb, terabyte tb; volt; watt w, kilowatt kw, megawatt mw, gigawatt gw;
hertz hz, kilohertz khz, megahertz mhz, gigahertz ghz; calorie, kilocalorie kcal; percent pct percentage %; dollar usd
"""
_DIMENSIONS = [[names.split() for names in units.split(",")] for units in _TABLE.split(";")]
UNITS = {name: names[0] for units in _DIMENSIONS for names in units for name in names}
"""Each name of a unit in the singular -> its full name in American spelling."""

SPELLINGS = {
    name: full
    for name, full in UNITS.items()
    if name.isalpha() and (len(name) > 3 or name in ("m", "mm", "cm", "km", "kg", "ft", "mi", "lb", "hr", "pct"))
}
"""The names that mean a unit in every text. The others mean one only after a number."""

SIGNS = {"$": "dollar", "\u00a3": "pound", "\u20ac": "euro", "\u00a5": "yen", "\u20b9": "rupee", "\u20bd": "ruble"}
_COUNTRIES = {
    "US": "US", "A": "Australian", "AU": "Australian", "C": "Canadian", "CA": "Canadian", "HK": "Hong Kong",
    "NZ": "New Zealand", "S": "Singapore",
}  # fmt: skip
_CODES = {
    "USD": "US dollar", "AUD": "Australian dollar", "CAD": "Canadian dollar", "HKD": "Hong Kong dollar",
    "NZD": "New Zealand dollar", "SGD": "Singapore dollar", "EUR": "euro", "GBP": "pound", "JPY": "yen", "CNY": "yuan",
    "INR": "rupee", "CHF": "franc", "RUB": "ruble",
}  # fmt: skip
_CURRENCIES = frozenset({*SIGNS.values(), "yuan", "franc", "krone", "krona", "won", "peso", "cent"})
_COUNTRY_WORDS = frozenset(word.lower() for name in _COUNTRIES.values() for word in name.split())
_MAGNITUDES = {"k": "thousand", "m": "million", "b": "billion", "t": "trillion"}
_POWERS = {"2": "square", "3": "cubic", "sq": "square", "cu": "cubic"}
RATES = {"mph": "mile per hour", "kph": "kilometer per hour", "kmh": "kilometer per hour"}
_NAMES = UNITS | RATES
_MEASURED = frozenset({*UNITS.values(), *_CURRENCIES, "am", "pm", "bc", "ad"})


def _any(names: Sequence[str]) -> str:
    return "|".join(sorted(map(re.escape, names), key=len, reverse=True))


# Short names with other meanings are units in lower case only: 5 mi, but "Detroit 5 MI"; "in" only at an end.
_ANY_CASE = [name for name in _NAMES if len(name) > 1 and name not in ("in", "mi", "ms", "ha", "usd")]
_LONE = [name for name in UNITS if name not in _ANY_CASE and name not in ("in", "c", "f", "s", "w", "usd", "%")]
_UNIT = rf"(?:(?i:{_any(_ANY_CASE)})s?|{_any(_LONE)}|L|in(?=[\"']?\W*\Z|[,;)/]| (?:tall|wide|long|high|deep|thick)\b))"
_CODE = _any(tuple(_CODES))
# After a digit, "million" or "thousand".
_NUMBERED = r"(?:(?<=\d)|(?<=llion)|(?<=usand))"
_PRICE = re.compile(
    rf"(?:(?:(?<!\w)(?P<country>{_any(tuple(_COUNTRIES))}))?(?P<sign>[{re.escape(''.join(SIGNS))}])"
    rf"|\b(?P<code>{_CODE})|\bRs\b\.?) ?"
    r"(?P<number>\d[\d,]*(?:\.\d+)?)(?:[ -]?(?P<scale>(?i:thousand|million|billion|trillion|mn|bn|tn|[kmb]))\b)?"
)
_MEASURE = re.compile(
    rf"{_NUMBERED}(?:[ -]?(?:(?P<power>(?i:sq|cu|square|cubic))\b\.? ?)?(?P<unit>{_UNIT})(?:\^?(?P<raised>[23]))?"
    rf"(?: ?/ ?(?P<per>{_UNIT}|s))?| (?P<second>s)| ?(?P<code>{_CODE}))(?!\w)"
)
_TIME = re.compile(r"(?<=\d)(?::00)? ?([ap])\.? ?m\b\.?", re.IGNORECASE)
_DEGREES = re.compile("(?i:\u00b0|\\bdeg(?:ree)?s?\\.?) ?([CFcf])\\b")
_PER_CENT = re.compile(r"\bper cents?\b", re.IGNORECASE)


def spell_units(text: str) -> str:
    """The text with units after numbers in full, and with currencies after their amounts: ``5 km/h``, ``$5m``."""
    text = _PER_CENT.sub("percent", _TIME.sub(lambda match: f" {match[1].lower()}m", text))
    text = _DEGREES.sub(lambda match: f" degree {UNITS[match[1].lower()]}", text)
    return _MEASURE.sub(_measure, _PRICE.sub(_price, text))


def _price(match: re.Match[str]) -> str:
    currency = _CODES[match["code"]] if match["code"] else SIGNS.get(match["sign"], "rupee")
    country = f"{_COUNTRIES[match['country']]} " if match["country"] else ""
    scale = f" {_MAGNITUDES[match['scale'][0].lower()]}" if match["scale"] else ""
    return f"{match['number']}{scale} {country}{currency}"


def _measure(match: re.Match[str]) -> str:
    if match["second"] or match["code"]:
        return f" {_CODES.get(match['code'], 'second')}"
    power = match["power"] or match["raised"]
    prefix = f"{_POWERS.get(power.lower(), power.lower())} " if power else ""
    per = f" per {_full(match['per'])}" if match["per"] else ""
    return f" {prefix}{_full(match['unit'])}{per}"


def _full(name: str) -> str:
    name = name.lower()
    return _NAMES.get(name) or _NAMES[name.removesuffix("s")]


Quantities = Mapping[str, frozenset[frozenset[str]]]
"""Number -> the units after it, each as a set of words such as ``{"kilometer", "per hour"}``."""


def quantities(keys: Sequence[str]) -> Quantities:
    """What the numbers in a sequence of normalised words count, as far as a known unit follows them."""
    amounts: dict[str, frozenset[frozenset[str]]] = {}
    for at, key in enumerate(keys):
        if key.lstrip("-")[:1].isdigit() and (unit := _unit_of(keys[at + 1 : at + 7])):
            amounts[key] = amounts.get(key, frozenset()) | {unit}
    return amounts


def _unit_of(keys: Sequence[str]) -> frozenset[str]:
    """The unit at the beginning of some words; empty if there is none."""
    power = keys[0] if keys and keys[0] in _POWERS.values() else ""
    after = list(keys[1:] if power else keys)
    country = list(takewhile(_COUNTRY_WORDS.__contains__, after))
    after = after[len(country) :]
    if not after or after[0] not in _MEASURED:
        return frozenset()
    unit = {f"{power} {after[0]}".strip(), *country}
    if after[0] in ("celsius", "fahrenheit"):
        unit.add("degree")
    if after[1:] and after[1] in ("celsius", "fahrenheit", "bc", "ad"):
        unit.add(after[1])
    if after[2:] and after[1] == "per" and after[2] in _MEASURED:
        unit.add(f"per {after[2]}")
    return frozenset(unit)


_DIMENSION = {names[0]: at for at, units in enumerate(_DIMENSIONS) for names in units}


def one_dimension(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether two units measure one kind of thing, such as feet and inches."""
    return any(_DIMENSION[name] in {_DIMENSION.get(each) for each in other} for name in one if name in _DIMENSION)


def conflict(one: Quantities, other: Quantities) -> bool:
    """Whether a number counts different things: 5 kg and 5 g. No unit agrees with any, ``degree`` with ``celsius``."""
    return any(
        not any(mine <= theirs or theirs <= mine for mine in one[number] for theirs in other[number])
        for number in one.keys() & other.keys()
    )


# Words.


class Word(NamedTuple):
    """One word of an answer."""

    key: str
    """The normalised form used in comparisons: ``theater`` for "Theatres", ``21`` for "twenty-first"."""
    capital: bool = False
    initials: bool = False
    """Whether it may consist of first letters: ``jrr`` in "J. R. R. Tolkien", ``nato``."""
    spelled: bool = False
    """Whether it is a number in words: "first", "twenty-one"."""

    @property
    def number(self) -> bool:
        """Whether it is a number or a decade."""
        return self.key.lstrip("-")[:1].isdigit()


def vocabulary(text: str) -> frozenset[str]:
    """The set of words in a text."""
    return frozenset(text.split())


SMALL_WORDS = vocabulary(
    "of in on at to by for from with as and is are was were be been it its his her their this that these those which "
    "who about around circa approximately roughly there usually typically normally generally possibly perhaps maybe "
    "probably either"
)
"""Words that carry no answer."""

_QUANTIFIERS = vocabulary("all every each any some no many most few both only when what where why how")

CONTRASTS = _QUANTIFIERS | vocabulary(
    "new old north south east west northern southern eastern western central upper lower left right inner outer great "
    "greater little lesser vice deputy former ex anti non pre post under over half step last early late before after "
    "minus plus more less than male female not never neither nor none cannot isnt wasnt arent werent without except"
)
"""Words that change what a phrase names, instead of describing it further."""

NO_NAMES = SMALL_WORDS | _QUANTIFIERS | vocabulary("i you we he she they me my your our do be have")
"""Words that occur in titles, but not in the name of a person."""

_SMALL = (
    "zero one/first two/second three/third four/fourth five/fifth six/sixth seven/seventh eight/eighth nine/ninth "
    "ten/tenth eleven/eleventh twelve/twelfth thirteen/thirteenth fourteen/fourteenth fifteen/fifteenth "
    "sixteen/sixteenth seventeen/seventeenth eighteen/eighteenth nineteen/nineteenth"
)
_DECADES = (
    "twenty/twentieth thirty/thirtieth forty/fortieth fifty/fiftieth sixty/sixtieth seventy/seventieth "
    "eighty/eightieth ninety/ninetieth"
)
_TENS = {form: 10 * value for value, forms in enumerate(_DECADES.split(), start=2) for form in forms.split("/")}
_VALUES = _TENS | {form: value for value, forms in enumerate(_SMALL.split()) for form in forms.split("/")}
_SCALES = {"dozen": 12, "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_FIGURE = re.compile(r"-?[\d.]+")
_NUMERALS = "I II III IV V VI VII VIII IX X XI XII XIII XIV XV XVI XVII XVIII XIX XX"
_ROMAN = {numeral: str(value) for value, numeral in enumerate(_NUMERALS.split(), start=1)}
_LETTERS = str.maketrans(
    dict(zip("\u00f8\u00d8\u0142\u0141\u0111\u0110\u00f0\u0131", "oOlLdDdi", strict=True))
    | {"\u00de": "Th", "\u00fe": "th", "\u00e6": "ae", "\u00c6": "Ae", "\u0153": "oe", "\u0152": "Oe"}
    | dict.fromkeys("\u2018\u2019\u02bc`", "'") | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-")
)  # fmt: skip
_WRITTEN = {"&": "and", "%": "percent", "$": "dollar", "\u00a3": "pound", "\u20ac": "euro", "\u00b0": "degree"}
_WRITTEN |= {"United States of America": "United States"}
# 1 642 and 1'642, unless more digits stand before or after: 10 100 1000 are three numbers.
_GROUPED = re.compile(r"(?<![\d.,'])(?<!\d )[1-9]\d{0,2}(?P<mark>[ '])\d{3}(?:(?P=mark)\d{3})*+(?!\d|(?P=mark)\d)")
_NUMBER_SIGN = re.compile(r"(?:\bno\b\.?|#|\bnumber\b) ?(?=\d)", re.IGNORECASE)
_TOKEN = re.compile(
    r"(?P<number>(?:(?<![\w)])-)?(?:\d{1,3}(?:,\d{3})++|\d{1,2}(?:,\d\d){1,5},\d{3}|\d++)(?:\.\d++)?|\.\d++)(?P<suffix>(?:st|nd|rd|th|'?s)(?![^\W\d_]))?"
    # A Roman one, five or ten ends a name; before another name it is a middle initial.
    r"|(?P<roman>\b[IVX]{2,5}\b(?!')|(?<=[a-z] )[IVX](?![\w'])(?!\.? [A-Z]))"
    r"|(?P<initials>(?:[^\W\d_]\. ?)+[^\W\d_](?![\w'.])|(?:[^\W\d_]\. ?){2,})"
    r"|(?P<letters>[^\W\d_]+(?:'[^\W\d_]+)*[+#]*)"
)
_ENDINGS = vocabulary(
    "n s an ans ian ians al ial um us a e y ism ist ic ical ion ation ing ed er or ive ous ite ish ese ly ment"
) | {""}
_SAME_WORD = SPELLINGS | {
    "saint": "st", "street": "st", "mount": "mt", "usa": "us", "doctor": "dr", "junior": "jr", "senior": "sr",
    "bce": "bc", "ce": "ad", "children": "child", "men": "man", "women": "woman", "people": "person", "grey": "gray",
    "tv": "television", "jnr": "jr", "snr": "sr", "mbps": "mbit", "theatre": "theater", "centre": "center",
    "colour": "color", "honour": "honor", "labour": "labor", "n": "and",
}  # fmt: skip


def words(text: str) -> tuple[Word, ...]:
    """The words of a text, in order, without punctuation; without articles too, unless there is nothing else."""
    text = " ".join(fold(text).split())
    for symbol, name in _WRITTEN.items():
        text = text.replace(symbol, f" {name} ")
    tokens = [word for match in _TOKEN.finditer(_NUMBER_SIGN.sub(" ", text)) if (word := _word(match)).key]
    merged = []
    for key, run in _merge_numbers([word.key for word in tokens]):
        first = tokens[run.start]
        capital = any(word.capital for word in tokens[run])
        is_spelled = not first.number and (not first.initials or key == "usa")
        spelled = not first.number and key[:1].isdigit()
        merged.append(Word(spelling(key) if is_spelled else key, capital, first.initials, spelled))
    return tuple(word for at, word in enumerate(merged) if not _is_article(merged, at)) or tuple(merged)


def fold(text: str) -> str:
    """The text with accents, ligatures and typographic marks replaced by plain characters. Case is kept."""
    if text.isascii():
        return text
    decomposed = unicodedata.normalize("NFKD", text.translate(_LETTERS))
    return "".join(character for character in decomposed if not unicodedata.combining(character)).replace("\u2044", "/")


def join_digits(text: str) -> str:
    """The text with ``1642`` for ``1 642`` and ``1'642``."""
    return _GROUPED.sub(lambda number: number[0].replace(number["mark"], ""), text)


def spelling(word: str) -> str:
    """The normalised spelling of a lower-case word: singular, American, units written out."""
    word = _SAME_WORD.get(word, word)
    if len(word) > 4 and word.endswith("ies"):
        word = word[:-3] + "y"
    elif len(word) > 4 and word.endswith(("sses", "shes", "ches", "xes", "zes")):
        word = word[:-2]
    elif len(word) > 3 and word.endswith("s") and word[-2] not in "sui":
        word = word[:-1]
    return _SAME_WORD.get(word, word)


def stems(key: str) -> frozenset[str]:
    """The stems of a word: the rest (at least four letters) before each possible ending; empty for a number."""
    ends = () if key[:1].isdigit() else range(4, len(key) + 1)
    return frozenset(key[:at] for at in ends if key[at:] in _ENDINGS)


def _is_article(words: Sequence[Word], at: int) -> bool:
    """Whether a word is an article. A capital A inside an answer or before a number is not: "Hepatitis A", "A3"."""
    word = words[at]
    is_name = word.key == "a" and word.capital and (at > 0 or (len(words) > 1 and words[1].number))
    return word.key in ("a", "an", "the") and not is_name


def _word(match: re.Match[str]) -> Word:
    text = match[0]
    if number := match["number"]:
        return Word(_digits(number.replace(",", "")) + ("s" if match["suffix"] in ("s", "'s") else ""))
    if match["roman"]:
        return Word(_ROMAN.get(text, text.lower()), capital=True)
    if match["initials"]:
        return Word("".join(c for c in text if c.isalpha()).lower(), capital=True, initials=True)
    key = text.lower().removesuffix("'s").replace("'", "")
    return Word(key, capital=text[0].isupper(), initials=len(key) <= 4 and text.isupper())


def _digits(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def _merge_numbers(keys: Sequence[str]) -> Iterator[tuple[str, slice]]:
    """Each lower-case word with its slice of ``keys``; words that spell one number are merged into digits."""
    end = 0
    while end < len(keys):
        at, word = end, keys[end]
        after = keys[at + 1] if at + 1 < len(keys) else ""
        end += 1
        if _FIGURE.fullmatch(word):
            value = Decimal(word)
        elif word in _TENS and 0 < _VALUES.get(after, 0) < 10:
            value, end = Decimal(_TENS[word] + _VALUES[after]), end + 1
        elif word in _VALUES and not (word == "second" and at and keys[at - 1][0].isdigit()):
            value = Decimal(_VALUES[word])
        else:
            value = Decimal(_SCALES.get(word, 0))
            if not value:
                yield word, slice(at, end)
                continue
        while end < len(keys) and keys[end] in _SCALES:
            value, end = value * _SCALES[keys[end]], end + 1
        yield _digits(f"{value:f}"), slice(at, end)
