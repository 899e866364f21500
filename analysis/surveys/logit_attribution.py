"""What each head, MLP and bias adds to the logits of a running model, the size of its last norm held fixed.

The stream before the last norm is a sum, and with the norm's divisor as it is, logits are linear in it. A soft cap
comes after the sum. What a part does by way of later layers is not in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from einops import einsum
from jaxtyping import Float, Int
from torch import Tensor

from analysis.core.attention_layer import Norm
from analysis.core.shapes import say_shapes
from analysis.models.inputs import read_inputs, real_rows
from analysis.models.reading import AnyModel, Model, load
from analysis.surveys.layer_runs import HALF, layer_paths
from analysis.transformer.layernorm import apply_norm, divide_by_size

CLOSE = 1e-3
"""Of the largest entry: how far a sum of parts may be from what a model in float32 has."""


@dataclass(frozen=True)
class LogitParts:
    """The parts of some logits at one position of each text; they add up to the logits before any soft cap.

    Attributes
    ----------
    tokens
        ``(text, token)``, whose logits these are.
    embedding
        ``(text, token)``: what the first layer reads, positions included.
    heads
        ``(text, layer, head, token)``.
    output_biases
        ``(text, layer, token)``: ``b_O``, and the bias of a norm after the attention.
    mlps
        ``(text, layer, token)``: all else that a layer adds.
    bias
        ``(text, token)``: the biases of the last norm and of the unembedding.
    soft_cap
        Logits are ``soft_cap * tanh(total / soft_cap)``, if it is there.
    """

    tokens: Int[Tensor, "text token"]
    embedding: Float[Tensor, "text token"]
    heads: Float[Tensor, "text layer head token"]
    output_biases: Float[Tensor, "text layer token"]
    mlps: Float[Tensor, "text layer token"]
    bias: Float[Tensor, "text token"]
    soft_cap: float | None = None

    __repr__ = say_shapes

    def total(self) -> Float[Tensor, "text token"]:
        """Add the parts up."""
        of_layers = self.heads.sum(2) + self.output_biases + self.mlps
        return self.embedding + of_layers.sum(1) + self.bias

    def logits(self) -> Float[Tensor, "text token"]:
        """Return the model's logits: the sum, through its soft cap."""
        total = self.total()
        return total if self.soft_cap is None else self.soft_cap * torch.tanh(total / self.soft_cap)


def logit_parts(model: AnyModel, inputs: Any, tokens: Any = None, *, position: int = -1) -> LogitParts:
    r"""Run a language model and split logits into what its heads, MLPs and biases write.

    .. math::  \ell_t = \sum_k \frac{y_k \odot \gamma}{\sigma(\sum_k y_k)}\, U_t + \beta U_t + b_t

    with the parts :math:`y_k` of the last stream, centred where the norm does so. Of two tokens, the difference of
    their parts is the direct logit attribution of the literature.

    Parameters
    ----------
    model
        A model as `load` takes it. One in memory must have its unembedding.
    inputs
        As `layer_inputs` takes them.
    tokens
        A token, or some; or ``(text, token)``. Default: the one with the largest logit.
    position
        Whose logits: by default those after the last row.

    Raises
    ------
    ValueError
        If the model has no unembedding, norms its stream after every sum (post-LN), or writes into its stream what is
        not found to be the sum of its attention and one other part; or if the position is padding.

    References
    ----------
    Elhage et al., *A Mathematical Framework for Transformer Circuits* (2021); Wang et al., *Interpretability in the
    Wild* (2022), appendix.

    Examples
    --------
    >>> from analysis import load, pretrained
    >>> read = load(pretrained.load("gpt2-mini", task="lm"))
    >>> ids = torch.arange(5, 14)[None]
    >>> parts = logit_parts(read, ids, tokens=[7, 8])
    >>> own = read.module(ids).logits[:, -1, 7:9]
    >>> parts.heads.shape, torch.allclose(parts.logits(), own, atol=1e-4)
    (torch.Size([1, 2, 8, 2]), True)
    """
    given = load(model)
    read = given if given.checkpoint is None else load(_language_model(given), tokenizer=given.tokenizer)
    module: Any = read.module
    head = module.get_output_embeddings()
    if module.training:
        raise ValueError("model is in training mode: call model.eval() first, dropout changes what a layer adds")
    if not isinstance(head, torch.nn.Linear):
        raise ValueError(f"{type(module).__name__} has no unembedding: load it as transformers.AutoModelForCausalLM")
    if head.weight.dtype in HALF:
        raise ValueError(
            f"model computes in {head.weight.dtype}, in which its parts do not add up: model.float() first"
        )
    if where := read.where_attention():
        raise ValueError(f"a {read.config.model_type} has {where}: what its other layers write is not split")
    if any(norm.place == "sum" for norm in read.layers[0].norms):
        raise ValueError(f"a {read.config.model_type} norms its stream after every sum: its logits have no such parts")
    named = read_inputs(module, read, read.encode(inputs))
    keep = real_rows(read, named)
    if keep is not None and not keep[:, position].all():
        raise ValueError(f"position {position} is padding in one of the texts: choose another, or read them alone")
    return _Split(read, head, named, position)(tokens)


def _language_model(given: Model) -> torch.nn.Module:
    from analysis.models import pretrained  # only where a model is in files

    assert given.checkpoint is not None
    return pretrained.load(given.checkpoint, task="lm", dtype=given.dtype)


