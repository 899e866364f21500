"""A report from the command line: the page, its numbers, other families, interruptions, refusals."""

import base64
import json
import re
import shutil
import wave

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from torch.nn.modules.module import register_module_forward_pre_hook

import analysis
import analysis.cli
from analysis.cli import build_parser
from analysis.cli import report as command
from analysis.data import sounds
from analysis.models import checkpoints, pretrained, sound_models
from analysis.models.families.tiny import tiny_model
from analysis.reporting import making, origins
from analysis.reporting.page import Section, render
from tests.analysis.reporting.random_models import make_random, save
from tests.analysis.tiny import change_tensors

TEXTS = "\n\n".join(
    f"Text {number}: every row of an attention map sums to one, whatever the scores of the row are."
    for number in range(3)
)


def run(*words: str) -> int:
    """Run the command as ``python -m analysis report`` does."""
    arguments = build_parser(analysis.cli, "analysis", "").parse_args(["report", *words])
    arguments.command_line = "python -m analysis report"
    return command.run(arguments)


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text(TEXTS)
    return str(path)


def written(folder) -> tuple[str, dict]:
    return (folder / "index.html").read_text(), json.loads((folder / "report.json").read_text())


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Write a report of gpt2-mini on three texts; return its folder."""
    folder = tmp_path_factory.mktemp("report")
    (folder / "texts.txt").write_text(TEXTS)
    run("gpt2-mini", "--texts", str(folder / "texts.txt"), "--out", str(folder / "out"))
    return folder / "out"


def test_a_report_of_gpt2_mini(whole):
    page, numbers = written(whole)
    assert not re.search(r'(?:src|href)="https?:', page), "asks for something outside of the page"
    assert not re.search(r"<script[^>]+src|@import|url\((?!#)", page)
    names = re.findall(r'\bid="([^"]+)"', page)
    assert len(names) == len(set(names)), "has an id twice"
    assert len(numbers["parameters"]) == 2
    assert numbers["trained"]["texts"] == 3
    assert set(numbers["controls"]) == {"random", "random, as large", "permuted"}
    gates = np.array(numbers["trained"]["gates"]) / 3
    np.testing.assert_allclose(gates.sum(-1), 1, atol=1e-4)
    for title in ("Biases", "Preferred positions", "Parts of the score", "Gates", "Sinks", "Heads worth a look"):
        assert f">{title}</h2>" in page
    carried = dict(re.findall(r'download="([^"]+)" href="data:text/plain;base64,([^"]+)"', page))
    assert sorted(carried) == ["heads.csv", "report.json"]
    for name, text in carried.items():
        assert base64.b64decode(text) == (whole / name).read_bytes()


@pytest.mark.slow
def test_an_interrupted_report_goes_on_to_the_same_numbers(whole, tmp_path, texts):
    parted, forwards = tmp_path / "parted", []

    def interrupt(module, _):
        forwards.extend([1] * (type(module).__name__ == "GPT2Model"))
        if len(forwards) == 12:
            raise KeyboardInterrupt

    hook = register_module_forward_pre_hook(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            run("gpt2-mini", "--texts", texts, "--out", str(parted))
    finally:
        hook.remove()
    assert not (parted / "index.html").exists()
    run("gpt2-mini", "--texts", texts, "--out", str(parted))
    numbers, due = written(parted)[1], written(whole)[1]
    assert set(numbers.pop("provenance")) == set(due.pop("provenance"))
    assert numbers == due


FAMILIES = {
    "qwen2": ("Qwen2Config", {"num_key_value_heads": 2}, "rotary"),
    "gpt_neox": ("GPTNeoXConfig", {}, "rotary"),
    "llama": ("LlamaConfig", {"num_key_value_heads": 2}, "rotary"),
    "opt": ("OPTConfig", {"ffn_dim": 32, "word_embed_proj_dim": 32}, "learned"),
}


def save_random(folder, kind: str, **options) -> None:
    """Write a random model as transformers does, with the tokenizer of gpt2-mini."""
    model = make_random(kind, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, **options)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter)
    save(model, folder)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_a_report_of_a_random_model_of_another_family(family, tmp_path, texts):
    kind, options, positions = FAMILIES[family]
    save_random(tmp_path / family, kind, **options)
    run(str(tmp_path / family), "--texts", texts, "--out", str(tmp_path / "out"))
    page, numbers = written(tmp_path / "out")
    assert numbers["about"]["Positions"].startswith(positions)
    assert numbers["not_run"] == ""
    assert numbers["trained"]["texts"] == 3
    assert ("Preferred distances" in page) == (positions == "rotary")
    parts, mean_parts = (np.array(numbers["trained"][name]) for name in ("parts", "mean_parts"))
    np.testing.assert_allclose(parts.sum(-1), mean_parts.sum(-1), rtol=1e-3, atol=1e-5)
    if family != "llama":
        assert (np.abs(parts[..., :2]) > 0).any((0, 1)).all()
        moves = np.abs(parts[..., 2:]).max()
        assert moves > 1e-6 if positions == "rotary" else moves < 1e-6, "b_K cancels without rotary positions only"
    else:
        assert np.abs(parts[..., 1:]).max() < 1e-12, "a model without biases has content alone, counted from 0"
        assert np.abs(mean_parts[..., 3]).max() > 1e-6, "and a kernel, counted from the mean input"


@pytest.mark.slow
def test_a_model_without_biases_has_the_kernel_of_its_mean_input(tmp_path, texts):
    """Hold the kernel to the model's own mean query and key."""
    save_random(tmp_path / "llama", "LlamaConfig", num_key_value_heads=2, initializer_range=0.3)
    run(str(tmp_path / "llama"), "--texts", texts, "--seeds", "1", "--out", str(tmp_path / "out"))
    numbers = written(tmp_path / "out")[1]

    from transformers import LlamaModel
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    checkpoint = checkpoints.find(str(tmp_path / "llama"))
    tokenizer = pretrained.tokenizer(checkpoint)
    model = LlamaModel.from_pretrained(checkpoint.folder).eval()
    seen = []
    attention = model.layers[1].self_attn
    attention.register_forward_pre_hook(lambda _, args, named: seen.append(named["hidden_states"][0]), with_kwargs=True)
    with torch.no_grad():
        for ids in making.tokenise(tokenizer, TEXTS.split("\n\n"), 64).ids:
            model(ids)
        mean = torch.cat(seen).mean(0)
        query, key = attention.q_proj(mean).view(1, 4, 1, 8), attention.k_proj(mean).view(1, 2, 1, 8)
        places = torch.arange(128)[None]
        cos, sin = model.rotary_emb(mean[None, None], places)
        key = key.repeat_interleave(2, 1)
        query, key = apply_rotary_pos_emb(*(rows.expand(-1, -1, 128, -1) for rows in (query, key)), cos, sin)
        line = (query[0] @ key[0, :, :1].mT)[..., 0] / 8**0.5
    np.testing.assert_allclose(numbers["mean_kernels"][1], line - line.mean(-1, keepdim=True), rtol=1e-4, atol=1e-4)
    assert np.ptp(line.numpy(), axis=-1).max() > 1e-3


