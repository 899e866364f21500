r"""Scores of a head that tell what it does on tokens that repeat: induction, copying, attention to the previous token.

After Olsson et al. (2022) and Elhage et al. (2021).
"""

import torch
from einops import einsum
from jaxtyping import Float, Int
from torch import Tensor

from analysis.core.checks import check_distributions, check_vocabulary
from analysis.core.signatures import checked


@checked
def earlier_matches(tokens: Int[Tensor, "*batch position"], offset: int = 1) -> Float[Tensor, "*batch query key"]:
    """Mark with 1 each key that an induction head should attend to: ``x[key - offset] == x[query]``, ``key <= query``.

    Raises for an ``offset`` below 1.

    >>> earlier_matches(torch.tensor([0, 1, 0]))[2]
    tensor([0., 1., 0.])
    """
    if offset < 1:
        raise ValueError(f"offset must be at least 1, got {offset}")
    length = tokens.shape[-1]
    same = tokens[..., :, None] == tokens[..., None, : max(length - offset, 0)]
    return torch.nn.functional.pad(same, (min(offset, length), 0)).tril().to(torch.get_default_dtype())


@checked
def mean_of_successors(tokens: Int[Tensor, "*batch position"], vocab: int) -> Float[Tensor, "*batch position vocab"]:
    """Return, at every position, the mean of the tokens that followed earlier occurrences of its token.

    Where the token is new, the mean of all tokens up to it. This is what the head predicts in the limit of a large
    ``beta``, if the first token does not come again.

    Examples
    --------
    In ``2 0 1 0`` the second 0 came before, and 1 followed it; 1 is new, and the tokens up to it are 2, 0 and 1:

    >>> mean_of_successors(torch.tensor([2, 0, 1, 0]), vocab=3)[2:]
    tensor([[0.3333, 0.3333, 0.3333],
            [0.0000, 1.0000, 0.0000]], dtype=torch.float64)
    """
    check_vocabulary("tokens", tokens, vocab)
    matches = earlier_matches(tokens).double()
    sources = torch.where(matches.any(-1, keepdim=True), matches, torch.ones_like(matches).tril())
    one_hot = torch.eye(vocab, dtype=sources.dtype, device=tokens.device)[tokens.long()]
    means = einsum(sources, one_hot, "... query key, ... key vocab -> ... query vocab")
    return means / sources.sum(-1, keepdim=True)


@checked
def induction_score(
    attention: Float[Tensor, "*batch head position position"], tokens: Int[Tensor, "*sequences position"]
) -> Float[Tensor, "*batch head"]:
    """Return each head's induction score: its mean attention, over queries seen before, to what came next.

    The *prefix matching score* of Olsson et al. (2022). 1 for a perfect induction head; about ``matches / keys`` for
    one that attends evenly.

    Raises
    ------
    ValueError
        If no token of a sequence came before, or attention and tokens differ in length.
    """
    matches = earlier_matches(tokens).to(attention.dtype)
    repeats = matches.any(-1)
    if not repeats.any(-1).all():
        raise ValueError("tokens must repeat: prefix matching is undefined where nothing came before")
    mass = einsum(attention, matches, "... head query key, ... query key -> ... head query")
    return mass.sum(-1) / repeats.sum(-1)[..., None]


prefix_matching = induction_score  # its name in Olsson et al.


@checked
def previous_token_score(attention: Float[Tensor, "*any position position"]) -> Float[Tensor, "*any"]:
    """Return each head's previous-token score: its mean attention to the position before, over queries that have one.

    1 for a perfect previous-token head, the head that an induction head is composed with (Elhage et al., *A
    Mathematical Framework for Transformer Circuits*, 2021).

    Raises
    ------
    ValueError
        If there is only one position, or rows do not sum to 1.

    Examples
    --------
    >>> maps = torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
    >>> previous_token_score(maps)
    tensor(0.7500)
    """
    if attention.shape[-1] < 2:
        raise ValueError("attention must have at least 2 positions: the first one has none before it")
    check_distributions("attention", attention, "query", "key")
    return attention.diagonal(-1, -2, -1).mean(-1)


@checked
def copying_score(
    attention: Float[Tensor, "*batch head query key"],
    logits: Float[Tensor, "*batch head key vocab"],
    tokens: Int[Tensor, "*sequences key"],
) -> Float[Tensor, "*batch head"]:
    """Return each head's copying score: of the logits that it raises, the share on the token it attends to.

    ``logits`` are what each key's message adds to the output logits. They are centred over the vocabulary, the
    negative part is dropped, and the share on the key's own token is averaged with the attention as weight: 1 for pure
    copying. Chance is ``1 / vocab``, the mean over all tokens that the keys could have been; a single untrained head
    scatters around it. After Olsson et al. 2022.
    """
    if tokens.shape[:-1] not in ((), logits.shape[:-3]):
        raise ValueError(
            f"tokens must be one sequence, or {(*logits.shape[:-3], logits.shape[-2])} to fit logits, got "
            f"{tuple(tokens.shape)}"
        )
    check_vocabulary("tokens", tokens, logits.shape[-1])
    raised = (logits - logits.mean(-1, keepdim=True)).clamp(min=0)
    index = tokens.long()[..., None, :, None].expand(*raised.shape[:-1], 1)
    share = raised.gather(-1, index)[..., 0] / raised.sum(-1).clamp(min=torch.finfo(raised.dtype).tiny)
    return einsum(attention, share, "... head query key, ... head key -> ... head") / attention.shape[-2]
