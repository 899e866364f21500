"""Plain tensors out of running models: what a layer reads, hidden states."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer, Norm
from analysis.core.weights import EncoderLayer
from analysis.models.reading import load


def attention_inputs(
    model: torch.nn.Module, states: Sequence[Float[Tensor, "*batch position model"]]
) -> list[Float[Tensor, "*batch position model"]]:
    """Return what the attention of each layer reads, of the states between layers: in a pre-LN model, their LayerNorm.

    Parameters
    ----------
    states
        One for each layer, the first layer's first; more are left out, and in a hybrid those without attention.
    """
    read = load(model)
    own = [(layer, states[layer]) for layer in read.layers.numbers]
    if read.family.norms[0].place != "input":
        return [state for _, state in own]
    return [model.get_submodule(read.norm_paths(layer)[0])(state) for layer, state in own]


def embed(
    model: torch.nn.Module, ids: Int[Tensor, " position"]
) -> tuple[Float[Tensor, "position model"], Float[Tensor, "position model"], Norm]:
    """Return token rows, position rows and the LayerNorm through which the first layer's attention reads their sum.

    In a BERT the row of the first token type is added to every token.
    """
    read = load(model)
    if read.rest is None:
        raise ValueError(f"model must be a GPT-2 or a BERT, got {type(model).__name__}")
    tokens, types = read.need("tokens")[ids], read.token_types()
    tokens = tokens if types is None else tokens + types[0]
    return tokens, read.need("positions")[: len(ids)], read.norm(read.rest.embeddings)


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
    limit = load(model).room or model.config.max_position_embeddings
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
    return Observed(load(model).encoder_layers(), hidden_states(model, tokenizer, texts, longest))


def count_parameters(layers: int, heads: int, model: int) -> int:
    """Count the parameters of a BERT of the published kind, with its English vocabulary and its pooling layer.

    The model is built on the ``meta`` device: it has shapes and no numbers, so nothing is downloaded or drawn.

    Parameters
    ----------
    layers, heads, model
        The published sizes L, A and H; the MLPs are ``4 * model`` wide.

    Notes
    -----
    Section 2.1 of "The geometry of BERT" gives 110 million for BERT base, 340 million for BERT large.

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
    """Return whether a BERT runs on an input of so many tokens, or refuses it.

    Notes
    -----
    "The geometry of BERT", section 2.1, has 512.
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
    permutation
        The order in which :math:`P` takes the tokens.

    Notes
    -----
    "The geometry of BERT", section 2.1.
    """
    with torch.no_grad():
        permuted_output = model(tokens).last_hidden_state[0][permutation]
        output_of_permuted = model(tokens[:, permutation]).last_hidden_state[0]
    return ((permuted_output - output_of_permuted).norm() / permuted_output.norm()).item()
