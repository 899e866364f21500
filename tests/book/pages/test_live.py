"""Live cells: in a real browser, offline, from a file, each shows what its record and the package's own figure hold.

So do the checks of exercises, which tests/book/pages/test_checks.py tries with the package.
"""

import ast
import contextlib
import io
import json
import re

import numpy as np
import pytest
from matplotlib.figure import Figure
from myst_nb.core.read import read_myst_markdown_notebook

from book._ext import live, live_check
from book.publish import execution
from tests.book.pages import play_pages
from tests.book.pages.book_pages import PHONE, ROOT, small_book
from tests.book.pages.test_checks import BLOCKS

CELL = re.compile(r"^```\{code-cell\}.*?^```$", re.DOTALL | re.MULTILINE)
STORIES = {path.stem: path for path in sorted((ROOT / "book").glob("*.md")) if "tags: [live]" in path.read_text()}
HEAD = "---\nfile_format: mystnb\nkernelspec: {name: python3, display_name: Python 3}\n---\n\n"
ASSETS = {"html_static_path": [str(ROOT / "book" / "assets")], "html_css_files": ["book.css"]}
CONFIG = {"extensions": ["myst_nb", "book._ext.live"], **ASSETS}
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]\d+)?")
WAIT = 240_000


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Build the cells of each story as a page, with Python beside them."""
    if live.archive() is None:
        pytest.skip("pyodide can't be had from npm")
    return build(tmp_path_factory.mktemp("live"))


def build(folder, **config):
    for name, path in STORIES.items():
        (folder / f"{name}.md").write_text("\n\n".join([f"{HEAD}# {name}", *CELL.findall(path.read_text())]))
    (folder / "checks.md").write_text("\n\n".join(["# checks", *map("```{{check}}\n{}```".format, BLOCKS.values())]))
    (folder / "index.md").write_text("# Index\n\n```{toctree}\nchecks\n" + "\n".join(STORIES) + "\n```\n")
    out = folder / "html"
    small_book(folder, out, warning=io.StringIO(), **CONFIG, **config).build()
    return out


def test_without_the_package_pages_have_no_button_and_with_it_they_hardly_grow(tmp_path):
    out = build(tmp_path, live_archive="")
    assert live.LOADER not in (out / "notation.html").read_text()
    assert not (out / "_static/live").exists()
    assert (ROOT / "book" / "assets" / live.LOADER).stat().st_size < 2000


def test_another_package_than_the_pinned_one_is_refused(tmp_path):
    (tmp_path / live.ARCHIVE).write_bytes(b"another")
    with pytest.raises(ValueError, match="must be the pinned package"):
        live.archive(tmp_path)


@pytest.fixture
def tab(browser):
    tab = play_pages.Tab(browser, PHONE, offline=True)
    tab.page.requests = tab.requests
    tab.page.set_default_timeout(WAIT)
    yield tab.page
    tab.close()


def open_page(tab, built, name):
    tab.goto((built / f"{name}.html").as_uri())
    return tab.locator(".cell.tag_live, .check.tag_live")


def press(cell):
    """Press the button, and wait for what the cell says."""
    cell.locator(".live-change").click()
    return wait(cell)


def wait(cell):
    cell.locator("[role=status]", has_text=re.compile("ran in|raised|can't run|Stopped")).wait_for()
    assert "can't run" not in cell.locator("[role=status]").inner_text()
    return "".join(cell.locator(".live-out > pre").all_text_contents())


def rerun(cell, code):
    cell.locator("textarea").fill(code)
    cell.get_by_role("button", name="Run").click()
    cell.page.wait_for_timeout(200)
    return wait(cell)


def drawn(figure) -> list[np.ndarray]:
    """Return the arrays that a figure of the package shows."""
    panels = [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]
    shown = [(axes.images or axes.collections)[0].get_array() for axes in panels if axes.images or axes.collections]
    return [np.ma.filled(values, 0) for values in shown]


def expected(page: str) -> list[tuple[str, str, list[np.ndarray]]]:
    """Return the code of each live cell, what the record says it prints, and what the package draws."""
    cells = read_myst_markdown_notebook(STORIES[page].read_text(), path=page).cells
    recorded = json.loads((execution.RECORDED / f"{page}.json").read_text())["cells"]
    space, found = {}, []
    codes = (cell for cell in cells if cell.cell_type == "code")
    for cell, record in zip(codes, recorded, strict=True):
        assert record["source"] == cell.source
        if "live" in cell.metadata.get("tags", []):
            said = "".join(out.get("text", "") for out in record["outputs"])
            *body, last = ast.parse(cell.source).body
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(ast.Module(body, []), page, "exec"), space)
                show = eval if isinstance(last, ast.Expr) else exec
                tree = ast.Expression(last.value) if show is eval else ast.Module([last], [])
                value = show(compile(tree, page, show.__name__), space)
            found.append((cell.source, said, drawn(value) if isinstance(value, Figure) else []))
    return found


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("page", STORIES)
def test_each_live_cell_prints_its_record_and_draws_the_package_s_arrays(tab, built, page):
    cells = open_page(tab, built, page)
    due = expected(page)
    assert cells.count() == len(due) > 0
    assert not any("/live/" in url for url in tab.requests)
    for n in reversed(range(len(due))):  # the last first: it runs those before it
        code, text, arrays = due[n]
        printed = press(cells.nth(n))
        assert not cells.nth(n).locator(".live-error").count(), printed
        assert cells.nth(n).locator("textarea").input_value() == code
        assert NUMBER.sub("#", printed) == NUMBER.sub("#", text)
        np.testing.assert_allclose(*[np.array(NUMBER.findall(each), float) for each in (printed, text)], 1e-5, 1e-5)
        panels = cells.nth(n).locator(".live-panel").evaluate_all("all => all.map(each => each.panel.values)")
        assert len(panels) == len(arrays)
        for values, array in zip(panels, arrays, strict=True):
            np.testing.assert_allclose(values, array.reshape(np.shape(values)), 1e-5, 1e-5)


def answer(cell, code):
    """Check an answer, by keys alone; return what is said of it."""
    cell.locator("textarea").fill(code)
    status = cell.locator("[role=status]")
    status.evaluate("status => status.replaceChildren()")
    cell.locator("textarea").press("Control+Enter")
    cell.locator("[role=status]", has_text=re.compile(r"\S$(?<!\.\.\.)")).wait_for()
    return status.inner_text()


@pytest.mark.slow
@pytest.mark.browser
def test_each_check_says_in_the_page_what_it_says_with_the_package(tab, built):
    cells = open_page(tab, built, "checks")
    assert cells.count() == len(BLOCKS)
    assert not any("/live/" in url for url in tab.requests)
    for n, (name, block) in enumerate(BLOCKS.items()):
        cell, start, hidden_too = cells.nth(n), block.split("\n---\n")[0], block.replace("\n---\n", "\n")
        cell.get_by_role("button", name="Try it").press("Enter")
        assert cell.locator("textarea").evaluate("area => area === document.activeElement")
        assert cell.locator("textarea").input_value() == start.rstrip()
        assert answer(cell, start) == live_check.BEGINNING
        assert not cell.locator("details").count()
        for place, hint in enumerate(live_check.functions(block)[2]["hints"].values()):
            wrong = f"space = {{}}\nexec({hidden_too!r}, space)\n{name} = list(space['hints'])[{place}]"
            assert answer(cell, wrong) == hint
            assert live_check.solution(block) == cell.locator("details pre").text_content()
        assert answer(cell, f"{start}\n{live_check.solution(block)}").startswith("Right")
        assert not cell.locator("details").count()
    assert answer(cell, f"import torch\n\ndef {name}(*given):\n    return torch.svd(given)") == "It raised."
    assert f"line 4, in {name}" in cell.locator(".live-error").inner_text()
    assert "this one needs the package" in cell.locator(".live-error").inner_text()


EXPRESSIONS = """
import torch
from torch import inf
a = torch.tensor([[1.0, -2, 0.5], [3, 0, -1]])
b = torch.tensor([1, 2, 4])
c = torch.arange(24.0).reshape(2, 3, 4) / 7
d = c.clone()
d[0, 1:, ::2] = 9
d[..., 3] += torch.ones(3)
d[1][0][2] = -1
row = d[1, 2].view(2, 2)
row *= 2
for x in (
    a + b, 2 - a, a / b, b / 2, 2 ** b, a ** 2, a * a[:, :1], a @ b.float(), a.T, a.mT @ a, -a, a.abs(), a % 2,
    a // 2, a.exp(), (a - 5).log(), a.sqrt(), 1 / a, a > 0, (a > 0).sum(), a.sum(-1), a.mean(0, keepdim=True),
    a.std(1), a.max(), a.max(1).indices, a.min(0).values, a.median(), a.argmax(1), a.amax(0), a.norm(dim=1),
    b.sum(), a.round(), (a > 0) & (b > 1), a.softmax(-1), a.masked_fill(a < 0, -inf).softmax(0),
    torch.full((2, 2), -inf).triu(1), a.tril(-1), a[a > 0], a[1], a[:, -1], a[:, None, 1:], a[..., [2, 0]], c[:, 1],
    c.transpose(0, 2), c.permute(2, 0, 1), c.mT, c @ c.mT, c.view(4, 6), d, c.flatten(),
    torch.stack([a, -a]), torch.cat([a, a], 1),
    torch.eye(3), torch.diag(b, -1), torch.arange(5), torch.zeros_like(a), torch.tensor([[True], [False]]),
    torch.softmax(b * 1.0, 0), a == a.T.T,
):
    print(tuple(x.shape), x.tolist(), *([] if x.shape else [x.item()]))