def test_a_model_of_images_is_read_and_not_run(tmp_path):
    from transformers import ViTConfig, ViTModel

    sizes = {"hidden_size": 32, "intermediate_size": 32, "image_size": 8, "patch_size": 4}
    ViTModel(ViTConfig(num_hidden_layers=2, num_attention_heads=4, **sizes)).save_pretrained(tmp_path / "vit")
    run(str(tmp_path / "vit"), "--out", str(tmp_path / "out"))
    page, numbers = written(tmp_path / "out")
    assert numbers["trained"] is None
    assert numbers["not_run"]
    assert "The model was not run" in page
    assert len(numbers["parameters"]) == 2


def test_parameters_alone_are_enough_where_only_they_are_there(tmp_path, texts):
    save_random(tmp_path / "whole", "LlamaConfig")
    change_tensors(tmp_path / "whole", lambda tensors: {name: tensors[name] for name in tensors if "mlp" not in name})
    run(str(tmp_path / "whole"), "--texts", texts, "--out", str(tmp_path / "out"))
    assert "lack" in written(tmp_path / "out")[1]["not_run"]


def test_a_model_that_does_not_fit_is_read_layer_by_layer(tmp_path, texts, monkeypatch):
    from analysis.models import memory

    save_random(tmp_path / "llama", "LlamaConfig")
    monkeypatch.setattr(memory, "available_memory", lambda device="cpu": 1000)
    run(str(tmp_path / "llama"), "--texts", texts, "--out", str(tmp_path / "out"))
    numbers = written(tmp_path / "out")[1]
    assert "GB of memory" in numbers["not_run"]
    assert len(numbers["parameters"]) == 2


