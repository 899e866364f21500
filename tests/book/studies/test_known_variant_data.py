"""What the variant classifiers read, and where training and test are kept apart: answers known by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.maps.gates import GATES
from book.lab.dna.fasta import Gene
from book.publish.records import Value
from book.studies.variant_data import corpus, evidence, experiments, partings, tables
from book.studies.variant_data.partings import Parting
from tests.book.studies.known import Known, record


def values(**given: tuple) -> Known:
    """Return a record whose values have an interval and a number of cases."""
    named = {name: Value(value, 0.0, low=low, high=high, n=n) for name, (value, low, high, n) in given.items()}
    return Known(values=named, arrays={name: value.value for name, value in named.items()})


def test_the_authors_sequences_are_split_and_cut_by_arithmetic():
    """3,822 bases are padded to words of 12 with a step of 9; of 20 and 13 sequences a fifth is 4 and 2.6."""
    found = corpus.measure_authors(
        record(
            by_class=np.array([20, 13]), logits_right=3, logits_rows=4, parts=np.array([1, 2, 3]), tested_by_class=[7]
        )
    )
    assert (found.accuracy, found.interval, found.right, found.rows) == ("75.0 %", "19.4 to 99.4 %", 3, 4)
    assert (found.words, found.tokens, found.padding_rows) == (425, 427, 85)
    assert found.computed == (23, 3, 7)  # 7 of 33 are tested, 3 of the other 26 validate
    assert found.test_by_class.tolist() == [4, 3]
    assert (found.recorded, found.recorded_test.tolist()) == ((1, 2, 3), [7])


def test_a_balanced_exchange_has_twice_as_many_words_of_the_bases(monkeypatch):
    counts = {("one", "A"): 4, ("one", "B"): 2, ("two", "A"): 3, ("two", "B"): 2}
    counts |= {("none", "A"): 0, ("none", "B"): 0, ("only", "A"): 1, ("only", "B"): 0}
    genes = {name: Gene(name, name[0] * 3, "A") for name in ("one", "two", "none", "only")}
    trained = Gene("trained", "CCC", "B")
    data = SimpleNamespace(genes=[trained, *genes.values()], parts=SimpleNamespace(train=[0], test=[1, 2, 3, 4]))
    data.labels, data.tokenizer = ("A", "B"), None
    asked = []

    def predict(model, tokenizer, sequences):
        asked.append(sequences)
        return torch.tensor([[0.1, 0.9], [0.8, 0.2]])

    monkeypatch.setattr(experiments.checkpoints, "find", lambda name: SimpleNamespace(folder=None))
    run = SimpleNamespace(data=data, model=None)
    monkeypatch.setattr(experiments.variant_measures, "open_run", lambda *_, **__: run)
    monkeypatch.setattr(experiments, "find_telling_words", lambda genes: [gene.name for gene in genes])
    monkeypatch.setattr(experiments, "invent_backbones", lambda seed: [])
    monkeypatch.setattr(experiments, "fill_letters", lambda letters: letters)
    monkeypatch.setattr(experiments, "exchanged", lambda test, letters: [(gene, "B") for gene in test])

    def count(gene, label, telling):
        assert telling == ["trained"]
        return counts[gene.name, label]

    monkeypatch.setattr(experiments, "count_telling_words", count)
    monkeypatch.setattr(experiments.dna_classifier, "predict", predict)
    found = experiments.compute_balanced_swap(torch.device("cpu")).values
    assert asked == [["ooo", "ooo"]]  # one and only
    assert (found["named_bases"].value, found["named_deletions"].value) == (0.5, 0.5)
    assert (found["words_before"].value, found["words_all_bases"].value, found["words_all_deletions"].value) == (
        2,
        2,
        1,
    )
    assert (found["words_bases"].value, found["words_deletions"].value) == (2.5, 1)
    assert [found[f"named_{part}"].n for part in ("bases", "deletions")] == [2, 2]
    assert found["words_all_bases"].n == 4


def test_real_sequences_of_one_lineage_are_one_case(monkeypatch):
    bases = {"known": "ACGT" * 3, "half": "ACGT" * 3 + "AAAAAAAAA"}  # words of twelve bases, nine apart
    genes = [
        Gene(name, bases[name], label, lineage) for name, label, lineage in [("known", "A", "x"), ("half", "B", "x")]
    ]
    monkeypatch.setattr(experiments, "hits", lambda one, genes: np.array(one, bool))
    found = experiments.on_open({"length": [1, 0], "kmers": [1, 1]}, genes, [genes[0]])
    assert [found[f"open/{name}"].value for name in ("sequences", "lineages", "classes")] == [2, 1, 2]
    assert found["open/unknown"].value == 0.25  # no word of one, one of two words of the other
    assert (found["length/open"].value, found["kmers/open"].value, found["length/open"].n) == (0.5, 1, 2)
    assert found["kmers/open"].low < 0.05  # one lineage, one case


def test_a_corpus_is_counted_and_words_are_guessed_by_their_position(monkeypatch):
    """Two training sequences that share their first word and differ in their second; [CLS] is no word."""
    ids = torch.tensor([[2, 5, 6, 0], [2, 5, 7, 0]])
    coded = {"input_ids": ids, "attention_mask": (ids > 0).long()}

    class Tokenizer:
        cls_token_id = 2

        def __len__(self):
            return 11

    def encode(genes, *, device):
        assert genes == ["trained", "as well"]
        return coded

    parts = SimpleNamespace(train=[1, 2], validation=[3], test=[0, 4, 5])
    first = Gene("first", "ACGTACGTACGTACGTACGTACG", "a")
    genes = [first, "trained", "as well", "d", "e", "f"]
    data = SimpleNamespace(genes=genes, parts=parts, encode=encode, tokenizer=Tokenizer(), labels=("a", "b"))
    found = corpus.measure_corpus(data, None)
    assert (found.sequences, found.training, found.validation, found.test, found.vocabulary) == (6, 2, 1, 3, 11)
    assert (found.reference_bases, found.reference_words) == (3822, 424)  # (3822 - 12) / 9 + 1
    assert found.guess_by_position == pytest.approx(np.log(2) / 2)
    assert found.words_rejoin
    monkeypatch.setattr(corpus, "kmers", lambda bases: [bases[:12], bases[8:20]])
    assert not corpus.words_rejoin(first.bases)
    monkeypatch.setattr(corpus, "kmers", lambda bases: [bases[:12]])
    assert not corpus.words_rejoin(first.bases)  # eleven bases are left
    assert corpus.words_rejoin(first.bases[:-3])


def evidence_of():
    """Three classes, of which the last two have no shift; two seeds of two sequences a class and set."""
    classes = ("Alpha", "GH/490R", "Mu")
    confusion = np.zeros((2, 5, 3, 3), int)
    confusion[:, :, range(3), range(3)] = 2
    confusion[0, 4] = [[1, 1, 0], [2, 0, 0], [0, 1, 1]]  # only deletions
    confusion[1, 3] = [[0, 2, 0], [0, 2, 0], [0, 0, 2]]  # only substitutions
    part = {
        f"exchanged_{part}_{k}": (share + k / 100, 0.0, 1.0, 64) for part, share in SHARES.items() for k in range(3)
    }
    seeds = values(**part)
    seeds.arrays["confusion"] = confusion
    baselines = values(
        **{f"{kind}/exchanged-{part}": (0.5, 0, 1, 9) for kind in ("kmers", "kmers-gapped") for part in SHARES}
    )
    swap = values(named_bases=(0.0, 0.0, 0.0123, 30), named_deletions=(0.97, 0.9, 0.99, 31))
    names = ("words_before", "words_all_bases", "words_all_deletions", "words_bases", "words_deletions")
    swap.arrays |= {name: 10.0 * k for k, name in enumerate(names)}
    tables = np.zeros((2, 3, 3), int)
    tables[1] = [[3, 1, 0], [0, 0, 0], [0, 0, 5]]
    splits = record(confusion=tables, parts=np.array(["sequence", "lineage"]))
    real = record(confusion=confusion[0, :2])
    return {"seeds": seeds, "baselines": baselines, "balanced-swap": swap, "splits": splits, "real": real}, classes


SHARES = {"bases": 0.02, "deletions": 0.94}


def test_what_is_read_is_summed_over_seeds():
    records, classes = evidence_of()
    found = evidence.measure_evidence(records, classes)
    # deletions alone: Alpha 1 + 2 of 4, GH 0 + 2 of 4, Mu 1 + 2 of 4
    assert (found.deletions_alone, found.deletions_still) == ("75 %", "62 %")
    assert (found.follow, found.follow_sequences) == ("94 % to 96 %", 64)
    assert (found.balanced_follow, found.balanced_low, found.balanced_high) == ("97 %", "90 %", "99 %")
    assert (found.balanced_bases_high, found.balanced_sequences) == ("1.2 %", 31)
    assert (found.words_before, found.words_bases, found.words_deletions) == (0, 10, 20)
    assert (found.words_balanced_bases, found.words_balanced_deletions) == (30, 40)
    assert found.accuracies["invented gene"][4].tolist() == [0.75, 0.5, 0.75]
    assert found.accuracies["real lineages"].tolist() == [[1, 1, 1], [1, 1, 1]]
    assert found.confusions["by lineage"].tolist() == [[0.75, 0.25, 0], [0, 0, 0], [0, 0, 1]]
    assert found.confusions["only substitutions"].tolist() == [[0.5, 0.5, 0], [0, 1, 0], [0, 0, 1]]


def parted() -> Known:
    """Return a record of two ways to keep apart; every value has its own interval."""
    names = {"train": 100, "units": 7, "bert": 0.9, "kmers": 0.8, "nearest": 0.7, "length": 0.25, "phase": 0.5}
    names |= {"exchanged_bases": 0.2, "exchanged_deletions": 0.7}
    given = values(
        **{
            f"{name}/{by}": (value * less, value / 2, value, 50)
            for name, value in names.items()
            for by, less in BY.items()
        }
    )
    given.arrays["parts"] = np.array(list(BY))
    return given


BY = {"sequence": 1.0, "lineage": 0.5}


def test_real_lineages_are_named_or_not():
    real = values(open=(75 / 89, 0.7, 0.9, 89), whole_test=(0.99, 0.98, 1.0, 640))
    baselines = record(**{"kmers/open": 0.75, "nearest/open": 1.0, "length/open": 0.25})
    found = partings.measure_real({"real": real, "real-splits": parted(), "baselines-real": baselines})
    assert (found.open_right, found.real_units) == (75, 3.5)
    assert (found.real_lineage, found.real_least) == ("45.0 %", "45.0 %")
    assert (found.real_follow, found.real_rest) == ("70 % and 35 %", "10 % and 55 %")
    assert found.simple == {"kmers": 0.75, "nearest": 1.0, "length": 0.25}
    assert (found.test.value, found.deposited.n) == (0.99, 89)
    assert partings.exchanged_by_parting(parted())["lineage"]["bases"].value == pytest.approx(0.1)


def test_a_run_is_scored_by_what_was_kept_apart(monkeypatch):
    """Four test sequences of two clades, of which three are named rightly; baselines and exchanges are given."""
    genes = [
        Gene(f"{k}", "A", label, "", clade) for k, (label, clade) in enumerate(["ax", "bx", "ay", "by", "ax", "bx"])
    ]
    parts = SimpleNamespace(train=[4], validation=[5], test=[0, 1, 2, 3])
    data = SimpleNamespace(genes=genes, parts=parts, labels=("a", "b"), tokenizer=None)
    run = SimpleNamespace(data=data, model=None, card={"recipe": {"by": "clade"}, "validation": 0.875})
    named = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6], [0.0, 1.0]])
    monkeypatch.setattr(experiments.variant_measures, "open_run", lambda *_: run)
    monkeypatch.setattr(experiments.dna_classifier, "predict", lambda *_: named)
    monkeypatch.setattr(experiments, "fitted", lambda name, train, validation: (name, len(train), len(validation)))
    monkeypatch.setattr(experiments, "hits", lambda one, test: np.arange(4) < (2 if one == ("length", 1, 1) else 1))
    monkeypatch.setattr(experiments.variant_seeds, "follow", lambda model, data, backbones: {"followed": backbones})
    found, table = experiments.score_run(None, "backbones")
    assert (found["bert"].value, found["length"].value, found["kmers"].value) == (0.75, 0.5, 0.25)
    assert (found["validation"].value, found["validation"].n, found["train"].value) == (0.875, 1, 1)
    assert (found["units"].value, found["units"].n, found["followed"]) == (2, 4, "backbones")
    assert found["bert"].low < 0.1  # two clades are two cases; of four the bound would be 0.19
    assert table.tolist() == [[1, 1], [0, 2]]


def test_what_deletions_give_away_is_read_as_it_is():
    found = partings.measure_leak(
        record(classes=np.array(["a"]), phases=[[0, 3]], lengths=np.array([9, 12]), length_counts=[[1, 2]])
    )
    assert (found.classes, found.lengths, found.phases.tolist()) == (["a"], [9, 12], [[0, 3]])
    assert found.length_counts.tolist() == [[1, 2]]


def test_tables_hold_what_was_measured():
    row = Parting("clade", 100, 50, 7, 0.9, 0.45, 0.8, 0.7, 0.25, 0.5)
    assert tables.partings([row]).loc["clade", ["BERT", "at least", "nearest lineage"]].tolist() == [0.9, 0.45, 0.7]
    value = Value(0.5, 0.0, low=0.25, high=0.75, n=8)
    other = Value(1.0, 0.0, low=0.875, high=1.0, n=4)
    seeds = tables.seeds(SimpleNamespace(validation=[value, other], test=[other, value]))
    assert seeds.loc[0].tolist() == [0.5, 8, 1.0, 4, 0.875]
    exchange = evidence.Exchange(
        np.array([[0.1, 0.05, 0.2], [0.3, 0.2, 0.4], [0.5, 0.4, 0.6]]), 64, value, other, value
    )
    of = SimpleNamespace(exchanged={"bases": exchange, "deletions": exchange}, follow_sequences=64)
    exchanged = tables.exchanged(of)
    assert exchanged.iloc[1].tolist() == [64, "0.30 (0.20 to 0.40)", "0.30 (0.20 to 0.40)"]
    assert exchanged["sequences"].tolist() == [64, 64, 64, 8, 4, 8]
    assert exchanged.loc["words", "the bases"] == "1.00 (0.88 to 1.00)"
    swapped = tables.swapped({"clade": {"bases": value, "deletions": other}}).loc["clade"].tolist()
    assert swapped == [4, "1.00 (0.88 to 1.00)", "0.50 (0.25 to 0.75)"]
    gates = np.zeros((2, 1, 2, len(GATES)))
    gates[1, 0, 1, 0], gates[0, 0, 0, 0] = 0.5, 0.25
    assert tables.largest_gates(SimpleNamespace(gates={"one": gates}))["one"].tolist() == [50] + [0] * (len(GATES) - 1)
    real = SimpleNamespace(test=value, deposited=other, simple={"kmers": 0.25})
    deposited = tables.deposited(real)
    assert deposited.iloc[1].tolist() == [1.0, 0.875, 1.0]
    assert deposited.loc["words, deposited", "right"] == 0.25
    assert list(deposited.index[:2]) == ["BERT, simulated test sequences (8)", "BERT, deposited sequences (4)"]
