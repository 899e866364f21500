"""Kernels read off folders in the hub's layout, made at random, against the biases of the loaded modules."""

import numpy as np
import pytest
import torch

from analysis.surveys.kernel_survey import survey_folder, survey_kernels

SIZES = {"hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2,
         "vocab_size": 32}
GROUPED = {**SIZES, "num_key_value_heads": 2, "head_dim": 16}


def save(folder, name, **options):
    import transformers
    config = getattr(transformers, f"{name}Config")(**options)
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if key.endswith("bias"):
                parameter.normal_()
    model.save_pretrained(folder)
    return model


def expected(b_Q, b_K, frequencies, distances):
    """Return the kernel by turning the key bias as matrices do, one distance at a time."""
    half, rows = len(frequencies), []
    for distance in distances:
        cos, sin = np.cos(distance * frequencies), np.sin(distance * frequencies)
        a, b = b_Q[:, :half], b_Q[:, half:2 * half]
        turned = np.concatenate([a * cos - b * sin, b * cos + a * sin], 1)
        rows.append((turned * b_K[:, :2 * half]).sum(1) / np.sqrt(b_Q.shape[1]))
    return np.stack(rows, 1)


def at(survey, layer, distances):
    angle = np.asarray(distances)[:, None, None] * survey["frequencies"][layer] + survey["phase"][layer]
    return (survey["amplitude"][layer] * np.cos(angle)).sum(-1).T


def test_gpt_neox_and_its_cancelling_part(tmp_path):
    model = save(tmp_path, "GPTNeoX", **SIZES)
    survey = survey_folder(tmp_path, length=50)
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
    survey = survey_folder(tmp_path)
    attention = model.model.layers[0].self_attn
    b_Q = attention.q_proj.bias.detach().double().view(4, 16).numpy()
    b_K = attention.k_proj.bias.detach().double().view(2, 16).numpy().repeat(2, 0)
    frequencies = model.model.rotary_emb.inv_freq.double().numpy()
    assert np.allclose(at(survey, 0, range(9)), expected(b_Q, b_K, frequencies, range(9)), atol=1e-6)
    assert (survey["cancelling"] == 0).all()


def test_phi_turns_a_part_and_qwen3_has_no_biases(tmp_path):
    save(tmp_path / "phi", "Phi", **SIZES)
    phi = survey_folder(tmp_path / "phi")
    assert phi["frequencies"].shape == (2, 4)
    assert (phi["cancelling"] > 0).all()
    save(tmp_path / "qwen3", "Qwen3", **GROUPED)
    assert (survey_folder(tmp_path / "qwen3")["range"] == 0).all()


def test_yarn_multiplies_the_kernel_of_gpt_oss(tmp_path):
    model = save(tmp_path, "GptOss", **GROUPED, num_local_experts=2, num_experts_per_tok=1)
    survey = survey_folder(tmp_path)
    attention = model.model.layers[0].self_attn
    b_Q = attention.q_proj.bias.detach().double().view(4, 16).numpy()
    b_K = attention.k_proj.bias.detach().double().view(2, 16).numpy().repeat(2, 0)
    factor = model.model.rotary_emb.attention_scaling
    assert factor > 1.3
    kernel = expected(b_Q, b_K, model.model.rotary_emb.inv_freq.double().numpy(), range(9)) * factor**2
    assert np.allclose(at(survey, 0, range(9)), kernel, atol=1e-5)


def test_a_model_without_rotary_positions_is_refused(tmp_path):
    with pytest.raises(ValueError, match="none of 2 has"):
        survey_folder("gpt2-mini")
    with pytest.raises(ValueError, match="none of 0 has"):
        survey_kernels([])
