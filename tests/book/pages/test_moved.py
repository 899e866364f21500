"""Old addresses lead on to the pages that hold what they held."""

import re

import pytest


@pytest.mark.parametrize(("moved", "holds"), [("at-a-glance", "claims-filter"), ("what-it-reads", "table-filter")])
def test_the_old_address_of_a_page_leads_on_to_one_that_is_there(html, moved, holds):
    old = html / "book" / f"{moved}.html"
    page = old.read_text(encoding="utf-8")
    (address,) = re.findall(r'url=([^"]+)"', page)
    assert f'href="{address}"' in page
    assert holds in (old.parent / address).read_text(encoding="utf-8")
