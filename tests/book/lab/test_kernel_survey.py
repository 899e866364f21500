"""Kernels read off folders in the hub's layout, made at random, against the biases of the loaded modules."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from book.lab.kernel_survey import survey_kernels, survey_model

SIZES = {"hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 32}
GROUPED = {**SIZES, "num_key_value_heads": 2, "head_dim": 16}


def save(folder, name, *, seed=0, dtype=torch.float32, **options):
    """Write a random model with biases into a folder, as transformers saves it."""
    import transformers

    config = getattr(transformers, f"{name}Config")(**options)
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if key.endswith("bias"):
                parameter.normal_()
    model.to(dtype).save_pretrained(folder)
    return model


def expected(b_Q, b_K, frequencies, distances):
    """Return the kernel by turning the key bias as matrices do, one distance at a time."""
    half, rows = len(frequencies), []
    for distance in distances:
        cos, sin = np.cos(distance * frequencies), np.sin(distance * frequencies)
        a, b = b_Q[:, :half], b_Q[:, half : 2 * half]
        turned = np.concatenate([a * cos - b * sin, b * cos + a * sin], 1)
        rows.append((turned * b_K[:, : 2 * half]).sum(1) / np.sqrt(b_Q.shape[1]))
    return np.stack(rows, 1)


def at(survey, layer, distances):
    angle = np.asarray(distances)[:, None, None] * survey["frequencies"][layer] + survey["phase"][layer]
    return (survey["amplitude"][layer] * np.cos(angle)).sum(-1).T


def test_gpt_neox_and_its_cancelling_part(tmp_path):
    model = save(tmp_path, "GPTNeoX", **SIZES)
    survey = survey_model(tmp_path, length=50)
    bias = model.gpt_neox.layers[1].attention.query_key_value.bias.detach().double().view(4, 3, 16).numpy()
    frequencies = model.gpt_neox.rotary_emb.inv_freq.double().numpy()
    kernel = expected(bias[:, 0], bias[:, 1], frequencies, range(50))
    assert np.allclose(at(survey, 1, range(50)), kernel, atol=1e-6)
    assert np.allclose(survey["range"][1], np.ptp(kernel, axis=1), atol=1e-6)
    assert survey["peak"][1].tolist() == kernel.argmax(1).tolist()
    rest = (bias[:, 1, 4:] ** 2).sum(1) / (bias[:, 1] ** 2).sum(1)
    assert np.allclose(survey["cancelling"][1], rest)
    assert survey["layer"].tolist() == [0, 1]


def test_grouped_keys_meet_every_head_of_their_group(tmp_path):
    model = save(tmp_path, "Qwen2", **GROUPED)
    survey = survey_model(tmp_path)
    attention = model.model.layers[0].self_attn
    b_Q = attention.q_proj.bias.detach().double().view(4, 16).numpy()
    b_K = attention.k_proj.bias.detach().double().view(2, 16).numpy().repeat(2, 0)
    frequencies = model.model.rotary_emb.inv_freq.double().numpy()
    assert np.allclose(at(survey, 0, range(9)), expected(b_Q, b_K, frequencies, range(9)), atol=1e-6)
    assert (survey["cancelling"] == 0).all()


def test_phi_turns_a_part_and_qwen3_has_no_biases(tmp_path):
    save(tmp_path / "phi", "Phi", **SIZES)
    phi = survey_model(tmp_path / "phi")
    assert phi["frequencies"].shape == (2, 4)
    assert (phi["cancelling"] > 0).all()
    save(tmp_path / "qwen3", "Qwen3", **GROUPED)
    assert (survey_model(tmp_path / "qwen3")["range"] == 0).all()


def test_yarn_multiplies_the_kernel_of_gpt_oss(tmp_path):
    model = save(tmp_path, "GptOss", **GROUPED, num_local_experts=2, num_experts_per_tok=1)
    survey = survey_model(tmp_path)
    attention = model.model.layers[0].self_attn
    b_Q = attention.q_proj.bias.detach().double().view(4, 16).numpy()
    b_K = attention.k_proj.bias.detach().double().view(2, 16).numpy().repeat(2, 0)
    factor = model.model.rotary_emb.attention_scaling
    assert factor > 1.3
    kernel = expected(b_Q, b_K, model.model.rotary_emb.inv_freq.double().numpy(), range(9)) * factor**2
    assert np.allclose(at(survey, 0, range(9)), kernel, atol=1e-5)


def test_the_bias_of_the_norm_before_the_layer_is_folded_in(tmp_path):
    model = save(tmp_path, "GPTNeoX", **SIZES)
    survey, block = survey_model(tmp_path, length=50), model.gpt_neox.layers[1]
    linear = block.attention.query_key_value
    bias = (linear.bias + linear.weight @ block.input_layernorm.bias).detach().double().view(4, 3, 16).numpy()
    kernel = expected(bias[:, 0], bias[:, 1], model.gpt_neox.rotary_emb.inv_freq.double().numpy(), range(50))
    assert np.allclose(survey["range_folded"][1], np.ptp(kernel, axis=1), atol=1e-5)
    assert not np.allclose(survey["range_folded"][1], survey["range"][1], atol=1e-3)


def test_only_what_makes_queries_and_keys_is_read_and_one_layer_at_a_time(tmp_path, monkeypatch):
    from analysis.models.files import TensorFiles

    sizes = {
        "hidden_size": 64,
        "intermediate_size": 512,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "num_hidden_layers": 6,
        "vocab_size": 4000,
    }
    save(tmp_path, "Qwen2", **sizes)
    names, read = [], TensorFiles.read
    monkeypatch.setattr(TensorFiles, "read", lambda self, name, dtype: names.append(name) or read(self, name, dtype))
    survey_model(tmp_path)
    assert {name.split(".", 3)[3] for name in names} == {
        "self_attn.q_proj.weight",
        "self_attn.q_proj.bias",
        "self_attn.k_proj.weight",
        "self_attn.k_proj.bias",
        "input_layernorm.weight",
    }
    assert [int(name.split(".")[2]) for name in names] == sorted(int(name.split(".")[2]) for name in names)


MEMORY = """
import resource, sys
import torch
from book.lab.kernel_survey import survey_model
survey_model(sys.argv[1])  # everything that is imported is
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
survey_model(sys.argv[2])
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


