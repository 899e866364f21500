"""The page on families: what is tried with biases, what counts as exact, and where a bias should cancel."""

from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace

import pytest
import torch

from analysis.core.attention_layer import Mask
from analysis.core.positions import Rotary, ScoreTable
from book.studies.exact import findings, tables
from book.studies.exact.measure import Biases, Row
from tests.book.studies.known import double, plain

study = import_module("book.studies.exact.measure")  # the package exports a function of that name


@pytest.fixture
def tried(monkeypatch):
    """Let a layer's attention be less by its key biases, and its output grow with those of its output."""
    rows = []

    def attend(x, layer):
        rows.append(x)
        half = torch.stack([layer.b_K[:, :2].sum(), layer.b_K[:, 2:].sum()])
        return SimpleNamespace(attention=-half.square(), output=double([-8, 2]) + layer.b_O[0])

    monkeypatch.setattr(study, "attend", attend)
    monkeypatch.setattr(study, "fold_value_bias", lambda layer: replace(layer, b_O=layer.b_O - 3))
    return rows


def test_biases_are_judged_by_the_largest_change_of_any_sign(tried):
    layer = plain(6, heads=2, W_Q=torch.zeros(6, 4))
    found = study.try_biases(layer)
    g = torch.Generator().manual_seed(0)
    x, bias = (torch.randn(*shape, generator=g, dtype=torch.float64) for shape in ((12, 6), (2, 4)))
    assert all(torch.equal(rows, x) for rows in tried)
    squares = [bias[:, :2].sum().item() ** 2, bias[:, 2:].sum().item() ** 2]
    assert found.key == pytest.approx(max(squares))
    assert found.unturned is None
    assert found.value == pytest.approx(3 / 8)
    turned = study.try_biases(replace(layer, positions=Rotary(double(1.0), 4)))
    assert turned.unturned == pytest.approx(squares[1])
    assert study.try_biases(replace(layer, sinks=double(0, 0))).value is None


def test_a_layer_for_one_size_reads_rows_of_that_size(tried):
    layer = plain(6, heads=2, W_Q=torch.zeros(6, 4))
    study.try_biases(replace(layer, positions=ScoreTable(torch.zeros(2, 5, 7))))
    assert {tuple(x.shape) for x in tried} == {(7, 6)}


def agreement_of(attention, output, norm):
    return lambda *given, in_double: SimpleNamespace(attention=attention, output=output, norm=norm)


def test_padding_is_judged_by_maps_and_outputs(monkeypatch):
    read, ids = SimpleNamespace(family=SimpleNamespace(stack="encoder")), torch.ones(2, 6, dtype=torch.long)
    for errors in ((4e-13, 1e-13, 9), (1e-13, 4e-13, 9)):
        monkeypatch.setattr(study, "agreement", agreement_of(*errors))
        assert study.pad(None, read, {"input_ids": ids}) == 4e-13
    read.family.stack = "vision"
    assert study.pad(None, read, {"input_ids": ids}) is None


# ---- what the page holds itself to


def layer(**changed):
    given = {"positions": SimpleNamespace(kind="nowhere"), "qk_norm": None, "soft_cap": 0.0, "sinks": None}
    return SimpleNamespace(**(given | changed))


def row(*layers, biases=(), **changed):
    numbers = {"rounded": False, "as_it_is": 1e-7, "in_double": 1e-14, "padded": 1e-14} | changed
    return Row("Some", ("some",), "", layers=layers, biases=tuple(biases), **numbers)


def held(*rows):
    return SimpleNamespace(rows=rows)


@pytest.mark.parametrize(
    ("changed", "holds"),
    [
        ({}, True),
        ({"padded": None}, True),
        ({"in_double": 2e-12}, False),
        ({"padded": 2e-12}, False),
        ({"as_it_is": 2e-5}, False),
        ({"as_it_is": 9e-6}, True),
        ({"rounded": True, "in_double": 9e-7}, True),
        ({"rounded": True, "padded": 2e-6}, False),
    ],
)
def test_attention_is_the_models_own_in_every_row(changed, holds):
    assert findings.attention_is_the_models_own(held(row(), row(**changed), row())) is holds


NONE, MOVES = 1e-14, 1e-3


@pytest.mark.parametrize(
    ("of_layer", "key", "unturned", "holds"),
    [
        ({}, NONE, None, True),
        ({}, MOVES, None, False),
        ({"positions": Rotary(double(1.0), 8)}, MOVES, NONE, True),
        ({"positions": Rotary(double(1.0), 8)}, NONE, NONE, False),
        ({"positions": Rotary(double(1.0), 8)}, MOVES, MOVES, False),
        ({"positions": Rotary(double(1.0), 8), "qk_norm": "some"}, MOVES, MOVES, True),
        ({"positions": Rotary(double(1.0), 8), "qk_norm": "some"}, MOVES, NONE, False),
        ({"soft_cap": 30.0}, MOVES, None, True),
        ({"soft_cap": 30.0}, NONE, None, False),
        ({"sinks": double(0)}, MOVES, None, True),
        ({"qk_norm": "some"}, NONE, None, False),
    ],
)
def test_a_key_bias_cancels_where_nothing_sees_it(of_layer, key, unturned, holds):
    fine = (layer(), Biases(NONE, None, None))
    given = (layer(**of_layer), Biases(key, unturned, None))
    for pairs in ([fine, given], [given, fine]):
        layers, biases = zip(*pairs, strict=True)
        assert findings.key_bias_cancels_where_it_should(held(row(*layers, biases=biases))) is holds


# ---- its table


def test_the_biases_of_the_first_layer_stand_for_the_family(monkeypatch):
    monkeypatch.setattr(tables, "FIRST", ())
    given = {"norms": (), "groups": 2, "heads": 2, "channel": 8, "mask": Mask()}
    layers = [layer(biases=biases, **given) for biases in ("Q", "")]
    biases = [Biases(1.0, None, None)] * 2
    table = tables.families((row(*layers, biases=biases), row(*layers[::-1], biases=biases)))
    assert table["biases"].tolist() == ["none"]  # of two rows of one name the last is kept
    assert tables.families((row(*layers, biases=biases),))["biases"].tolist() == ["Q"]
    assert table["padded"].tolist() == ["1e-14"]


def test_a_share_of_a_key_bias_cancels_only_without_the_whole():
    of_layer = layer(positions=Rotary(double(1.0, 0.5), 8), channel=16)
    said = [
        tables.exact(row(of_layer, biases=[Biases(key, unturned, 1e-14)]))
        for key, unturned in ((NONE, NONE), (MOVES, NONE), (MOVES, MOVES), (MOVES, None))
    ]
    assert said == [
        f"{words}; b_V folds" for words in ("b_K cancels", "75% of b_K cancels", "b_K counts", "b_K counts")
    ]
