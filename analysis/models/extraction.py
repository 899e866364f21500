"""Plain tensors out of loaded models: their layers, what a layer reads, hidden states and maps.

What belongs here: reading modules of transformers and running them. What does not: reading parameters from files
without a module (:mod:`analysis.models.parameters`), what a tensor is called (:mod:`analysis.models.configuration`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer, Norm
from analysis.core.weights import EncoderLayer
from analysis.models import layers
from analysis.models.configuration import ModelConfig, Shapes, read_config


def config_of(model: torch.nn.Module) -> ModelConfig:
    """Return the configuration of a loaded model, in one vocabulary for all families.

    Raises
    ------
    ValueError
        If the module is no model, or of a family that is not read; as `configuration.read_config`.
    """
    name = type(model).__name__
    if not hasattr(getattr(model, "config", None), "to_dict"):
        raise ValueError(f"model must be a model of transformers with a configuration, got {name}")
    return read_config(model.config.to_dict(), f"the configuration of {name}", name)


def _fetch(model: torch.nn.Module, config: ModelConfig) -> layers.Fetch:
    """Return what reads parameters of given shapes out of a model, whatever stands before their names."""

    def fetch(shapes: Shapes) -> list[Tensor]:
        tensors = [_get(model.get_parameter, name, config) for name in shapes]
        for tensor, (name, shape) in zip(tensors, shapes.items(), strict=True):
            if tuple(tensor.shape) != shape:
                raise ValueError(
                    f"parameter {name!r} of {type(model).__name__} must be {shape} as its configuration "
                    f"has it, got {tuple(tensor.shape)}"
                )
        return [tensor.detach() for tensor in tensors]

    return fetch


def _get(get, name: str, config: ModelConfig):
    """Get a parameter or a module by the family's name for it, with one of the family's prefixes."""
    for prefix in config.family.prefixes:
        try:
            return get(prefix + name)
        except AttributeError:
            continue
    raise ValueError(f"model must be of the family {config.family.name}; it has no {name!r}")


def attention_layer(model: torch.nn.Module, layer: int) -> AttentionLayer:
    """Take one attention layer out of a model, as :func:`analysis.models.parameters.attention_layer` reads a file's."""
    config = config_of(model)
    return layers.read_attention(config, layer, _fetch(model, config))


def attention_layers(model: torch.nn.Module) -> list[AttentionLayer]:
    """Take the attention of every layer out of a model."""
    config = config_of(model)
    return [layers.read_attention(config, layer, _fetch(model, config)) for layer in range(config.layers)]


def layer_norm(model: torch.nn.Module, which: str, layer: int = 0) -> Norm:
    """Take one LayerNorm out of a model, as :func:`analysis.models.parameters.layer_norm` reads a file's."""
    config = config_of(model)
    return layers.read_layer_norm(config, which, layer, _fetch(model, config))


def query_biases(model: torch.nn.Module) -> list[Float[Tensor, "head channel"]]:
    """Return ``b_Q`` of every layer, as the model adds it to its queries."""
    config = config_of(model)
    return [layers.read_query_bias(config, layer, _fetch(model, config)) for layer in range(config.layers)]


def encoder_layers(model: torch.nn.Module) -> list[EncoderLayer]:
    """Take the layers out of a BERT: post-LN, every position attends to every other, the exact GELU.

    Raises
    ------
    ValueError
        If the model is not built so, and our forward pass would not be its own.
    """
    family = getattr(getattr(model, "config", None), "model_type", None)
    if family != "bert":
        raise ValueError(f"model must be of the BERT family, got {type(model).__name__}")
    config = config_of(model)
    if config.activation != "gelu":
        raise ValueError(
            f"model must have the exact GELU for its activation, got {config.activation!r}: our "
            "forward pass would not be its own"
        )
    return [layers.read_encoder_layer(config, layer, _fetch(model, config)) for layer in range(config.layers)]


def attention_inputs(
    model: torch.nn.Module, states: Sequence[Float[Tensor, "*batch position model"]]
) -> list[Float[Tensor, "*batch position model"]]:
    """Return what the attention of each layer reads, of the states between layers: in a pre-LN model, their LayerNorm.

    Parameters
    ----------
    states
        One for each layer, the first layer's first; more are left out.
    """
    config = config_of(model)
    states = list(states)[: config.layers]
    if not config.family.norm_first:
        return states
    name = config.family.norms["attention"]
    return [_get(model.get_submodule, name.format(layer), config)(state) for layer, state in enumerate(states)]


