"""What experiments compute of a tiny GPT-2, held to the same computed here from its weights, entry by entry."""

import math

import numpy as np
import pytest
import torch

from analysis.models import checkpoints, pretrained
from analysis.models.controls import make_controls, random_attention_layer
from analysis.models.reading import load
from book.lab.mathematics.operation_counts import FORMS
from book.lab.semi_bias_probe import semi_bias_probe
from book.studies.one_score_four_parts import experiments as one_score
from book.studies.patterns_and_messages import experiments as patterns
from book.studies.semi_bias import gpt2 as semi_bias
from book.studies.weighted_mean import experiments as weighted_mean
from tests.analysis.tiny import GPT2, write_model

CPU = torch.device("cpu")
HEADS, CHANNEL, WIDTH, LAYERS = 3, 4, 12, 2


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A random GPT-2 of two layers with 20 positions."""
    folder = tmp_path_factory.mktemp("gpt2") / "tiny"
    with torch.random.fork_rng():
        write_model(folder, GPT2 | {"n_positions": 20})
    return checkpoints.find("tiny", folder=folder)


@pytest.fixture
def gpt2(tiny, monkeypatch):
    """The tiny model in the place of GPT-2."""
    monkeypatch.setattr(checkpoints, "find", lambda name: tiny)
    return load(tiny, dtype=torch.float64)


def normed(x, gain, bias, eps):
    """LayerNorm."""
    x = x - x.mean(-1, keepdim=True)
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * gain + bias


def draw(*shape, seed=0):
    """Normal numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def causal_scores(x, layer, head):
    """Scores of one head over one sequence, lower at the keys that lie ahead than anywhere else."""
    scores = (x @ layer.W_Q[head] + layer.b_Q[head]) @ (x @ layer.W_K[head] + layer.b_K[head]).T / math.sqrt(CHANNEL)
    return scores.masked_fill(torch.ones_like(scores).triu(1).bool(), scores.min() - 1)


def shares_and_self(x, layer, dial):
    """Of each head: entropy over the logarithm of the keys, and weight on itself, over sequences and rows from 2 on."""
    shares, itself = [], []
    for head in range(HEADS):
        of_head = []
        for sequence in x:
            scores = causal_scores(sequence, layer, head)
            weights = (dial * (scores - scores.amax(1, keepdim=True))).exp().tril()[1:]
            weights /= weights.sum(1, keepdim=True)
            entropies = -torch.xlogy(weights, weights).sum(1)
            of_head.append((entropies / torch.arange(2, len(scores) + 1).log(), weights.diagonal(1)))
        shares.append(np.mean([share.numpy() for share, _ in of_head]))
        itself.append(np.mean([weight.numpy() for _, weight in of_head]))
    return shares, itself


def gpt2_inputs(model):
    """Positions, positions with stand-ins, and noise, after the first norm; and the noise."""
    p, norm = model.positions, model.norm("attention")
    noise = draw(3, len(p), WIDTH)
    return (
        normed(p, norm.gain, norm.bias, norm.eps)[None],
        normed(p + p.flatten().std() * noise, norm.gain, norm.bias, norm.eps),
        normed(0.02 * noise, 1, 0, norm.eps),
    )


def test_the_dial_turns_three_inputs_of_the_first_layer(gpt2, monkeypatch):
    monkeypatch.setattr(weighted_mean, "DRAWS", 3)
    monkeypatch.setattr(weighted_mean, "POSITIONS", 20)
    found = weighted_mean.turn_gpt2(CPU)
    layer, drawn = gpt2.layers[0].plain(), random_attention_layer(gpt2, 0, dtype=torch.float64)
    dials = found.array("dials")
    assert dials[[0, 1, 17, 33]] == pytest.approx([0, 0.01, 1, 100])
    names = ("positions", "stand_ins", "control")
    for name, x, weights in zip(names, gpt2_inputs(gpt2), (layer, layer, drawn)):
        for k in (0, 5, 17, 20):
            assert found.array(name)[k] == pytest.approx(shares_and_self(x, weights, dials[k])[0], rel=1e-6)
        assert found.array(f"{name}_self") == pytest.approx(shares_and_self(x, weights, 1)[1], rel=1e-6)
    assert found.values["positions"].value == 20
    assert found.values["draws"].value == 3
    assert found.values["spread"].value == pytest.approx(gpt2.positions.flatten().std().item())


