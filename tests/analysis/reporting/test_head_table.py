"""A census of heads: its columns against maps that are read by hand, its forms, its refusals."""

import json

import numpy as np
import pytest
import torch
from tokenizers import processors
from transformers import T5Config, T5EncoderModel

from analysis import census, load
from analysis.data import texts
from analysis.models import pretrained
from analysis.models.checkpoints import find
from analysis.models.families.tiny import tiny_model
from analysis.reporting import head_table
from analysis.reporting.observations import tokenise
from analysis.reporting.state import State

TEXTS = ["One should never be too sure of what one has read so far, or of what comes next.", "A second, shorter text."]


def test_columns_are_means_of_the_models_maps():
    model, tokenizer = pretrained.load(find("minilm")), pretrained.tokenizer(find("minilm"))
    table = census(model, TEXTS, tokenizer=tokenizer)
    maps = [torch.stack(model(**tokenizer(t, return_tensors="pt"), output_attentions=True).attentions) for t in TEXTS]
    previous = np.mean([m[:, 0].diagonal(-1, -2, -1).mean(-1).numpy() for m in maps], 0)
    entropy = [(-(m[:, 0] * m[:, 0].log()).sum(-1).mean(-1) / np.log(m.shape[-1])).numpy() for m in maps]
    np.testing.assert_allclose(table.columns["previous"], previous, atol=1e-6)
    np.testing.assert_allclose(table.columns["entropy"], np.mean(entropy, 0), atol=1e-5)
    assert "induction" not in table.columns
    assert (table.texts, table.tokens) == (2, sum(m.shape[-1] for m in maps))


def test_a_name_is_enough_and_a_causal_model_is_scored_for_induction():
    table = census("gpt2-mini", TEXTS)
    model, tokenizer = pretrained.load(find("gpt2-mini")), pretrained.tokenizer(find("gpt2-mini"))
    again = census(model, TEXTS, tokenizer=tokenizer)
    for name, column in table.columns.items():
        assert np.array_equal(column, again.columns[name]), name
    assert 0 < table.columns["induction"].max() < 0.05  # it has no such head: two layers, trained on prose
    assert table.columns["next"].max() == 0


@pytest.mark.parametrize("kind", ["mistral", "gemma2", "gpt_oss", "bloom", "falcon"])
def test_windows_caps_sinks_and_own_attention_code_are_measured(kind):
    """The library's registry of attention functions hands out none of these, or not all of it."""
    model, words = tiny_model(kind, vocab_size=2048).float(), pretrained.tokenizer(find("gpt2-mini"))
    table = census(model, TEXTS[:1], tokenizer=words)
    ids = words(TEXTS[:1], return_tensors="pt").input_ids
    maps = torch.stack(model(ids, output_attentions=True).attentions)[:, 0]
    np.testing.assert_allclose(table.columns["sink"], maps.mean(-2).amax(-1), atol=1e-5)
    np.testing.assert_allclose(table.columns["previous"], maps.diagonal(-1, -2, -1).mean(-1), atol=1e-5)
    assert 0 < table.columns["entropy"].min() < table.columns["entropy"].max() <= 1