print(torch.tensor([0.25, -1e-3]), a, b, torch.tensor(2.0), torch.tensor([1e-9, 1.0]), a > 0)
print(a.masked_fill(a < 0, -inf))
print(f"{a[0, 0]:.2f} {a.sum():>7.1f}", int(b[2]), float(a[0, 2]), len(c), [row.tolist() for row in a], max(b.tolist()))
"""


@pytest.mark.slow
@pytest.mark.browser
def test_arrays_compute_and_print_as_torch_does(tab, built):
    cell = open_page(tab, built, "weighted-mean").first
    press(cell)
    printed, out = rerun(cell, EXPRESSIONS), io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(EXPRESSIONS, {})
    for mine, due in zip(printed.splitlines(), out.getvalue().splitlines(), strict=True):
        numbers = [np.array(NUMBER.findall(line), float) for line in (mine, due)]
        assert NUMBER.sub("#", mine) == NUMBER.sub("#", due)
        np.testing.assert_allclose(*numbers, 1e-5, 1e-5, err_msg=due)


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import torch\ntorch.zeros(3)[5]", "line 2, in <module>\n.*IndexError"),
        ("x = (1", r"line 1\n.*SyntaxError: '\(' was never closed"),
        ("import numpy", "NeedsPackage: numpy: this one needs the package"),
        ("from analysis import find", "NeedsPackage: analysis.find: this one needs the package"),
        ("from analysis.models import pretrained", "NeedsPackage: analysis.models: this one needs the package"),
        ("import torch\ntorch.eye(2).svd()", "NeedsPackage: Tensor.svd: this one needs the package"),
        ("from analysis import load\nload('gpt2').layers[0].qk_norm", "NeedsPackage: layer.qk_norm: this one needs"),
        ("from analysis import load\nload('minilm')", "NeedsPackage: load\\('minilm'\\): this one needs the package"),
        ("import torch\ntorch.ones(2, 3) + torch.ones(2)", "RuntimeError: the shapes .* don't fit each other"),
        ("import torch\nfrom analysis import draw_maps\ndraw_maps({'a': torch.eye(3)}, 'ab')", "ValueError: 2 names"),
    ],
)
def test_an_error_shows_python_s_own_line(changing, code, said):
    rerun(changing, code)
    assert re.search(said, changing.locator(".live-error").inner_text(), re.DOTALL)


@pytest.fixture(scope="module")
def changing(browser, built):
    """Return a live cell whose Python runs."""
    context = browser.new_context(viewport=PHONE, offline=True)
    page = context.new_page()
    page.set_default_timeout(WAIT)
    cell = open_page(page, built, "weighted-mean").first
    press(cell)
    yield cell
    context.close()


@pytest.mark.slow
@pytest.mark.browser
def test_cells_share_names_are_put_back_and_stop(tab, built):
    cells = open_page(tab, built, "weighted-mean")
    first, last = cells.first, cells.last
    original = tab.locator(".cell_output").first
    assert "takes the package" in tab.locator(".cell:not(.tag_live) .live-needs").first.inner_text()
    assert "tensor" in press(last)  # which runs the first, quietly
    assert not first.locator("textarea").count()
    press(first)
    rerun(first, first.locator("textarea").input_value().replace("weights @ letters]", "2 * weights @ letters]"))
    assert first.locator(".live-panel").last.locator("td").first.inner_text() == "0"
    rerun(first, "letters = weights = 1 / 0")
    rerun(last, last.locator("textarea").input_value())
    assert "A cell above" in last.locator(".live-error").inner_text()
    first.get_by_role("button", name="Put it back").click()
    assert first.locator(".live-editor, .live-out").count() == 0
    assert first.get_by_role("button", name="Change it").is_visible()
    assert original.count() == 0 or original.is_visible()
    assert "tensor" in rerun(last, "print(weights)")
    last.locator("textarea").fill("while True: pass")
    last.get_by_role("button", name="Run").click()
    last.get_by_role("button", name="Stop").click()
    wait(last)
    assert "Stopped" in last.locator("[role=status]").inner_text()
    assert "tensor" in rerun(last, "print(weights)")
    assert tab.evaluate("document.scrollingElement.scrollWidth") <= PHONE["width"]