@pytest.mark.slow
def test_a_model_far_larger_than_a_layer_is_read_in_the_memory_of_a_layer(tmp_path):
    save(tmp_path / "small", "Qwen2", **GROUPED)
    sizes = {
        **GROUPED,
        "head_dim": 128,
        "hidden_size": 512,
        "intermediate_size": 4096,
        "num_hidden_layers": 4,
        "vocab_size": 100_000,
    }
    save(tmp_path / "large", "Qwen2", **sizes, dtype=torch.bfloat16)
    size = sum(path.stat().st_size for path in (tmp_path / "large").glob("*.safetensors"))
    run = subprocess.run(
        [sys.executable, "-c", MEMORY, tmp_path / "small", tmp_path / "large"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert size > 200e6
    assert int(run.stdout) < 40e6


def test_the_sinks_of_gpt_oss_and_its_quantized_experts(tmp_path):
    model = save(tmp_path, "GptOss", **GROUPED, num_local_experts=2, num_experts_per_tok=1)
    config = json.loads((tmp_path / "config.json").read_text())
    spared = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]
    for modules, reads in ((spared, True), (spared[1:], False)):
        config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": modules}
        (tmp_path / "config.json").write_text(json.dumps(config))
        if reads:
            sinks = model.model.layers[1].self_attn.sinks.detach().numpy()
            assert np.allclose(survey_model(tmp_path)["sink"][1], sinks)
        else:
            with pytest.raises(ValueError, match="quantization_config"):
                survey_model(tmp_path)


def test_a_model_without_rotary_positions_is_refused(tmp_path):
    with pytest.raises(ValueError, match="none of 2 has"):
        survey_model("gpt2-mini")
    with pytest.raises(ValueError, match="none of 0 has"):
        survey_kernels([])