@pytest.mark.slow
def test_the_function_of_the_face_writes_what_the_command_writes(whole, tmp_path, texts):
    page = analysis.report(analysis.load("gpt2-mini"), out=tmp_path / "out", texts=texts)
    assert page == tmp_path / "out" / "index.html"
    (mine, numbers), (theirs, due) = written(page.parent), written(whole)
    how, how_due = numbers.pop("provenance"), due.pop("provenance")
    assert numbers == due
    assert how["Command"] == "analysis.report('gpt2-mini', seeds=5, longest=128)" != how_due["Command"]
    assert mine.split("How it was measured")[0] == theirs.split("How it was measured")[0]


def test_a_module_in_memory_is_reported_on_and_certified_as_its_files_are(tmp_path):
    module = pretrained.load(checkpoints.find("gpt2-mini"))
    given = {"memory": module, "files": "gpt2-mini"}
    pages = [analysis.report(of, out=tmp_path / name, weights_only=True) for name, of in given.items()]
    numbers, due = (json.loads((page.parent / "report.json").read_text()) for page in pages)
    assert numbers["parameters"] == due["parameters"]
    with making.files_of(module) as files:
        assert (files.folder / "tokenizer.json").is_file()
    with making.files_of(tiny_model("llama")) as files:
        assert not (files.folder / "tokenizer.json").is_file()
    assert not files.folder.exists()


def test_a_short_text_is_refused(tmp_path):
    with pytest.raises(ValueError, match="longest must be at least 8, got 7"):
        analysis.report("gpt2-mini", out=tmp_path / "out", longest=7)
    assert not (tmp_path / "out").exists()


def test_nothing_stands_in_for_a_model(tmp_path, monkeypatch):
    monkeypatch.setenv("ANALYSIS_SOURCES", "bundled")
    with pytest.raises(checkpoints.NotFound, match="or take minilm by its name"):
        run("bert", "--out", str(tmp_path / "out"))


def test_names_from_outside_are_text():
    page = render("<script>alert(1)</script>", "&", [Section("<b>", "x", rows=[{"<i>": "<u>"}])], '"><script>')
    assert "<script>" not in page.split("</style>")[1]
    assert "<u>" not in page


def test_pictures_that_are_alike_have_no_common_name():
    figure = Figure()
    for axes in figure.subplots(1, 2):
        axes.imshow(np.eye(3))
    page = render("A", "B", [Section("C", "D", figure, "alt")], "book")
    names = re.findall(r' id="([^"]+)"', page)
    assert page.count("<image") == 2
    assert len(names) == len(set(names))


