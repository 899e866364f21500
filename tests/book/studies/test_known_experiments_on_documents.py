"""What experiments compute of documents, of a sentence and of the bundled classifier, held to a plain computation."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel

from analysis.models import checkpoints, pretrained
from analysis.models.controls import RUNGS, SEEDS, make_controls
from analysis.models.reading import load
from analysis.transformer.encoder import random_layers, run_layer
from book.publish.records import Value
from book.studies.bert_gates import experiments as gates
from book.studies.bert_rank import controls as rank
from book.studies.bert_similarity import controls as similarity
from book.studies.bert_stream import controls as stream
from book.studies.one_score_four_parts import experiments as one_score
from book.studies.semi_bias import first_layer
from book.studies.shared import documents
from book.studies.shared.documents import CONTROLS, LADDER
from book.studies.streaming_capture import cost
from book.studies.text_and_code import classifier, survey
from book.studies.variant_classifier import sequence
from book.studies.weighted_mean import experiments as weighted_mean
from book.studies.weighted_mean import sentence
from tests.analysis.tiny import random_layer
from tests.book.studies.known import no_norm, plain
from tests.book.studies.test_known_experiments_of_bert import CHANNEL, HEADS, LAYERS, TEXTS, tiny  # noqa: F401

CPU = torch.device("cpu")
LONG = TEXTS[1], "All of the dogs ran home in the rain, and none of them was wet."


@pytest.fixture
def minilm(tiny, monkeypatch):  # noqa: F811
    """The tiny model in the place of MiniLM, and two documents, of which the controls read the first."""
    monkeypatch.setattr(checkpoints, "find", lambda name: tiny)
    for module in (documents, rank):
        load_some = lambda each=None: [SimpleNamespace(text=text) for text in LONG[: 1 if each else 2]]  # noqa: E731
        monkeypatch.setattr(module, "load_documents", load_some)
    return tiny


def states_of(model, tokenizer, text):
    """What each layer reads."""
    with torch.no_grad():
        return [x[0] for x in model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True).hidden_states]


DOCUMENTS = [
    (gates, "measure_ladder", "LONGEST", "read_layer"),
    (gates, "weigh_maps", "WEIGHTED_LONGEST", "measure_layer"),
    (similarity, "compute", "LONGEST", "measure_layer"),
]


@pytest.mark.parametrize("case", DOCUMENTS, ids=lambda case: f"{case[0].__name__}.{case[1]}")
def test_every_layer_of_every_document_is_measured_on_what_it_reads(minilm, monkeypatch, case):
    module, name, longest, by_layer = case
    monkeypatch.setattr(module, longest, 48)
    found = getattr(module, name)(CPU)
    tokenizer, trained = pretrained.tokenizer(minilm), pretrained.load(minilm)
    lent = [layer.b_Q for layer in load(trained).layers]
    measure = getattr(module, by_layer)

    def due(network, text):
        states = states_of(network, tokenizer, text)
        layers = load(network).plain_layers()
        given = [(lent[i],) if by_layer == "read_layer" else () for i in range(LAYERS)]
        measured = [measure(states[i], layers[i], *given[i]) for i in range(LAYERS)]
        return {key: np.stack([layer[key] for layer in measured]) for key in measured[0]}

    for i, text in enumerate(LONG):
        for key, values in due(trained, text).items():
            np.testing.assert_allclose(found.arrays[key][i], values, rtol=1e-3, atol=1e-5, err_msg=key)
    random = pretrained.load(minilm, control_seed=3)
    for key, values in due(random, LONG[0]).items():
        there = found.arrays[key + CONTROLS]
        assert there.shape[:2] == (len(LADDER), len(SEEDS))
        np.testing.assert_allclose(there[LADDER.index("random"), 3], values, rtol=1e-3, atol=1e-5, err_msg=key)
    assert all(tolerance > 0 for tolerance in found.tolerances.values())


def test_layers_run_in_every_way_beside_the_network(minilm):
    (first, second) = layers = random_layers(2, 2, 8, generator=torch.Generator().manual_seed(0))
    x = torch.randn(5, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    states, size = rank.run_way(x, layers, [None, None], rank.WAYS["attention twice as large"])
    once = run_layer(x, rank.scale_attention(first, 2.0))
    twice = run_layer(once.second, rank.scale_attention(second, 2.0))
    torch.testing.assert_close(torch.stack(states), torch.stack([x, once.second, twice.second]))
    shares = [
        part.attention_output.square().sum().sqrt() / read.square().sum().sqrt()
        for part, read in ((once, x), (twice, once.second))
    ]
    assert size.item() == pytest.approx(np.mean(shares))


def test_a_document_in_every_way_is_beside_its_own_end(monkeypatch):
    layers = random_layers(2, 2, 8, generator=torch.Generator().manual_seed(0))
    x = torch.randn(5, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    own = run_layer(run_layer(x, layers[0]).second, layers[1]).second
    other = torch.randn(5, 8, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    ways = {"own": ([x, x, own], torch.tensor(0.5)), "other": ([x, x, other], torch.tensor(0.25))}
    monkeypatch.setattr(rank, "WAYS", {name: name for name in ways})
    monkeypatch.setattr(rank, "run_way", lambda start, layers, fits, way: ways[way])
    for k, name in enumerate(("_look_at_hidden_rows", "_shrink", "_try_fit")):
        monkeypatch.setattr(rank, name, lambda x, layer, *_, k=k: x.sum() + k)
    states = torch.stack([x, run_layer(x, layers[0]).second, own])
    found = rank.measure_document(states, layers, [None, None])
    a, b = own.mean(0), other.mean(0)
    assert found["cosine"].tolist() == pytest.approx([1, (a @ b / (a @ a * (b @ b)).sqrt()).item()])
    assert found["size"].tolist() == [0.5, 0.25]
    for way, (run, _) in enumerate(ways.values()):
        for k, rows in enumerate(run):
            residual = (rows - rows.mean(0)).norm() / rows.norm()
            assert found["residual"][k, way] == pytest.approx(math.log10(residual))
    for k, name in enumerate(("hidden", "factor", "fit")):
        assert found[name].tolist() == pytest.approx([states[0].sum().item() + k, states[1].sum().item() + k])


def test_what_a_layer_mixes_is_a_mean_over_documents_in_the_controls(monkeypatch):
    monkeypatch.setattr(stream.checkpoints, "find", lambda name: name)
    monkeypatch.setattr(stream.pretrained, "tokenizer", lambda checkpoint: "words")
    monkeypatch.setattr(stream.pretrained, "load", lambda checkpoint, control_seed, device: control_seed)
    drawn = [SimpleNamespace(network=(seed, k)) for seed in SEEDS for k in range(len(LADDER))]
    monkeypatch.setattr(stream, "make_controls", lambda trained, load, rungs: drawn)

    def measure_network(network, tokenizer, each=None, by_kind=False):
        if network is None:
            assert (by_kind, each, tokenizer) == (True, None, "words")
            return {"cosine": np.arange(6.0).reshape(3, 2)}
        assert (by_kind, each) == (False, stream.EACH)
        seed, rung = network
        return {"cosine": np.array([[seed, rung], [seed + 2, rung + 4], [seed + 1, rung - 1]])}

    monkeypatch.setattr(stream, "measure_network", measure_network)
    found = stream.compute(CPU).arrays
    assert found["cosine"].tolist() == [[0, 1], [2, 3], [4, 5]]
    there = found["cosine" + CONTROLS]
    assert there[:, :, 0].tolist() == [[seed + 1 for seed in SEEDS]] * len(LADDER)
    assert there[:, :, 1].tolist() == [[k + 1] * len(SEEDS) for k in range(len(LADDER))]


def test_nats_of_every_layer_are_those_of_its_split_without_a_mask(minilm, monkeypatch):
    monkeypatch.setattr(one_score, "TEXTS", 1)
    tokenizer = pretrained.tokenizer(minilm)
    ids = [torch.tensor(tokenizer(text)["input_ids"]) for text in LONG]
    monkeypatch.setattr(one_score, "inputs", lambda checkpoint: ids)
    found = one_score.measure_ladder(CPU).arrays
    trained = pretrained.load(minilm, dtype=torch.float64)

    def nats(network, texts):
        states = [states_of(network, tokenizer, text) for text in texts]
        rows = []
        for i, layer in enumerate(load(network).plain_layers()):
            whole, parts, *_ = one_score.split_layer([of_text[i] for of_text in states], layer, False)
            rows.append([whole.mean(), parts[:, 0].mean(), parts[:, 1].mean(), parts[:, 2].mean()])
        return np.array(rows)

    np.testing.assert_allclose(found["trained"], nats(trained, LONG[:1]), rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(one_score.nats(trained, ids), nats(trained, LONG), rtol=1e-5, atol=1e-9)
    assert found["controls"].shape == (len(RUNGS), len(SEEDS), LAYERS, 4)
    random = pretrained.load(minilm, control_seed=2, dtype=torch.float64)
    np.testing.assert_allclose(found["controls"][0, 2], nats(random, LONG[:1]), rtol=1e-5, atol=1e-9)


def test_scores_and_products_of_values_of_a_network_and_of_one_control_of_each_rung(minilm, monkeypatch):
    monkeypatch.setattr(sentence, "MODELS", {"minilm": "base"})
    monkeypatch.setattr(sentence, "TEXT", LONG[0])
    found = sentence.compute(CPU).arrays
    trained, tokenizer = pretrained.load(minilm, dtype=torch.float64), pretrained.tokenizer(minilm)

    def draw(seed):
        return pretrained.load(minilm, control_seed=seed, dtype=torch.float64)

    networks = [trained, *(control.network for control in make_controls(trained, draw, seeds=[0]))]
    assert len(found["minilm_scores"]) == len(found["minilm_products"]) == len(networks) == 1 + len(RUNGS)
    for k, network in enumerate(networks):
        states = states_of(network, tokenizer, LONG[0])
        for i, layer in enumerate(load(network).layers):
            x = states[i]
            for h in range(HEADS):
                scores = (x @ layer.W_Q[h] + layer.b_Q[h]) @ (x @ layer.W_K[h] + layer.b_K[h]).T / CHANNEL**0.5
                scores = (scores - scores.amax(1, keepdim=True)).clamp_min(-sentence.MARGIN)
                np.testing.assert_allclose(found["minilm_scores"][k, i, h], scores, rtol=2e-3, atol=2e-3)
                rows = (x @ layer.W_V[h] + layer.b_V[h]) @ layer.W_O[h]
                rows = rows - rows.mean(0)
                products = rows @ rows.T / (rows @ rows.T).max()
                np.testing.assert_allclose(found["minilm_products"][k, i, h], products, rtol=2e-3, atol=2e-3)


def test_shares_of_entropy_of_every_seed(monkeypatch):
    monkeypatch.setattr(weighted_mean, "find_run", lambda seed, device: f"run {seed}")
    monkeypatch.setattr(weighted_mean.checkpoints, "find", lambda name: int(name.split()[1]))

    def entropy_shares(checkpoint, passages, device):
        assert passages == weighted_mean.PASSAGES
        return torch.stack([torch.full((2, 3), float(checkpoint)), torch.full((2, 3), 99.0)])

    monkeypatch.setattr(weighted_mean, "entropy_shares", entropy_shares)
    found = weighted_mean.measure_seeds(CPU).arrays["shares"]
    assert found.shape == (len(weighted_mean.SEEDS), 2, 3)
    assert found[:, 1, 2].tolist() == list(weighted_mean.SEEDS)


def test_output_projections_are_counted_over_files(monkeypatch, tmp_path):
    for folder, judged in {"one": "own own none", "two": "beside none", "three": "own"}.items():
        (tmp_path / "models" / folder).mkdir(parents=True)
        (tmp_path / "models" / folder / f"modeling_{folder}.py").write_text(judged)
        (tmp_path / "models" / folder / "configuration.py").write_text("none none")
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(weighted_mean.importlib.util, "find_spec", lambda name: spec)
    judge = lambda source: [(f"{where.title()}{k}", where) for k, where in enumerate(source.split())]  # noqa: E731
    monkeypatch.setattr(weighted_mean, "judge", judge)
    values = weighted_mean.compute(CPU).values
    assert [values[where].value for where in ("own", "beside", "none")] == [3, 1, 2]
    assert (values["own"].n, values["modules"].value, values["files"].value) == (6, 6, 3)
    assert values["without"] == Value("one.None2, two.None1")


def test_a_gene_of_each_class_is_measured_and_four_are_averaged(monkeypatch):
    genes = [SimpleNamespace(label=label, bases=label * (i + 1)) for i in range(6) for label in "ab"]
    data = SimpleNamespace(genes=genes, labels=("a", "b"), parts=SimpleNamespace(test=range(1, 12)))
    run = SimpleNamespace(data=data, model="model", control=lambda: "random")
    monkeypatch.setattr(classifier.checkpoints, "find", lambda name: SimpleNamespace(folder=name))
    monkeypatch.setattr(classifier.variant_measures, "open_run", lambda folder, device: run)
    monkeypatch.setattr(classifier, "CLASS", "b")
    monkeypatch.setattr(classifier, "survey_networks", lambda run, gene: {"of": np.array(len(gene.bases))})
    monkeypatch.setattr(classifier, "encode", lambda data, gene: {"bases": gene.bases})
    monkeypatch.setattr(classifier.survey, "run", lambda model, bases: (model, len(bases)))
    rows = lambda passage: {"cone": np.array(passage[1]), "padded_code_cone": np.array(-passage[1]), "x": np.ones(1)}  # noqa: E731
    monkeypatch.setattr(classifier.survey, "measure_rows", rows)
    means = lambda model, data, genes: {"m": np.array([len(model), *(len(some) for some in genes.values())])}  # noqa: E731
    monkeypatch.setattr(classifier, "survey_class_means", means)
    monkeypatch.setattr(classifier.code, "padded_words", lambda bases: bases)
    found = classifier.compute(CPU).arrays
    assert found["of"] == 1  # the first of class b
    assert found["classes/cone"].tolist() == [2, 1]  # the first a is no test sequence
    assert found["classes/padded_code_cone"].tolist() == [-2, -1]
    assert (found["trained/m"].tolist(), found["random/m"].tolist()) == ([5, 4, 4], [6, 4, 4])
    assert found["words"].tolist() == [[2, 3, 4, 5], [1, 2, 3, 4]]
    assert "classes/x" not in found


def test_rows_of_a_sequence_grow_over_what_they_were(monkeypatch):
    monkeypatch.setattr(sequence, "row_norms", lambda x, attention, head: torch.tensor([[2.0, 4.0], [3.0, 8.0]]))
    monkeypatch.setattr(sequence, "load", lambda network: SimpleNamespace(encoder_layers=lambda: [plain_layer] * 12))
    plain_layer = SimpleNamespace(attention=plain(2))
    statistics = torch.arange(12.0)
    monkeypatch.setattr(sequence.layer_profile, "sums", lambda s: {"second": statistics, "total": statistics[:1]})
    monkeypatch.setattr(sequence.layer_profile, "singular_values", lambda s: dict.fromkeys(spectra, statistics[:2]))
    spectra = sequence.TUNED_SPECTRA_OF
    monkeypatch.setattr(sequence.layer_profile, "row_statistics", lambda s: {"first": 2 * statistics})
    maps = torch.full((2, 16, 16), 1 / 16)
    stations = [SimpleNamespace(x=None, attention=maps)] * 12
    found = sequence._measure(None, stations, [(0, 0), (3, 1)], [1, 4])
    assert found["growth"].tolist() == [[1.5, 2]]
    assert found["row_D"].tolist() == [2, 8]
    assert found["sums"].tolist() == [1, 4]
    assert found["total"].tolist() == [0]
    assert found["maps"].shape[0] == 2


def test_the_passage_is_the_first_test_sequence_of_its_class_and_the_trained_networks_tokens(monkeypatch):
    genes = [SimpleNamespace(label=label) for label in (sequence.CLASS, "other", sequence.CLASS, sequence.CLASS)]
    data = SimpleNamespace(genes=genes, parts=SimpleNamespace(test=[1, 2, 3]))
    data.encode = lambda some, positions, device: (some, positions, device)
    run = SimpleNamespace(data=data, model="trained model", control=lambda: "random model")
    passed = lambda model, coded: (f"stations of {model}", f"tokens of {model}")  # noqa: E731
    monkeypatch.setattr(sequence.variant_measures, "pass_all", passed)
    found = sequence.pass_example(run, CPU)
    assert found.gene is genes[2]
    assert found.coded == ([genes[2]], sequence.dna_classifier.POSITIONS, CPU)
    assert found.stations == {"trained": "stations of trained model", "control": "stations of random model"}
    assert found.keep == "tokens of trained model"
    assert found.models == {"trained": "trained model", "control": "random model"}


def test_errors_of_the_rewriting_are_the_largest_over_the_largest_entry():
    layer = random_layer(causal=True)
    g = torch.Generator().manual_seed(5)
    e, p = torch.randn(2, 7, 12, generator=g, dtype=torch.float64) / 4
    found = first_layer.equality(e, p, layer, no_norm(12, 1e-5))
    for name in ("attention", "output", "four_terms", "two_terms", "six_terms", "value_folded", "no_key_bias"):
        assert found[name] < 1e-9
    x = (e + p) - (e + p).mean(1, keepdim=True)
    x /= (x.square().mean(1, keepdim=True) + 1e-5).sqrt()
    outputs = []
    for b_Q in (layer.b_Q, 0 * layer.b_Q):
        total = layer.b_O.clone()
        for h in range(3):
            scores = (x @ layer.W_Q[h] + b_Q[h]) @ (x @ layer.W_K[h] + layer.b_K[h]).T / 2
            weights = scores.masked_fill(torch.ones(7, 7).triu(1).bool(), -torch.inf).softmax(1)
            total = total + weights @ (x @ layer.W_V[h] + layer.b_V[h]) @ layer.W_O[h]
        outputs.append(total)
    error = (outputs[1] - outputs[0]).abs().max() / outputs[0].abs().max()
    assert found["no_query_bias"] == pytest.approx(error.item())


def test_a_call_is_timed_with_its_result(monkeypatch):
    clock = iter([3.0, 7.5])
    monkeypatch.setattr(cost.time, "process_time", lambda: next(clock))
    assert cost._clock(lambda a, b: a - b, 5, 3) == (4.5, 2)


def test_a_padded_sequence_runs_through_three_layers_as_in_the_network():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = BertConfig(
            num_hidden_layers=3, num_attention_heads=2, hidden_size=8, intermediate_size=8, vocab_size=20
        )
        model = BertModel(config).eval()
    ids, mask = torch.tensor([[3, 4, 5, 6, 0, 0]]), torch.tensor([[1, 1, 1, 1, 0, 0]])
    with torch.no_grad():
        states = model(ids, attention_mask=mask, output_hidden_states=True).hidden_states
    found = survey.run(model, ids, mask)
    assert found.keep.tolist() == [True] * 4 + [False] * 2
    for x, due in zip(found.states, states, strict=True):
        torch.testing.assert_close(x[:4], due[0, :4])