def test_the_ladder_of_gpt2_reads_its_first_layer_and_each_control(gpt2, monkeypatch):
    monkeypatch.setattr(weighted_mean, "DRAWS", 3)
    monkeypatch.setattr(weighted_mean, "POSITIONS", 15)
    trained, controls = weighted_mean.of_gpt2(CPU)
    p, norm = gpt2.positions[:15], gpt2.norm("attention")
    xs = [normed(x, norm.gain, norm.bias, norm.eps) for x in (p[None], p + p.flatten().std() * draw(3, 15, WIDTH))]
    layer = gpt2.layers[0].plain()
    for row, x in zip(trained, xs):
        assert row == pytest.approx(shares_and_self(x, layer, 1)[0])
    assert controls.shape == (3, 5, 2, HEADS)
    for row, x in zip(controls[0, 4], xs):
        assert row == pytest.approx(
            shares_and_self(x, random_attention_layer(gpt2, 0, 4, torch.float64), 1)[0], rel=1e-6
        )


def singular(a, b):
    """Singular values of ``a b^T``, those that can differ from zero."""
    return torch.linalg.svdvals(a.double() @ b.double().mT)[: a.shape[-1]]


def test_spectra_are_those_of_every_head_trained_and_drawn(gpt2, tiny):
    found = patterns.compute_spectra(CPU).arrays
    model = load(tiny)
    networks = {
        "": [layer.to(torch.float64) for layer in model.plain_layers()],
        "control_": [random_attention_layer(model, i) for i in range(LAYERS)],
    }
    for prefix, layers in networks.items():
        for i, layer in enumerate(layers):
            for h in range(HEADS):
                q, k, v, o = layer.W_Q[h], layer.W_K[h], layer.W_V[h], layer.W_O[h]
                with_q, with_k = (torch.cat([w, b[h][None]]) for w, b in ((q, layer.b_Q), (k, layer.b_K)))
                close = {"rtol": 1e-3, "atol": 1e-6}
                np.testing.assert_allclose(found[f"{prefix}pattern"][i, h], singular(q, k), **close)
                np.testing.assert_allclose(found[f"{prefix}message"][i, h], singular(v, o.mT), **close)
                np.testing.assert_allclose(found[f"{prefix}augmented"][i, h], singular(with_q, with_k), **close)
    for i, layer in enumerate(networks[""]):
        norm = gpt2.norm("attention", i)
        for h in range(HEADS):
            # what the norm puts out: its bias, and its gain times anything whose mean is 0
            centred = torch.eye(WIDTH, dtype=torch.float64) - 1 / WIDTH
            root = centred * norm.gain
            bias_query = norm.bias @ layer.W_Q[h] + layer.b_Q[h]
            constant = (root @ layer.W_K[h] @ bias_query).norm() / math.sqrt(CHANNEL)
            varying = (root @ layer.W_K[h] @ layer.W_Q[h].T @ root.T).norm() / math.sqrt(CHANNEL)
            of_query_bias = (root @ layer.W_K[h] @ layer.b_Q[h]).norm() / math.sqrt(CHANNEL)
            assert found["constant"][i, h] == pytest.approx(constant.item(), rel=1e-4)
            assert found["varying"][i, h] == pytest.approx(varying.item(), rel=1e-4)
            assert found["query_bias"][i, h] == pytest.approx(of_query_bias.item(), rel=1e-4)
    assert not found["control_constant"].any()
    assert found["control_varying"].all()
    assert found["ladder_pattern_rank"].shape == found["ladder_message_rank"].shape == (3, 5, LAYERS, HEADS)
    for seed in (0, 3):
        drawn = random_attention_layer(model, 1, seed)
        for name, pairs in {"pattern": (drawn.W_Q, drawn.W_K), "message": (drawn.W_V, drawn.W_O.mT)}.items():
            for h in range(HEADS):
                squares = singular(pairs[0][h], pairs[1][h]).square()
                rank = (squares.sum().square() / squares.square().sum()).item()
                assert found[f"ladder_{name}_rank"][0, seed, 1, h] == pytest.approx(rank, rel=1e-4)
    for h in range(HEADS):  # the entries of the matrices are in another order in the last rung: other ranks, same norms
        assert found["ladder_pattern_rank"][1, 2, 1, h] == pytest.approx(
            found["ladder_pattern_rank"][0, 2, 1, h], rel=1e-4
        )
    assert not np.allclose(found["ladder_pattern_rank"][2], found["ladder_pattern_rank"][0])