@pytest.mark.slow
def test_two_models_stand_side_by_side(tmp_path, texts):
    """Set a model beside a changed copy: the head that was changed is listed first, and each is judged by itself."""
    source = checkpoints.find("gpt2-mini").folder
    changed = shutil.copytree(source, tmp_path / "changed", ignore=shutil.ignore_patterns("SHA256*", "*.sha256"))
    heads = pretrained.load(checkpoints.find("gpt2-mini")).config.n_head

    def level(tensors):
        """Take the queries of the last head of the last layer away: it attends evenly."""
        [name] = [name for name in tensors if name.endswith("h.1.attn.c_attn.weight")]
        width = tensors[name].shape[0]
        for part in (tensors[name].T, tensors[name.replace("weight", "bias")]):
            part[width - width // heads : width] = 0
        return tensors

    change_tensors(changed, level)
    run("gpt2-mini", "--beside", str(changed), "--texts", texts, "--seeds", "1", "--out", str(tmp_path / "out"))
    page, numbers = written(tmp_path / "out")
    section = page.split(">Side by side</h2>")[1].split("</section>")[0]
    places = re.findall(r"<tr><td>(\d+)</td><td>(\d+)</td>", section)
    assert places == [("1", str(heads - 1))], "other heads are as they were"
    other = numbers["beside_model"]
    entropy = np.array(other["trained"]["heads"])[-1, -1, 0] / other["trained"]["texts"]
    assert entropy == pytest.approx(1, abs=1e-4)
    assert other["about"]["Model"] != numbers["about"]["Model"]
    assert len((tmp_path / "out" / "heads-beside.csv").read_text().splitlines()) == 1 + 2 * heads


@pytest.fixture
def t5(tmp_path):
    """Write a random T5 whose buckets matter; return its folder."""
    from transformers import AutoTokenizer, T5Config, T5Model

    tokenizer = AutoTokenizer.from_pretrained(checkpoints.find("gpt2-mini").folder)
    torch.manual_seed(0)
    config = T5Config(vocab_size=2048, d_model=32, d_kv=8, d_ff=32, num_layers=2, num_heads=4)
    model = T5Model(config)
    torch.nn.init.normal_(model.encoder.block[0].layer[0].SelfAttention.relative_attention_bias.weight)
    for of in (model, tokenizer):
        of.save_pretrained(tmp_path / "t5")
    return tmp_path / "t5"


@pytest.mark.slow
def test_the_encoder_of_a_t5_is_run_with_its_buckets(t5, tmp_path, texts):
    """Hold the maps to the library's own."""
    model, ids = pretrained.load(checkpoints.find(str(t5))), torch.arange(40)[None]
    assert type(model).__name__ == "T5EncoderModel"
    own = model(ids, output_attentions=True).attentions
    np.testing.assert_allclose(making.draw_maps(model, ids), torch.cat(own).numpy(), atol=1e-6)
    run(str(t5), "--texts", texts, "--seeds", "1", "--out", str(tmp_path / "out"))
    _, numbers = written(tmp_path / "out")
    assert numbers["not_run"] == ""
    assert numbers["trained"]["texts"] == 3
    assert "buckets" in numbers["not_split"]
    assert numbers["about"]["Part"] == "encoder"


@pytest.fixture(scope="module")
def whisper(tmp_path_factory):
    """Write a random Whisper with 64 positions, without tokenizer; return its folder and itself."""
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    torch.manual_seed(0)
    heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
    config = WhisperConfig(
        vocab_size=100, num_mel_bins=8, d_model=32, encoder_layers=2, decoder_layers=1, encoder_ffn_dim=48,
        decoder_ffn_dim=48, max_source_positions=64, pad_token_id=0, bos_token_id=1, eos_token_id=2, **heads
    )  # fmt: skip
    model = WhisperForConditionalGeneration(config).eval()
    folder = tmp_path_factory.mktemp("whisper") / "whisper"
    model.save_pretrained(folder)
    return folder, model


@pytest.mark.slow
def test_the_encoder_of_a_whisper_is_run_and_the_page_says_on_what(whisper, tmp_path):
    folder, model = whisper
    run(str(folder), "--seeds", "3", "--count", "2", "--longest", "24", "--out", str(tmp_path / "out"))
    page, numbers = written(tmp_path / "out")
    assert numbers["not_run"] == ""
    assert numbers["trained"]["texts"] == 2
    assert numbers["about"]["Part"] == "encoder"
    assert "No recording comes with the package, so the encoder was given 2 sounds that were made" in page
    assert len(numbers["tokens"]) == 24
    due = encoder_maps(model, sounds.make(2), 24)
    entropy = [float(torch.special.entr(of).sum(-1).mean() / np.log(24)) for of in due]  # of each layer, over all heads
    heads = np.array(numbers["trained"]["heads"])[..., 0] / 2
    np.testing.assert_allclose(heads.mean(-1), entropy, atol=1e-5)


def encoder_maps(model, heard, positions: int) -> torch.Tensor:
    """Return the maps of the library's own encoder, its table of positions cut."""
    encoder, whole = model.model.encoder, model.config.max_source_positions
    frames = torch.cat(sound_models.frames_of(heard, 8, positions))
    table = encoder.embed_positions
    encoder.embed_positions, model.config.max_source_positions = torch.nn.Embedding(positions, 32), positions
    encoder.embed_positions.weight.data[:] = table.weight[:positions]
    try:
        with torch.no_grad():
            model.set_attn_implementation("eager")
            return torch.stack(encoder(frames, output_attentions=True).attentions)
    finally:
        encoder.embed_positions, model.config.max_source_positions = table, whole


def test_the_mean_query_of_a_whisper_is_over_positions_and_not_frames(whisper):
    encoder = sound_models.load_sound_encoder(checkpoints.find(str(whisper[0])))
    heard = sound_models.frames_of(sounds.make(2), 8, 24)
    [(query, _), *_] = origins.mean_queries_and_keys(encoder, heard)
    with torch.no_grad():
        states = torch.cat([encoder(each, output_hidden_states=True).hidden_states[0] for each in heard], 1)[0]
        layer = encoder.encoder.layers[0]
        rows = layer.self_attn.q_proj(layer.self_attn_layer_norm(states))
    np.testing.assert_allclose(query.flatten(), rows.mean(0), atol=1e-6)  # before a Whisper scales it
    assert encoder.config.max_source_positions == 64, "the table of positions is not put back"


@pytest.mark.slow
def test_a_whisper_is_run_on_recordings_and_says_whose(whisper, tmp_path):
    folder = tmp_path / "recordings"
    folder.mkdir()
    with wave.open(str(folder / "a.wav"), "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes((sounds.make(1)[0] * 2**15).astype("<i2").tobytes())
    options = ["--texts", str(folder), "--seeds", "1", "--longest", "24", "--out", str(tmp_path / "out")]
    run(str(whisper[0]), *options)
    page, numbers = written(tmp_path / "out")
    assert "No recording comes" not in page
    assert str(folder) in numbers["provenance"]["Sounds"]


def test_a_whisper_does_not_stand_beside_a_model_that_reads(whisper, tmp_path):
    with pytest.raises(ValueError, match="beside must read texts or sounds as model does"):
        run(str(whisper[0]), "--beside", "gpt2-mini", "--out", str(tmp_path / "out"))


def test_tokens_are_named_as_one_reads_them(whole):
    tokens = written(whole)[1]["tokens"]
    assert tokens[:6] == ["T", "ext", "·0", ":", "·e", "ver"]
    assert not [token for token in tokens if "Ġ" in token]


def test_a_model_whose_run_cannot_be_measured_leaves_nothing_half_measured(tmp_path, texts):
    """With rows without spread, observing ends after it has begun: the page has the weights, and says why no more."""
    save_random(tmp_path / "llama", "LlamaConfig", rms_norm_eps=1e300)
    run(str(tmp_path / "llama"), "--texts", texts, "--seeds", "1", "--out", str(tmp_path / "out"))
    page, numbers = written(tmp_path / "out")
    assert "without spread" in numbers["not_run"]
    assert "The model was not run: " in page
    assert numbers["parameters"]
    assert (numbers["trained"], numbers["beside"], numbers["controls"]) == (None, None, {})
    assert (numbers["mean_kernels"], numbers["tokens"], numbers["not_split"]) == ([], [], "")
    assert not (tmp_path / "out" / "heads.csv").exists()