class _Split:
    """One run of a model, of which every module's input and output at one position is kept."""

    def __init__(self, read: Model, head: torch.nn.Linear, named: Mapping[str, Tensor], position: int):
        self.read, self.head = read, head
        self.into: dict[str, Tensor] = {}
        self.out: dict[str, Tensor] = {}
        hooks = [
            part.register_forward_hook(
                lambda _, args, kwargs, out, path=path: self._note(path, args, kwargs, out), with_kwargs=True
            )
            for path, part in read.module.named_modules()
            if path
        ]
        self.position = position
        try:
            with torch.no_grad():
                self.logits = read.module(**named).logits[:, position]
        finally:
            for hook in hooks:
                hook.remove()

    def _note(self, path: str, args: tuple, kwargs: dict, out: Any) -> None:
        read = args[0] if args else kwargs.get("hidden_states")
        for kept, value in ((self.into, read), (self.out, out[0] if isinstance(out, tuple) else out)):
            if isinstance(value, Tensor) and value.ndim == 3 and value.is_floating_point():
                kept[path] = value[:, self.position].clone()  # Falcon adds to it in place

    def __call__(self, tokens: Any) -> LogitParts:
        read, count = self.read, len(self.read.layers)
        # What each layer added to the stream, and the last norm's divisor, which is taken as it is.
        paths = [read.path(number) for number in range(count)]
        heads, biases, rest = zip(*(self._layer(number, path) for number, path in enumerate(paths)), strict=True)
        last = self.out[paths[-1]]
        norm = self._last_norm(last)
        W, b = self.head.weight, self.head.bias
        # The unembedding rows of the tokens that are asked for.
        chosen = self.logits.argmax(-1, keepdim=True) if tokens is None else torch.as_tensor(tokens, device=last.device)
        chosen = torch.atleast_2d(chosen).expand(len(last), -1)
        factor = getattr(read.config, "logit_scale", None) or 1 / (getattr(read.config, "logits_scaling", None) or 1)
        U = factor * W[chosen]  # (text, token, model)

        def to_logits(rows: Tensor) -> Tensor:
            whole = last.reshape(len(last), *[1] * (rows.ndim - 2), -1)
            rows = divide_by_size(rows, norm, whole) * norm.gain
            return einsum(rows, U, "text ... model, text token model -> text ... token")

        # What no part of the stream adds: the biases of the norm and the unembedding.
        added = U @ norm.bias + (0 if b is None else factor * b[chosen])
        cap = getattr(read.config, "final_logit_softcapping", None)
        of_layers = (to_logits(torch.stack(each, 1)) for each in (heads, biases, rest))
        parts = LogitParts(chosen, to_logits(self.into[paths[0]]), *of_layers, added, cap)
        self._check(
            parts.logits(), self.logits.gather(-1, chosen), "logits are more than its unembedding makes of them"
        )
        return parts

    def _layer(self, number: int, path: str) -> tuple[Tensor, Tensor, Tensor]:
        """Return what each head adds to the stream, the biases behind them, and what else the layer adds."""
        layer = self.read.layers[number]
        output = list(layer_paths(self.read))[number][1]
        # The heads' own messages, which must add up to what the attention wrote.
        z = self.into[output].unflatten(-1, (layer.heads, -1))
        heads = einsum(z, layer.W_O, "text head value, head value model -> text head model")
        bias, written = layer.b_O.expand(len(z), -1), self.out[output]
        self._check(heads.sum(1) + bias, written, f"{output} is more than the output of its heads")
        if after := layer.norm("update"):
            heads, bias = (
                divide_by_size(part, after, by) * after.gain
                for part, by in ((heads, written[:, None]), (bias, written))
            )
            bias = bias + after.bias
        # What else the layer adds must be the output of one module: its MLP.
        rest = self.out[path] - self.into[path] - heads.sum(1) - bias
        own = [value for name, value in self.out.items() if name.startswith(f"{path}.") and value.shape == rest.shape]
        if not any(self._same(rest, value) for value in own):
            raise ValueError(
                f"{path} adds to its stream what is not the sum of its attention and the output of one other module: "
                "its logits are not split here"
            )
        return heads, bias, rest

    def _last_norm(self, last: Tensor) -> Norm:
        """Find the norm between the last layer and the unembedding, of the kind of which those of the layers are."""
        names = dict(self.read.module.named_modules())
        target = self.into[next(path for path, module in names.items() if module is self.head)]
        like = next(iter(self.read.layers[-1].norms), None)
        for path, value in self.out.items():
            passes = path in self.into and self._same(self.into[path], last) and self._same(value, target)
            if like is None or not passes:
                continue
            parts = [getattr(names[path], part, None) for part in ("weight", "bias")]
            gain = torch.ones_like(like.gain) if parts[0] is None else parts[0]
            bias = torch.zeros_like(gain) if parts[1] is None else parts[1]
            for shift in (0, 1):  # Gemma's gain is 1 + weight
                norm = Norm(gain + shift, bias, like.eps, like.kind)
                if self._same(apply_norm(last, norm), target):
                    return norm
        raise ValueError("no norm of the kind of the layers' stands between the last layer and the unembedding")

    def _same(self, one: Tensor, other: Tensor) -> bool:
        return one.shape == other.shape and bool((one - other).abs().max() <= CLOSE * other.abs().max())

    def _check(self, ours: Tensor, own: Tensor, otherwise: str) -> None:
        if not self._same(ours, own):
            raise ValueError(f"a {self.read.config.model_type} is not split here: {otherwise}")
