"""Tables of a page: what the reader sees, what is recorded, what is refused."""

from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from book.publish.tables import table, written

FRAME = pd.DataFrame({"nats": [1.25, None], "b_Q < 1": ["a & b", "c"]}, index=pd.Index(["W_K", "other"], name="part"))


class Cells(HTMLParser):
    """The texts of a table's cells, each with its tag."""

    def __init__(self, text: str):
        super().__init__()
        self.cells, self.tag = [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag in ("th", "td", "caption"):
            self.tag = tag
            self.cells.append([tag, ""])

    def handle_data(self, data):
        if self.cells and data.strip():
            self.cells[-1][1] += data


def test_a_table_has_its_caption_a_header_per_column_and_a_heading_per_row():
    cells = ["|".join(cell) for cell in Cells(table(FRAME, "What & why.", ".1f")._repr_html_()).cells]
    assert cells[:4] == ["caption|What & why.", "th|part", "th|nats", "th|bQ < 1"]
    assert cells[4:] == ["th|WK", "td|1.2", "td|a & b", "th|other", "td|", "td|c"]


def test_what_is_recorded_holds_every_number():
    due = "Caption.\npart | nats | b_Q < 1\nW_K | 1.25 | a & b\nother |  | c"
    assert repr(table(FRAME, "Caption.")).strip() == due


def test_numbers_are_written_by_their_kind():
    kinds = np.float32(0.5), np.int64(1234), np.bool_(False), -0.5
    assert list(map(written, kinds)) == ["0.50", "1,234", "no", "−0.50"]


@pytest.mark.parametrize(("caption", "form", "names"), [(" ", ".2f", "caption"), ("A.", {"watts": ".1f"}, "watts")])
def test_a_table_without_caption_or_with_an_unknown_column_is_refused(caption, form, names):
    with pytest.raises(ValueError, match=names):
        table(FRAME, caption, form)
