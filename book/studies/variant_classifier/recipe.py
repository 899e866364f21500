"""The full-size recipe: what its classifier is made of, read off the model that it builds."""

from dataclasses import dataclass

import torch
from torch import nn

from book.lab.training import dna_classifier


@dataclass(frozen=True)
class Recipe:
    """The classifier of a recipe, and how it is trained.

    ``dropout`` has the probabilities of all dropout layers, without repetitions; ``gelu_error`` is the largest
    difference of the activation from x Phi(x), with Phi the distribution function of the standard Gaussian.
    """

    layers: int
    heads: int
    width: int
    feed_forward: int
    positions: int
    dropout: tuple[float, ...]
    gelu_error: float
    batch: int
    steps: int
    warmup: int


def measure_recipe(recipe: dna_classifier.Recipe, data: dna_classifier.Data) -> Recipe:
    """Build the classifier of a recipe, without memory for its weights, and read its sizes."""
    from transformers import BertForSequenceClassification

    with torch.device("meta"):
        model = BertForSequenceClassification(dna_classifier.configure(recipe, data))
    return describe(model, recipe.batch, recipe.steps, recipe.warmup)


def describe(model: nn.Module, batch: int, steps: int, warmup: int) -> Recipe:
    """Read the sizes of a classifier."""
    layer = model.bert.encoder.layer[0]
    x = torch.linspace(-4, 4, 81)
    gelu_error = (layer.intermediate.intermediate_act_fn(x) - x * torch.special.ndtr(x)).abs().max()
    return Recipe(
        layers=len(model.bert.encoder.layer),
        heads=layer.attention.self.num_attention_heads,
        width=layer.attention.self.query.in_features,
        feed_forward=layer.intermediate.dense.out_features,
        positions=model.bert.embeddings.position_embeddings.num_embeddings,
        dropout=tuple(sorted({module.p for module in model.modules() if isinstance(module, torch.nn.Dropout)})),
        gelu_error=float(gelu_error),
        batch=batch,
        steps=steps,
        warmup=warmup,
    )