def embed(
    model: torch.nn.Module, ids: Int[Tensor, " position"]
) -> tuple[Float[Tensor, "position model"], Float[Tensor, "position model"], Norm]:
    """Return token rows, position rows and the LayerNorm through which the first layer's attention reads their sum.

    In a BERT the row of the first token type is added to every token.
    """
    config = config_of(model)
    fetch = _fetch(model, config)
    tokens = fetch(config.table_shapes("tokens"))[0][ids]
    if types := fetch(config.table_shapes("token_types")):
        tokens = tokens + types[0][0]
    positions = fetch(config.table_shapes("positions"))[0][: len(ids)]
    return tokens, positions, layers.read_layer_norm(config, config.family.input_norm(), 0, fetch)


def hidden_states(
    model: torch.nn.Module, tokenizer, texts: Sequence[str], longest: int | None = None
) -> list[Float[Tensor, "state _ model"]]:
    """Run a BERT on each text and return what every layer read and what the last one wrote (``layers + 1`` states).

    Parameters
    ----------
    model, tokenizer
        As ``pretrained.load`` and ``pretrained.tokenizer`` give them.
    texts
        One at a time, so nothing is padded.
    longest
        Cut each text after so many tokens; at most what the model takes, which is also the default.

    Raises
    ------
    ValueError
        If there is no text, or ``longest`` is below 1 or above the model's limit.
    """
    limit = model.config.max_position_embeddings
    longest = longest or limit
    if not texts:
        raise ValueError("texts is empty: there is nothing to run the model on")
    if not 1 <= longest <= limit:
        raise ValueError(f"longest must be 1..{limit} for this model, got {longest}")
    states = []
    for text in texts:
        ids = tokenizer(text, truncation=True, max_length=longest, return_tensors="pt").to(model.device)
        with torch.no_grad():
            states.append(torch.cat(model(**ids, output_hidden_states=True).hidden_states))
    return states


@dataclass(frozen=True)
class Observed:
    """A model's layers, and for each text the states that :func:`hidden_states` returns."""

    layers: list[EncoderLayer]
    states: list[Float[Tensor, "state _ model"]]

    @property
    def attention(self) -> list[AttentionLayer]:
        """The attention of each layer."""
        return [layer.attention for layer in self.layers]

    def rows(self, state: int) -> Float[Tensor, "row model"]:
        """Join the rows of all texts in one state: what layer ``state`` reads."""
        return torch.cat([states[state] for states in self.states])


def observe(model: torch.nn.Module, tokenizer, texts: Sequence[str], longest: int | None = None) -> Observed:
    """Take a model's layers and run it on texts; arguments and refusals as in the two functions it joins."""
    return Observed(encoder_layers(model), hidden_states(model, tokenizer, texts, longest))


def count_parameters(layers: int, heads: int, model: int) -> int:
    """Count the parameters of a BERT of the published kind, with its English vocabulary and its pooling layer.

    The model is built on the ``meta`` device: it has shapes and no numbers, so nothing is downloaded or drawn.

    Parameters
    ----------
    layers, heads, model
        The published sizes L, A and H; the MLPs are ``4 * model`` wide.

    Notes
    -----
    Ledger B-01.

    Examples
    --------
    >>> count_parameters(12, 12, 768)
    109482240
    """
    from transformers import BertConfig, BertModel

    shape = BertConfig(
        num_hidden_layers=layers, num_attention_heads=heads, hidden_size=model, intermediate_size=4 * model
    )
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in BertModel(shape).parameters())


def accepts(model: torch.nn.Module, length: int) -> bool:
    """Say whether a BERT runs on an input of so many tokens, or refuses it.

    Notes
    -----
    Ledger B-02.
    """
    tokens = torch.zeros(1, length, dtype=torch.long, device=model.device)
    try:
        with torch.no_grad():
            model(tokens)
    except (RuntimeError, IndexError, ValueError):
        return False
    return True


def order_sensitivity(
    model: torch.nn.Module, tokens: Int[Tensor, "1 position"], permutation: Int[Tensor, " position"]
) -> float:
    r"""Return how far a model is from being a function of a set of tokens: :math:`\|Pf(X) - f(PX)\| / \|f(X)\|`.

    Parameters
    ----------
    model
        A BERT as ``pretrained.load`` gives it; :math:`f` is its last hidden state.
    tokens
        One text.
    permutation
        The order in which :math:`P` takes the tokens.

    Notes
    -----
    Ledger B-05.
    """
    with torch.no_grad():
        permuted_output = model(tokens).last_hidden_state[0][permutation]
        output_of_permuted = model(tokens[:, permutation]).last_hidden_state[0]
    return ((permuted_output - output_of_permuted).norm() / permuted_output.norm()).item()