def test_measures_heads_and_queries_can_be_chosen():
    """Gates take most of the time, so they are read on request."""
    whole, model = census("gpt2-mini", TEXTS[:1]), pretrained.load(find("gpt2-mini"))
    assert "directional" not in whole.columns
    chosen = census("gpt2-mini", TEXTS[:1], measures=["sink", "induction", "gates"], heads=[(1, 7), (0, 4)])
    assert {"sink", "induction", "directional"} < chosen.columns.keys()
    assert "entropy" not in chosen.columns
    assert [(row["layer"], row["head"]) for row in chosen.rows()] == [(0, 4), (1, 7)]
    for row in chosen.rows():
        for name in ("sink", "induction"):
            assert row[name] == pytest.approx(whole.columns[name][row["layer"], row["head"]], abs=1e-9)
    assert "sink" in repr(chosen)
    last = census("gpt2-mini", TEXTS[:1], measures=["entropy", "previous", "next"], queries=slice(-1, None))
    ids = pretrained.tokenizer(find("gpt2-mini"))(TEXTS[:1], return_tensors="pt").input_ids
    rows = torch.stack(model(ids, output_attentions=True).attentions)[:, 0, :, -1]
    np.testing.assert_allclose(last.columns["previous"], rows[..., -2], atol=1e-6)
    due = torch.special.entr(rows).sum(-1) / np.log(rows.shape[-1])
    np.testing.assert_allclose(last.columns["entropy"], due, atol=1e-5)
    assert np.isnan(last.columns["next"]).all()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"measures": ["entropy", "gate"]}, r"measures must be some of entropy, .*, gates, got \['entropy', 'gate'\]"),
        ({"measures": "entropy"}, "measures must be some of"),
        ({"heads": [(2, 0)]}, r"heads must be \(layer, head\), 0\.\.1 and 0\.\.7, got \(2, 0\)"),
        ({"queries": slice(0, 9, 2)}, "queries must be a slice of neighbouring tokens"),
        ({"queries": slice(9), "measures": ["gates"]}, "gates are read in whole maps"),
        ({"batch": 0}, "batch must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_chosen_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        census("gpt2-mini", TEXTS, **options)


def test_maps_that_do_not_fit_are_refused_before_the_model_runs():
    model = tiny_model("llama", vocab_size=2048, max_position_embeddings=10**6).float()
    words, text = pretrained.tokenizer(find("gpt2-mini")), "the model reads a text " * 20_000
    said = r"one layer's 4 maps of 1 x \d+,\d{3} tokens needs.*GB.*: read at most [\d,]+ tokens \(longest\), or fewer"
    with pytest.raises(MemoryError, match=said):
        census(model, [text], tokenizer=words, longest=10**6)
    with pytest.raises(MemoryError, match=said):
        census(model, words([text], return_tensors="pt"))


def test_a_word_without_a_row_counts_only_where_a_text_has_it(tmp_path):
    words = pretrained.tokenizer(find("gpt2-mini"))
    for rows in (2047, 1500):
        tiny_model("llama", vocab_size=rows).save_pretrained(tmp_path / str(rows))
        words.save_pretrained(tmp_path / str(rows))
    folder = str(tmp_path / "2047")
    assert census(folder, TEXTS).texts == 2
    with pytest.raises(ValueError, match=r"a text has the token '.*' \(2047\), and the model has 2047 rows for tokens"):
        census(folder, [TEXTS[0] + words.decode([2047])])
    with pytest.raises(ValueError, match="numbers its words up to 2047, and the model has 1500 rows for them"):
        census(str(tmp_path / "1500"), TEXTS)


def test_one_string_is_one_text():
    alone, in_a_list = census("gpt2-mini", TEXTS[0]), census("gpt2-mini", TEXTS[:1])
    assert alone.texts == 1
    assert ", 1 text, " in repr(alone)
    assert alone.to_csv() == in_a_list.to_csv()


def test_a_file_of_texts_is_read_and_its_path_is_not_measured(tmp_path):
    file = tmp_path / "text.txt"
    with pytest.raises(FileNotFoundError):
        census("gpt2-mini", file)
    file.write_text(TEXTS[0], encoding="utf-8")
    for given in (file, str(file), tmp_path):
        assert census("gpt2-mini", given).to_csv() == census("gpt2-mini", TEXTS[0]).to_csv()


@pytest.mark.parametrize("nothing", [[], "", ["short"]])
def test_no_text_is_not_the_bundled_passages(nothing):
    with pytest.raises(ValueError, match=r"none of the [01] texts has 8 tokens or more"):
        census("gpt2-mini", nothing)


LONGER = [*texts.passages(count=4), "A short text that has enough tokens to be read."]


def random_t5(seed=0):
    settings = T5Config(vocab_size=2048, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return T5EncoderModel(settings).eval()


@pytest.mark.parametrize("model", [pytest.param("minilm", marks=pytest.mark.slow), "gpt2-mini", "t5"])
def test_texts_that_are_read_together_are_not_seen_by_each_other(model):
    words = pretrained.tokenizer(find("minilm" if model == "minilm" else "gpt2-mini"))
    model = random_t5() if model == "t5" else pretrained.load(find(model))
    alone, together = (census(model, LONGER, tokenizer=words, batch=batch) for batch in (1, 3))
    assert (alone.texts, alone.tokens) == (together.texts, together.tokens)
    for name, column in alone.columns.items():
        np.testing.assert_allclose(together.columns[name], column, atol=1e-5, err_msg=name)


def test_a_model_that_lies_in_files_and_in_memory_shows_the_same():
    parts = {f"encoder.layer.{i}": "disk" if i % 2 else "cpu" for i in range(6)}
    spread = census("minilm", TEXTS, device_map={"embeddings": "disk", "pooler": "cpu", **parts})
    for name, column in census("minilm", TEXTS).columns.items():
        np.testing.assert_allclose(spread.columns[name], column, atol=1e-6, err_msg=name)


def prepare():
    model, words = pretrained.load(find("gpt2-mini")), pretrained.tokenizer(find("gpt2-mini"))
    return load(model), tokenise(words, LONGER, 64).ids


def test_an_interrupted_census_goes_on_where_it_was(tmp_path):
    """Of the two shortest texts twice as much was kept as there is, so that it shows in the whole."""
    read, ids = prepare()
    whole = head_table.observe_heads(read, ids, batch=2)
    first = head_table.observe_heads(read, sorted(ids, key=lambda of: of.shape[-1])[:2], batch=2)
    state, once = State(tmp_path, "a" * 64), first.heads.copy()
    first.heads *= 2
    state.save("heads, 0 of 1", first)
    resumed = head_table.observe_heads(read, ids, batch=2, state=state)
    assert resumed.texts == 5
    np.testing.assert_allclose(resumed.heads, whole.heads + once, rtol=1e-12)
    other = State(tmp_path, "b" * 64)
    other.save("heads, 0 of 1", resumed)
    state.remove()
    assert [path.name for path in tmp_path.iterdir()] == [".unfinished-bbbbbbbb-heads-0-of-1.npz"]


def test_shares_add_up_to_the_whole_and_batches_do_not_depend_on_them():
    read, ids = prepare()
    whole = head_table.observe_heads(read, ids, batch=2)
    shares = [head_table.observe_heads(read, ids, batch=2, share=(rank, 2)) for rank in (0, 1)]
    assert [share.texts for share in shares] == [3, 2]
    np.testing.assert_allclose(shares[0].gates + shares[1].gates, whole.gates, atol=1e-12)


def test_forms_of_a_table_by_hand():
    table = head_table.HeadTable(
        {"sink": np.array([[0.1, 1 / 3, 0.25], [0.9, 0.0, 0.5]]), "rest": np.array([[1.0, 0.2, 0.3], [0.4, 0.5, 0.6]])},
        texts=2,
        tokens=1234,
    )
    assert table.to_csv() == (
        "layer,head,sink,rest\n0,0,0.1,1\n0,1,0.333333,0.2\n0,2,0.25,0.3\n1,0,0.9,0.4\n1,1,0,0.5\n1,2,0.5,0.6\n"
    )
    assert json.loads(table.to_json())["heads"][1] == {"layer": 0, "head": 1, "sink": 1 / 3, "rest": 0.2}
    assert (json.loads(table.to_json())["texts"], json.loads(table.to_json())["tokens"]) == (2, 1234)
    assert repr(table).splitlines() == [
        "2 layers of 3 heads, 2 texts, 1,234 tokens",
        "       least  median    most  in layer.head",
        "sink    0.00    0.29    0.90  1.0",
        "rest    0.20    0.45    1.00  0.0",
    ]
    assert "1 text, " in repr(head_table.HeadTable(table.columns, 1, 5))
    nothing = head_table.HeadTable({"sink": np.array([[np.nan, 0.5]])}, 1, 5)
    assert json.loads(nothing.to_json())["heads"][0]["sink"] is None


def test_texts_that_are_too_short_or_long_are_said():
    short = census("gpt2-mini", ["Two.", *LONGER, "Three."], longest=16)
    assert (short.texts, short.short, short.cut) == (len(LONGER), 2, 4)
    said = f"2 of {len(LONGER) + 2} texts have fewer than 8 tokens and were left out; 4 were cut to 16 tokens"
    assert repr(short).splitlines()[1] == short.lengths == said
    about = json.loads(short.to_json())
    assert (about["short"], about["cut"]) == (2, 4)
    assert not census("gpt2-mini", "one two three four five six seven eight nine ten").lengths


def test_random_tokens_begin_as_the_tokenizer_begins_every_text():
    words, model = pretrained.tokenizer(find("gpt2-mini")), pretrained.load(find("gpt2-mini"))
    words.backend_tokenizer.post_processor = processors.TemplateProcessing(single="<s> $0", special_tokens=[("<s>", 7)])
    read = []
    keep = lambda _, args, named: read.append([*args, *named.values()][0])  # noqa: E731
    model.register_forward_pre_hook(keep, with_kwargs=True)
    drawn = [census(model, given, tokenizer=words) and read[-1][:, :8] for given in (LONGER[:1], LONGER)]
    assert (drawn[0][:, 0] == 7).all()
    assert drawn[0].equal(drawn[1])
