"""The verdicts. A threshold without a comment lies between two sides that differ by far."""

# %%
from measure import PRINTED, asymmetry, best_cosine, cosine, decoding_gap, kept, layers, map_ranks, rank_of

from claims_kit import judge

# %%
scores, weights, rings, pairs = ({v: asymmetry(v)[n] for v in ("QKV", "Q=K-V", "(Q=K-V)+")} for n in range(4))
judge(
    "T-1",
    "corrected",
    f"The scores are; the weights, which a softmax makes of each row, differ by up to {weights['Q=K-V']:.2f} across "
    "the diagonal.",
    when=lambda scores, weights: scores["Q=K-V"] < 1e-9 and scores["QKV"] > 0.1 and weights["Q=K-V"] > 0.01,
    turned_by={"scores": {"Q=K-V": 0.1, "QKV": 1}, "weights": {"Q=K-V": 0}},
)
judge(
    "T-2",
    "conditional",
    f"Scores across the diagonal now differ by {scores['(Q=K-V)+']:.2f}, yet {rings['(Q=K-V)+']} threes of tokens form "
    f"a ring in which each scores the next above the one before; {rings['QKV']} do with QKV.",
    more="Terms of rows and of columns add the same to both directions of a ring. More heads may get round it.",
    when=lambda scores, rings: scores["(Q=K-V)+"] > 0.05 and rings["(Q=K-V)+"] == 0 and rings["QKV"] > 100,
    turned_by={"scores": {"(Q=K-V)+": 0}, "rings": {"(Q=K-V)+": 5, "QKV": 500}},
)
judge(
    "T-3",
    "reproduced",
    f"In heads with Q=K-V no three tokens form a ring and no two score each other above themselves; with QKV "
    f"{rings['QKV']} and {pairs['QKV']} do.",
    more="A causal mask tells before from after whatever the scores are, and several layers may get round it.",
    when=lambda rings, pairs: rings["Q=K-V"] == pairs["Q=K-V"] == 0 and rings["QKV"] > 100 and pairs["QKV"] > 10,
    turned_by={"rings": {"Q=K-V": 5, "QKV": 500}, "pairs": {"Q=K-V": 5, "QKV": 50}},
)

# %%
gap, half = decoding_gap(), kept(heads=16, groups=16, tensors=1)
judge(
    "T-4",
    "reproduced",
    f"Outputs read from a cache of keys alone differ by {gap:.0e} from those of the whole layer.",
    when=lambda gap, half: gap < 1e-12 and half == 0.5,
    turned_by={"gap": 1e-3, "half": 1},
)
four, one = kept(heads=16, groups=4, tensors=1), kept(heads=16, groups=1, tensors=1)
judge(
    "T-5",
    "reproduced",
    f"It is {1 - four:.1%} and {1 - one:.1%}.",
    when=lambda four, one: abs(1 - four - 0.875) < 5e-4 and abs(1 - one - 0.969) < 5e-4,
    turned_by={"four": 0.25, "one": 1 / 16},
)
smaller = 1 / kept(heads=32, groups=1, tensors=1)
judge(
    "T-6",
    "corrected",
    f"It is {smaller:.0f} times smaller, a reduction by {1 - 1 / smaller:.1%}.",
    more="The talk's table of that model says 96.9%, which is the reduction with 16 heads.",
    when=lambda smaller: smaller == 64,
    turned_by={"smaller": 67},
)

# %%
on_par = {name: mean / PRINTED["QKV"] - 1 for name, mean in PRINTED.items()}
judge(
    "T-8",
    "conditional",
    f"By the paper's own table two of the three are, within {on_par['Q=K-V']:.1%}; Q=K=V is {-on_par['Q=K=V']:.0%} "
    "worse.",
    more="We read the means off the table and trained none of these tasks again.",
    when=lambda on_par: abs(on_par["Q-K=V"]) < 0.01 and abs(on_par["Q=K-V"]) < 0.01 and on_par["Q=K=V"] < -0.05,
    turned_by={"on_par": {"Q-K=V": 0, "Q=K-V": 0, "Q=K=V": 0}},
)

# %%
read = layers()
as_they_are = max(abs(cosine(layer.W_K, layer.W_V)) for layer in read)
rotated = {
    pair: [best_cosine(getattr(x, f"W_{pair[0]}"), getattr(x, f"W_{pair[1]}")) for x in read] for pair in ("KV", "QK")
}
judge(
    "T-9",
    "fails on a stand-in",
    f"Cosines of key and value projections are at most {as_they_are:.2f}; rotated as well as can be they are "
    f"{max(rotated['KV']):.2f} at most, and queries are nearer to keys than values are in all {len(read)} layers.",
    when=lambda as_they_are, rotated: (
        as_they_are < 0.1 and max(rotated["KV"]) < 0.5 and all(q > v for v, q in zip(rotated["KV"], rotated["QK"]))
    ),
    turned_by={"as_they_are": 0.73, "rotated": {"KV": [0.45], "QK": [0.42]}},
)
ranks = {role: [rank_of(getattr(layer, f"W_{role}")) for layer in read] for role in "QKV"}
apart, apart_qk = (max(abs(a / b - 1) for a, b in zip(ranks["K"], ranks[other])) for other in "VQ")
judge(
    "T-10",
    "holds on a stand-in",
    f"They differ by {apart:.0%} at most; those of keys and queries differ by {apart_qk:.0%} at most.",
    more="So it does not tell keys and values from other pairs.",
    when=lambda apart, apart_qk: apart_qk < apart < 0.25,  # a quarter: ten times what the talk's numbers differ by
    turned_by={"apart": 0.3, "apart_qk": 0.25},
)
of_tokens, of_width = max(map_ranks()), min(ranks["K"] + ranks["V"])
judge(
    "T-11",
    "holds on a stand-in",
    f"The mean over a layer's heads is {of_tokens:.0%} of the tokens of a text at most.",
    more=f"The projections themselves use more: at least {of_width:.0%} of the width, and 67% in the talk.",
    when=lambda of_tokens, of_width: of_tokens < 0.5 < of_width,
    turned_by={"of_tokens": 0.6, "of_width": 0.4},
)

# %%
trained = 0  # language models, of the two that a comparison needs
judge(
    "T-7",
    "not testable",
    "It needs two language models that read the same ten billion tokens; we trained none.",
    when=lambda trained: trained < 2,
    turned_by={"trained": 2},
)
