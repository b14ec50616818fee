"""Labels beside points: each where it covers least of what is drawn already."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

from madke.report.figures.style import INK
from madke.scoring.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Bbox

_SIZE = 8
_DIRECTIONS = ((1, 0), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1), (0, 1), (0, -1))
_DISTANCES = (6, 10, 18, 28, 40, 54, 70)
"""Points between a point and its label, across and upwards."""
_FAR = 12
"""From this distance on a line leads to the label."""


def label_points(axis: Axes, points: Sequence[tuple[float, Estimate, str]]) -> None:
    """Label each point of a panel.

    The panel must be finished; the layout of its figure stays as it is.

    Args:
        axis: The panel.
        points: Of each its place on the horizontal axis, its estimate and its label.
    """
    from matplotlib.transforms import Bbox

    figure = axis.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    taken = []
    for x, found, _ in points:
        (across, low), (_, middle), (_, high) = axis.transData.transform(
            [(x, found.low), (x, found.value), (x, found.high)]
        )
        taken.append(Bbox.from_extents(across - 3, low, across + 3, high))
        taken.append(Bbox.from_extents(across - 5, middle - 5, across + 5, middle + 5))
    panel = axis.get_window_extent()
    room = Bbox.from_extents(panel.x0 + 2, panel.y0 + 2, figure.bbox.x1 - 2, panel.y1 + 6)
    for x, found, label in points:
        text = axis.annotate(label, (x, found.value), (0, 0), textcoords="offset points", fontsize=_SIZE)
        text.set_in_layout(False)
        size = text.get_window_extent()
        across, middle = axis.transData.transform((x, found.value))
        places = []
        for distance, (right, up) in product(_DISTANCES, _DIRECTIONS):
            box = _beside(across, middle, size, right * distance, up * distance)
            hidden = sum(_shared(box, other) for other in taken)
            outside = box.width * box.height - _shared(box, room)
            places.append((2 * hidden + 4 * outside + 1.5 * distance, distance, right, up, box))
        _, distance, right, up, box = min(places, key=lambda place: place[0])
        text.remove()
        axis.annotate(
            label,
            (x, found.value),
            (right * distance, up * distance),
            textcoords="offset points",
            fontsize=_SIZE,
            ha=("center", "left", "right")[right],
            va=("center", "bottom", "top")[up],
            arrowprops={"arrowstyle": "-", "color": INK, "alpha": 0.4, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3}
            if distance >= _FAR
            else None,
        ).set_in_layout(False)
        taken.append(box)


def _beside(x: float, y: float, size: Bbox, right: float, up: float) -> Bbox:
    """Where a text of a size stands whose nearest edge or corner is so far from a point; centred for 0."""
    from matplotlib.transforms import Bbox

    left = x + right - (0 if right > 0 else size.width if right < 0 else size.width / 2)
    bottom = y + up - (0 if up > 0 else size.height if up < 0 else size.height / 2)
    return Bbox.from_bounds(left, bottom, size.width, size.height)


def _shared(one: Bbox, other: Bbox) -> float:
    """The area that two boxes share."""
    width = min(one.x1, other.x1) - max(one.x0, other.x0)
    height = min(one.y1, other.y1) - max(one.y0, other.y0)
    return float(max(0.0, width) * max(0.0, height))
