"""Reading rows back by ridge regression, and how much of them a prediction explains."""

import torch
from jaxtyping import Float
from torch import Tensor


def fit_ridge(
    x: Float[Tensor, "row input"], y: Float[Tensor, "row output"], new: Float[Tensor, "other input"], ridge: float
) -> Float[Tensor, "other output"]:
    """Predict y at new rows by ridge regression; the ridge is in units of the mean squared column of x.

    Examples
    --------
    >>> x = torch.tensor([[0.0], [1.0], [2.0]])
    >>> fit_ridge(x, 2 * x + 1, torch.tensor([[3.0]]), ridge=0.0)
    tensor([[7.]])
    """
    centre, level = x.mean(0), y.mean(0)
    x = x - centre
    gram = x.T @ x
    gram += ridge * gram.diagonal().mean() * torch.eye(len(gram), dtype=x.dtype, device=x.device)
    return (new - centre) @ torch.linalg.solve(gram, x.T @ (y - level)) + level


def explained(predicted: Float[Tensor, "row output"], y: Float[Tensor, "row output"]) -> Float[Tensor, ""]:
    """Return the share of y's variance that a prediction explains; below 0 where its mean would do better.

    Examples
    --------
    >>> explained(torch.tensor([[0.0], [1.0]]), torch.tensor([[0.0], [2.0]]))
    tensor(0.5000)
    """
    return 1 - (predicted - y).square().sum() / (y - y.mean(0)).square().sum()