def test_rewritings_are_held_to_the_module_at_normed_positions_with_noise(gpt2, monkeypatch):
    monkeypatch.setattr(patterns, "POSITIONS", 9)
    read = []
    monkeypatch.setattr(patterns, "gaps", lambda family, layer, x: read.append((layer, x)) or {"gap": len(read) * 0.5})
    found = patterns.compute_equality(CPU)
    p = gpt2.positions[:9]
    noisy = p + p.flatten().std() * draw(9, WIDTH)
    assert len(read) == found.values["layers"].value == LAYERS
    for i, (layer, x) in enumerate(read):
        norm = gpt2.norm("attention", i)
        torch.testing.assert_close(x, normed(noisy, norm.gain, norm.bias, norm.eps)[None])
        torch.testing.assert_close(layer.W_Q, gpt2.layers[i].W_Q)
    assert found.arrays["gap"].tolist() == [0.5, 1.0]
    assert found.values["positions"].value == 9
    assert found.tolerances["gap"] == 1e-6


def rank_correlation_with_place(scores):
    """Spearman's with the order of the keys, where no two scores are alike."""
    ranks = np.argsort(np.argsort(scores))
    return np.corrcoef(ranks, np.arange(len(ranks)))[0, 1]


def folded_semi_bias(model, i, layer=None, b_Q=None):
    """The product of each position, with the norm folded in and not divided by its width, with the query bias."""
    layer, norm = layer or model.layers[i], model.norm("attention", i)
    p = model.positions
    centred = p - p.mean(1, keepdim=True)
    width = (centred.square().mean(1) + norm.eps).sqrt()
    rows = []
    for h in range(HEADS):
        bias = norm.bias @ layer.W_Q[h] + layer.b_Q[h] if b_Q is None else b_Q[h]
        rows.append(centred * norm.gain @ layer.W_K[h] @ bias / math.sqrt(CHANNEL))
    return torch.stack(rows), width


def test_gpt2s_semi_bias_raw_folded_and_over_the_width(gpt2, tiny):
    found = semi_bias.measure(tiny, CPU)
    p, layer = gpt2.positions, gpt2.layers[0]
    folded, width = folded_semi_bias(gpt2, 0)
    raw = torch.stack([p @ layer.W_K[h] @ layer.b_Q[h] / math.sqrt(CHANNEL) for h in range(HEADS)])
    due = {
        "sigma_p": width,
        "norm_p": p.square().sum(1).sqrt(),
        "semi_raw": raw,
        "semi_folded": folded,
        "semi_sigma": folded / width,
        "semi_query_bias": folded_semi_bias(gpt2, 0, b_Q=layer.b_Q)[0],
    }
    for name, values in due.items():
        np.testing.assert_allclose(found.arrays[name], values, rtol=1e-4, atol=1e-6, err_msg=name)
        assert found.tolerances[name] == pytest.approx(1e-5 * values.abs().max().item(), rel=1e-4)
    for name in found.arrays:
        if name.startswith("ladder"):
            assert found.arrays[name].shape == (3, 5, LAYERS, HEADS)
    drawn = [[random_attention_layer(gpt2, i, 3, torch.float64) for i in range(LAYERS)]]
    large = [
        c.network
        for c in make_controls(
            gpt2.plain_layers(),
            lambda seed: [random_attention_layer(gpt2, i, seed, torch.float64) for i in range(LAYERS)],
        )
        if c.rung != "random" and c.seed == 3
    ]
    networks = {"effective": gpt2.layers, 0: drawn[0], 1: large[0], 2: large[1]}
    for where, layers in networks.items():
        for i, layer in enumerate(layers):
            scores, width = folded_semi_bias(gpt2, i, layer)
            scores = (scores / width)[:, :-1].numpy()
            measured = {
                "effective_rho": [rank_correlation_with_place(row) for row in scores],
                "effective_std": scores.std(1, ddof=1),
                "first_lead": scores[:, 0] - scores[:, 1:].mean(1),
            }
            for name, values in measured.items():
                place = found.arrays[name][i] if where == "effective" else found.arrays[f"ladder_{name}"][where, 3, i]
                np.testing.assert_allclose(place, values, rtol=1e-3, atol=1e-6, err_msg=name)
            if where == "effective":
                beaten = (scores[:, 1:] > scores[:, :1]).sum(1)
                assert found.arrays["first_beaten_by"][i].tolist() == beaten.tolist()


