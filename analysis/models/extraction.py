"""Plain tensors out of loaded modules: an encoder's layers, an attention module's weights, hidden states and maps.

What belongs here: reading modules of transformers and running them. What does not: reading parameters from files
without a module (:mod:`analysis.models.parameters`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from analysis.core.weights import AttentionWeights, EncoderLayer, LayerNormWeights, MlpWeights


def encoder_layers(model: torch.nn.Module) -> list[EncoderLayer]:
    """Take the layers out of a Hugging Face BERT, in the shapes of ``axes``.

    Raises
    ------
    ValueError
        If the model is not of the BERT family (``config.model_type``), or its activation is not the exact GELU.
    """
    if getattr(getattr(model, "config", None), "model_type", None) != "bert":
        raise ValueError(f"model must be of the BERT family, got {type(model).__name__}")
    if model.config.hidden_act != "gelu":
        raise ValueError(f"model must have the exact GELU for its activation, got {model.config.hidden_act!r}: our "
                         "forward pass would not be its own")
    body = getattr(model, "bert", model)
    return [_layer(layer, model.config.num_attention_heads) for layer in body.encoder.layer]


def _layer(layer: torch.nn.Module, heads: int) -> EncoderLayer:
    def into(linear):  # columns of the transposed matrix are cut into heads
        return linear.weight.detach().T.unflatten(1, (heads, -1)).transpose(0, 1).contiguous()

    def split(linear):
        return linear.bias.detach().unflatten(0, (heads, -1)).contiguous()

    def norm(module):
        return LayerNormWeights(module.weight.detach(), module.bias.detach(), module.eps)

    read, write = layer.attention.self, layer.attention.output.dense
    attention = AttentionWeights(
        into(read.query), into(read.key), into(read.value),
        write.weight.detach().T.unflatten(0, (heads, -1)).contiguous(),
        split(read.query), split(read.key), split(read.value), write.bias.detach())
    up, down = layer.intermediate.dense, layer.output.dense
    mlp = MlpWeights(up.weight.detach().T.contiguous(), up.bias.detach(),
                     down.weight.detach().T.contiguous(), down.bias.detach())
    return EncoderLayer(attention, norm(layer.attention.output.LayerNorm), mlp, norm(layer.output.LayerNorm))


def hidden_states(model: torch.nn.Module, tokenizer, texts: Sequence[str],
                  longest: int | None = None) -> list[Float[Tensor, "state _ model"]]:
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
    found = []
    for text in texts:
        ids = tokenizer(text, truncation=True, max_length=longest, return_tensors="pt").to(model.device)
        with torch.no_grad():
            found.append(torch.cat(model(**ids, output_hidden_states=True).hidden_states))
    return found


@dataclass(frozen=True)
class Observed:
    """A model's layers, and for each text the states that :func:`hidden_states` returns."""

    layers: list[EncoderLayer]
    states: list[Float[Tensor, "state _ model"]]

    @property
    def attention(self) -> list[AttentionWeights]:
        """The attention of each layer."""
        return [layer.attention for layer in self.layers]

    def rows(self, state: int) -> Float[Tensor, "row model"]:
        """Join the rows of all texts in one state: what layer ``state`` reads."""
        return torch.cat([found[state] for found in self.states])


def observe(model: torch.nn.Module, tokenizer, texts: Sequence[str], longest: int | None = None) -> Observed:
    """Take a model's layers and run it on texts; arguments and refusals as in the two functions it joins."""
    return Observed(encoder_layers(model), hidden_states(model, tokenizer, texts, longest))


def count_parameters(layers: int, heads: int, model: int) -> int:
    """Count the parameters of a BERT of the published kind, with its English vocabulary and its pooling layer.

    The model is built on the ``meta`` device: it has shapes and no numbers, so nothing is downloaded or drawn.

    Parameters
    ----------
    layers, heads, model
        The published sizes L, A and H; the perceptrons are ``4 * model`` wide.

    Notes
    -----
    Ledger B-01.

    Examples
    --------
    >>> count_parameters(12, 12, 768)
    109482240
    """
    from transformers import BertConfig, BertModel
    shape = BertConfig(num_hidden_layers=layers, num_attention_heads=heads, hidden_size=model,
                       intermediate_size=4 * model)
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


def order_sensitivity(model: torch.nn.Module, tokens: Int[Tensor, "1 position"],
                      permutation: Int[Tensor, " position"]) -> float:
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


@torch.no_grad()
def weights_of(module: torch.nn.Module) -> AttentionWeights:
    """Read the weights back out of a ``GPT2Attention``, for instance one of a control that lies in no file.

    Raises
    ------
    ValueError
        If the module is another one.
    """
    if not all(hasattr(module, name) for name in ("c_attn", "c_proj", "num_heads")):
        raise ValueError(f"module must be a GPT2Attention, got {type(module).__name__}")
    heads, model = module.num_heads, module.c_proj.weight.shape[1]
    Ws = [W.reshape(model, heads, -1).transpose(0, 1) for W in module.c_attn.weight.chunk(3, 1)]
    bs = [b.reshape(heads, -1) for b in module.c_attn.bias.chunk(3)]
    return AttentionWeights(*Ws, module.c_proj.weight.reshape(heads, -1, model), *bs, module.c_proj.bias)
