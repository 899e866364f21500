"""A figure follows the theme of its page, and not that of the machine: dark ground in the dark, white in the light."""

import base64
import io

import pytest
from matplotlib.image import imread

from analysis.plotting import style
from book._ext.dark_figures import in_both


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_a_figure_follows_its_page(browser, theme):
    figure, _ = style.new()
    figure.axes[0].plot([0, 1], [0, 1])
    drawn = base64.b64encode(in_both(figure._repr_svg_()).encode()).decode()
    page = browser.new_page(color_scheme="light" if theme == "dark" else "dark")
    page.set_content(f'<html style="color-scheme: {theme}"><img src="data:image/svg+xml;base64,{drawn}">')
    seen = imread(io.BytesIO(page.locator("img").screenshot()))[..., :3].mean(-1)
    page.close()
    assert seen[3, 3] < 0.2 if theme == "dark" else seen[3, 3] > 0.95, "has the ground of the other theme"
    assert seen.max() - seen.min() > 0.7, "has lines that can't be told from the ground"