def test_axes_of_gpt2s_positions_and_the_heads_directions_in_them(gpt2, tiny):
    found = semi_bias.measure(tiny, CPU).arrays
    p, layer, norm = gpt2.positions, gpt2.layers[0], gpt2.norm("attention", 0)
    centred = p[:-1] - p[:-1].mean(0)
    sizes, axes = torch.linalg.eigh(centred.T @ centred)
    sizes, axes = sizes.flip(0), axes.flip(1)
    np.testing.assert_allclose(found["pc_share"], sizes / sizes.sum(), rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(abs(found["pc_scores"]), (centred @ axes[:, :6]).abs(), rtol=1e-3, atol=1e-5)
    assert (found["pc_scores"][-100:].sum(0) > -1e-5).all()
    np.testing.assert_allclose(
        found["pc_recency"], [rank_correlation_with_place(row) for row in found["pc_scores"].T], rtol=1e-4
    )
    bias = [norm.bias @ layer.W_Q[h] + layer.b_Q[h] for h in range(HEADS)]
    centring = torch.eye(WIDTH, dtype=torch.float64) - 1 / WIDTH
    directions = torch.stack([centring * norm.gain @ layer.W_K[h] @ bias[h] for h in range(HEADS)])
    directions /= directions.square().sum(1, keepdim=True).sqrt()
    np.testing.assert_allclose(found["direction_share"], (directions @ axes[:, :6]).square(), rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(found["direction_cosines"], directions @ directions.T, rtol=1e-4, atol=1e-6)
    drawn = draw(1000, HEADS, CHANNEL, seed=2).numpy()
    random = np.stack([drawn[:, h] @ (centring * norm.gain @ layer.W_K[h]).T.numpy() for h in range(HEADS)])
    random /= np.sqrt((random**2).sum(-1, keepdims=True))
    for k, level in enumerate((50, 95)):
        for h in range(HEADS):
            share = (random[h] @ axes[:, 2].numpy()) ** 2
            assert found["random_share"][k, h] == pytest.approx(np.percentile(share, level), rel=1e-4)
            for g in range(HEADS):
                cosine = abs((random[h] * random[g]).sum(-1))
                assert found["random_cosines"][k, h, g] == pytest.approx(np.percentile(cosine, level), rel=1e-4)
    assert found["table_limit"][0] == pytest.approx(np.sort(p.abs().flatten())[int(0.995 * 240) - 1])
    steps = (p[::8] / found["table_limit"][0]).clamp(-1, 1) * 127
    assert found["table_steps"].tolist() == steps.round().int().tolist()


def test_the_null_of_gpt2s_semi_bias_draws_query_biases_as_long_as_the_heads(gpt2, tiny):
    found = semi_bias.measure(tiny, CPU).arrays
    layer, norm, p = gpt2.layers[0], gpt2.norm("attention", 0), gpt2.positions
    observed, width = folded_semi_bias(gpt2, 0)
    observed = (observed / width).numpy()
    drawn = draw(1000, HEADS, CHANNEL)
    for h in range(HEADS):
        length = (norm.bias @ layer.W_Q[h] + layer.b_Q[h]).norm() / math.sqrt(CHANNEL)
        keys = (p - p.mean(1, keepdim=True)) / width[:, None] * norm.gain @ layer.W_K[h] / math.sqrt(CHANNEL)
        scores = (length * drawn[:, h] @ keys.T).numpy()
        sizes = np.abs([rank_correlation_with_place(row) for row in scores])
        own = rank_correlation_with_place(observed[h])
        assert found["rho"][h] == pytest.approx(own, rel=1e-5)
        assert found["null_quantiles"][:, h] == pytest.approx(np.percentile(sizes, (5, 50, 95)), rel=1e-4)
        above, not_below = (sizes > abs(own) + 1e-9).mean(), (sizes > abs(own) - 1e-9).mean()  # ranks may be alike
        assert above - 1e-6 <= found["null_share"][h] <= not_below + 1e-6
        middle = np.sort(scores.std(1, ddof=1))[499]
        assert found["spread_ratio"][h] == pytest.approx(observed[h].std(ddof=1) / middle, rel=1e-4)


def test_the_probe_of_a_training_measures_the_semi_bias_of_every_layer_raw_and_folded(gpt2, tiny):
    found = semi_bias_probe(0, pretrained.load(tiny, task="lm", dtype=torch.float64))
    p = gpt2.positions
    for i, layer in enumerate(gpt2.layers):
        raw = np.stack([p @ layer.W_K[h] @ layer.b_Q[h] / math.sqrt(CHANNEL) for h in range(HEADS)])
        folded, width = folded_semi_bias(gpt2, i)
        for name, scores in {"": raw, "_folded": (folded / width).numpy()}.items():
            rho = [rank_correlation_with_place(row) for row in scores]
            np.testing.assert_allclose(found["rank_correlation" + name][i], rho, rtol=1e-6)
            np.testing.assert_allclose(found["size" + name][i], scores.std(1, ddof=1), rtol=1e-6)
            if i == 0:
                np.testing.assert_allclose(found["semi_bias" + name], scores, rtol=1e-6)


def test_the_fastest_run_of_each_form_and_length_is_kept(monkeypatch):
    for name, size in {"MODEL": 12, "HEAD": 3, "CHANNEL": 4, "LENGTHS": (4, 8)}.items():
        monkeypatch.setattr(patterns, name, size)
    seconds = iter([5, 4, 3, 6, 4, 1, 7, 7, 2, 3, 9, 9, 9, 9, 9, 8, 7, 8, 8, 8, 9, 9, 6, 9])
    read = []
    monkeypatch.setattr(patterns, "_timed", lambda run, x, device: read.append(run(x)) or next(seconds))
    found = patterns.compute_costs(CPU)
    assert found.array("seconds").tolist() == [[3, 1], [2, 8], [7, 6]]
    assert [tuple(y.shape) for y in read] == ([(4, 12)] * 4 + [(8, 12)] * 4) * 3
    assert next(seconds, None) is None
    assert found.array("lengths").tolist() == [4, 8]
    due = [[patterns.operation_counts.cost(form, n, 12, 3, 4).sequence for n in (4, 8)] for form in FORMS]
    assert found.array("multiply_adds").tolist() == due
    monkeypatch.undo()
    clock = iter([2.0, 7.0])
    monkeypatch.setattr(patterns.time, "perf_counter", lambda: next(clock))
    assert patterns._timed(lambda x: x, None, CPU) == 5.0


def with_token(width):
    """The widths of rows with a token that is as wide as their median, the lower one of two."""
    return (width.square() + width.sort().values[(len(width) - 1) // 2] ** 2).sqrt()


def test_gpt2s_first_layer_is_split_over_positions_aswith_token_as_with_a_token(gpt2, monkeypatch):
    monkeypatch.setattr(one_score, "POSITIONS", 14)
    monkeypatch.setattr(one_score, "SHOWN", 5)
    found = one_score.measure_gpt2(CPU).arrays
    norm = gpt2.norm("attention")
    control = 0.02 * draw(20, WIDTH)
    drawn = random_attention_layer(gpt2, 0, dtype=torch.float64)
    for prefix, p, layer, gain, bias in (
        ("", gpt2.positions, gpt2.layers[0].plain(), norm.gain, norm.bias),
        ("control_", control, drawn, torch.ones(WIDTH).double(), torch.zeros(WIDTH).double()),
    ):
        centred = p - p.mean(1, keepdim=True)
        width = (centred.square().mean(1) + norm.eps).sqrt()
        x = (centred / with_token(width)[:, None])[:14] * gain + bias
        whole, parts, *_ = one_score.split_layer([x], layer, True)
        np.testing.assert_allclose(found[f"{prefix}divergence"], whole, rtol=1e-6)
        scores = torch.stack([causal_scores(x, layer, h) for h in range(HEADS)])
        maps = scores.exp().tril() / scores.exp().tril().sum(-1, keepdim=True)
        distance = one_score.distances(maps, torch.arange(14), causal=True)
        np.testing.assert_allclose(found[f"{prefix}distance"], distance, rtol=1e-6)
        assert found[f"{prefix}parts"].shape == parts.shape
        np.testing.assert_allclose(found[f"{prefix}parts"].sum(1), whole, rtol=1e-6)
        if not prefix:
            np.testing.assert_allclose(found["maps"], maps[distance.argmin(0)][:, :5, :5], atol=1e-3)


def test_the_factors_of_the_mixer_are_nearest_to_the_scores_of_positions(gpt2):
    found = semi_bias.compute_mixer(CPU)
    layer, norm = gpt2.layers[0], gpt2.norm("attention")
    p = gpt2.positions[:-1]
    centred = p - p.mean(1, keepdim=True)
    width = (centred.square().mean(1) + norm.eps).sqrt()
    np.testing.assert_allclose(found.arrays["sigma"], width, rtol=1e-5)
    own = folded_semi_bias(gpt2, 0)[0][:, :-1] / width
    np.testing.assert_allclose(found.arrays["own"], own, rtol=1e-4, atol=1e-6)
    y = centred / width[:, None] * norm.gain
    exact = torch.stack([y @ layer.W_Q[h] @ layer.W_K[h].T @ y.T / math.sqrt(CHANNEL) for h in range(HEADS)])
    left, right = (torch.from_numpy(found.arrays[name]).double() for name in ("left", "right"))
    product = left @ right.mT  # in half precision, and of a rank that is enough for this head
    torch.testing.assert_close(product, exact, rtol=0.01, atol=0.01)
    shrink = width / with_token(width)
    both = [scores * shrink[:, None] * shrink for scores in (exact, product)]
    lower = torch.ones(19, 19).tril().bool()
    assert found.values["score_error"].value == pytest.approx(
        (both[0] - both[1])[:, lower].abs().max().item(), rel=1e-4
    )
    maps = [
        torch.where(lower, scores + (own * shrink)[:, None], torch.tensor(-1e9).double()).softmax(-1) for scores in both
    ]
    variation = (maps[0] - maps[1]).abs().sum(-1).max().item() / 2
    assert found.values["total_variation"].value == pytest.approx(variation, rel=1e-4)


def test_positions_alone_are_near_or_far_at_three_widths_of_a_token(gpt2, tiny):
    found = semi_bias.measure(tiny, CPU).arrays
    layer, norm, p = gpt2.layers[0], gpt2.norm("attention", 0), gpt2.positions
    rows = (p - p.mean(1, keepdim=True)) * norm.gain
    product, sigma = folded_semi_bias(gpt2, 0)
    middle = sigma.sort().values[9]
    reaches, first = (3, 5), 5
    for k, times in enumerate((0.0, 1.0, 2.0)):
        width = (sigma.square() + (times * middle).square()).sqrt()
        y = rows / width[:, None]
        for h in range(HEADS):
            own = (product[h] / width).expand(20, 20)
            both = y @ layer.W_Q[h] @ layer.W_K[h].T @ y.T / math.sqrt(CHANNEL)
            for part, scores in enumerate((own, both, own + both)):
                weights = (scores - scores.amax()).exp().tril()
                weights /= weights.sum(1, keepdim=True)
                for r, reach in enumerate(reaches):
                    mass = np.mean([weights[i, i - reach + 1 : i + 1].sum() for i in range(first, 20)])
                    assert found["mass"][k, r, part, h] == pytest.approx(mass, rel=1e-4)
                if times == 1:
                    back = torch.arange(20) - weights.argmax(1)
                    assert found["peak"][part, h].tolist() == back.tolist()
    uniform = [np.mean([reach / (i + 1) for i in range(first, 20)]) for reach in reaches]
    assert found["uniform"].tolist() == pytest.approx(uniform)


def test_the_axes_of_a_table_end_positive_in_the_mean_of_the_last_hundred_positions():
    steps = torch.arange(260.0).double()
    p = torch.stack([(steps < 158) * 1.0, torch.zeros(260), *(torch.zeros(6, 260))], 1).double()
    p[:, 1:] = draw(260, 7) / 1e3
    p[-1] = 50
    p[8, 3], p[16, 3] = -20, 20  # beyond the largest step
    found = semi_bias._table(p)
    assert found["table_steps"][1:3, 3].tolist() == [-127, 127]
    p[8, 3] = p[16, 3] = 0
    scores = semi_bias._table(p)["pc_scores"]
    assert (scores[-100:].sum(0) >= 0).all()
    assert scores[:150, 0].max() < 0 < scores[160:, 0].min()  # most positions, but not the last ones, are on one side


def test_near_is_a_quarter_of_a_context_and_at_most_fifty_keys():
    assert [semi_bias.near(positions) for positions in (1, 4, 11, 199, 200, 204, 1024)] == [1, 1, 2, 49, 50, 50, 50]
