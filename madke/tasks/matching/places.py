"""A place and where it lies: "Albany, New York" is Albany."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from madke.tasks.matching.words import fold

_COUNTRIES = """
afghanistan albania algeria andorra angola argentina armenia australia austria azerbaijan bahamas bahrain bangladesh
barbados belarus belgium belize benin bhutan bolivia bosnia botswana brazil brunei bulgaria burkina_faso
burma/myanmar burundi cambodia cameroon canada chad chile china colombia congo costa_rica croatia cuba cyprus
czech_republic/czechia denmark djibouti dominica dominican_republic ecuador egypt el_salvador eritrea estonia ethiopia
fiji finland france gabon gambia germany ghana greece grenada guatemala guinea guyana haiti honduras hungary iceland
india indonesia iran iraq ireland israel italy ivory_coast jamaica japan jordan kazakhstan kenya kosovo kuwait
kyrgyzstan laos latvia lebanon lesotho liberia libya liechtenstein lithuania luxembourg macedonia/north_macedonia
madagascar malawi malaysia maldives mali malta mauritania mauritius mexico moldova monaco mongolia montenegro morocco
mozambique namibia nepal netherlands new_zealand nicaragua niger nigeria north_korea norway oman pakistan palestine
panama papua_new_guinea paraguay peru philippines poland portugal qatar romania russia rwanda saudi_arabia senegal
serbia seychelles sierra_leone singapore slovakia slovenia somalia south_africa south_korea spain sri_lanka sudan
suriname sweden switzerland syria taiwan tajikistan tanzania thailand togo tunisia turkey turkmenistan uganda ukraine
united_arab_emirates united_kingdom/uk/great_britain united_states/us/usa/united_states_of_america uruguay uzbekistan
venezuela vietnam yemen zambia zimbabwe
"""
_REGIONS = """
alabama/al alaska/ak arizona/az arkansas/ar california/ca colorado/co connecticut/ct delaware/de florida/fl georgia/ga
hawaii/hi idaho/id illinois/il indiana/in iowa/ia kansas/ks kentucky/ky louisiana/la maine/me maryland/md
massachusetts/ma michigan/mi minnesota/mn mississippi/ms missouri/mo montana/mt nebraska/ne nevada/nv new_hampshire/nh
new_jersey/nj new_mexico/nm new_york/ny north_carolina/nc north_dakota/nd ohio/oh oklahoma/ok oregon/or pennsylvania/pa
rhode_island/ri south_carolina/sc south_dakota/sd tennessee/tn texas/tx utah/ut vermont/vt virginia/va washington/wa
west_virginia/wv wisconsin/wi wyoming/wy puerto_rico/pr alberta british_columbia/bc manitoba new_brunswick newfoundland
nova_scotia ontario prince_edward_island/pei quebec saskatchewan england scotland wales northern_ireland
new_south_wales/nsw queensland south_australia tasmania victoria western_australia bavaria sicily
"""
_DISTRICT = "district_of_columbia/dc"
"""Above the states, since the city has the name of one."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place that others lie in."""

    level: int
    """1 for a state or province, 2 for the capital's district, 3 for a country."""
    name: str


_KNOWN = {
    form.replace("_", " "): Place(level, forms)
    for level, names in ((1, _REGIONS), (2, _DISTRICT), (3, _COUNTRIES))
    for forms in names.split()
    for form in forms.split("/")
}


def surroundings(parts: Sequence[str]) -> tuple[Place, ...] | None:
    """What the first of several comma-separated parts lies in; None unless each part lies in the next.

    Whether it does is judged by level alone, which must rise. State and country are known by name or postal letters.
    """
    levels = [place.level if place else 0 for place in map(_known, parts)]
    if len(parts) < 2 or any(low >= high for low, high in pairwise(levels)):
        return None
    return tuple(place for place in map(_known, parts[1:]) if place)


def _known(text: str) -> Place | None:
    name = fold(text).replace(".", "").strip()
    if len(name) == 2 and not name.isupper():
        return None
    return _KNOWN.get(name.lower().removeprefix("the "))
