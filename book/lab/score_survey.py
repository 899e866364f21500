"""What the parts of the score explain in every head of a GPT-2 or BERT, and how near its maps are to formulas.

The models read passages, a classifier of k-mers the gene of an invented lineage. Everything in float64 but the
distances.
"""

from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.data import texts
from analysis.decomposition import bilinear_form
from analysis.models import extraction, pretrained
from analysis.models.checkpoints import Checkpoint
from analysis.models.reading import load
from analysis.transformer.attention import mask_future, softmax
from book.lab.constructed_maps import distances
from book.lab.score_shares import mean_input, split_layer, split_six

PASSAGES, TOKENS = 8, 64


def read_texts(checkpoint: Checkpoint, source: str | Path | None = None) -> list[Tensor]:
    """Return the token ids of the texts, or of one invented lineage's gene for a classifier of k-mers.

    ``source`` is a text file, or a folder of them, to read instead of the bundled passages.
    """
    if (checkpoint.folder / "report.json").exists():
        from book.lab.dna.kmers import kmers, load_tokenizer, words
        from book.lab.dna.simulate import invent_backbones

        gene = next(b.aligned.replace("-", "") for b in invent_backbones(0) if b.label == "Omicron")
        ids = load_tokenizer(checkpoint.folder)(words(gene))["input_ids"]
        return [torch.tensor(ids[: 1 + len(kmers(gene))])]
    tokenizer = pretrained.tokenizer(checkpoint)
    longest = min(TOKENS, load(checkpoint).config.max_position_embeddings)
    found = [
        torch.tensor(tokenizer(text, truncation=True, max_length=longest)["input_ids"])
        for text in texts.passages(count=PASSAGES, source=source)
    ]
    return [ids for ids in found if len(ids) > 1]


@torch.no_grad()
def survey(
    checkpoint: Checkpoint,
    *,
    control_seed: int | None = None,
    source: str | Path | None = None,
    device: torch.device | str = "cpu",
) -> dict[str, np.ndarray]:
    """Measure a model, or its control, on the bundled passages or on those of ``source``.

    Returns
    -------
    dict
        Means over texts, and over rows that see two keys or more. In nats: ``divergence (layer, head)``, ``parts
        (layer, head, part)`` about ``origins (layer, model)``, which are the mean inputs over all texts, ``from_zero``
        the same about 0, ``by_text (layer, text, head, part)``, and ``first (head, term)``, layer 0 split over tokens
        and positions. ``distance (layer, head, family)`` is to the nearest map of each family of formulas, ``maps
        (layer, head, query, key)`` are of the first text. ``error`` is how far the attention of one product with a
        border is from the module's, ``gap`` how far the parts of a row are from its divergence.
    """
    model = pretrained.load(checkpoint, control_seed=control_seed, dtype=torch.float64, device=device)
    weights = load(model)
    layers, causal = weights.plain_layers(), weights.causal
    read, first, far, maps_of_first, error = [], [], [], None, 0.0
    for ids in (given.to(device) for given in read_texts(checkpoint, source)):
        ran = model(ids[None], output_hidden_states=True, output_attentions=True)
        xs = extraction.attention_inputs(model, [state[0] for state in ran.hidden_states])
        maps = torch.stack([attention[0] for attention in ran.attentions])
        if maps_of_first is None:  # the product with a border is as wide as the model: once is enough
            error = max(identity_error(x, layer, of_layer) for x, layer, of_layer in zip(xs, layers, maps))
            maps_of_first = maps
        tokens, positions, norm = extraction.embed(model, ids)
        first.append(split_six(tokens, positions, layers[0], norm, causal))
        far.append(distances(maps.float(), ids, causal=causal))
        read.append(xs)
    inputs = [[xs[number] for xs in read] for number in range(len(layers))]
    splits = [split_layer(xs, layer, causal) for xs, layer in zip(inputs, layers)]
    by_layer = {name: np.stack([getattr(split, name) for split in splits]) for name in splits[0]._fields}
    return by_layer | {
        "gap": by_layer["gap"].max(),
        "error": np.float64(error),
        "origins": np.stack([mean_input(xs).cpu().numpy() for xs in inputs]),
        "first": torch.stack(first).mean(0).cpu().numpy(),
        "distance": torch.stack(far).mean(0).cpu().numpy(),
        "maps": maps_of_first.float().cpu().numpy(),
    }


def identity_error(
    x: Float[Tensor, "position model"], layer: AttentionLayer, attention: Float[Tensor, "head query key"]
) -> float:
    """Return how far the attention of one product with a border is from a module's."""
    one = bilinear_form.homogeneous(x)
    scores = one @ bilinear_form.bordered(layer) @ one.mT
    mine = softmax(mask_future(scores) if not attention.triu(1).any() else scores)
    return float((mine - attention).abs().max())
