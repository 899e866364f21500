"""Ridge regression: predicting rows from other rows, and how much of their variance a prediction explains."""

from jaxtyping import Float
from torch import Tensor, eye, linalg


def fit_ridge(
    x: Float[Tensor, "row input"], y: Float[Tensor, "row output"], new: Float[Tensor, "other input"], ridge: float
) -> Float[Tensor, "other output"]:
    """Predict y at new rows by ridge regression; the ridge is in units of the mean squared column of x.

    >>> from torch import tensor
    >>> x = tensor([[0.0], [1.0], [2.0]])
    >>> fit_ridge(x, 2 * x + 1, tensor([[3.0]]), ridge=0.0)
    tensor([[7.]])

    A ridge of 1 halves a slope:

    >>> x = tensor([[-1.0], [1.0]])
    >>> fit_ridge(x, x, x, ridge=1.0).flatten()
    tensor([-0.5000,  0.5000])
    """
    centre, level = x.mean(0), y.mean(0)
    x = x - centre
    gram = x.T @ x
    gram += ridge * gram.diagonal().mean() * eye(len(gram), dtype=x.dtype, device=x.device)
    return (new - centre) @ linalg.solve(gram, x.T @ (y - level)) + level


def explained(predicted: Float[Tensor, "row output"], y: Float[Tensor, "row output"]) -> Float[Tensor, ""]:
    """Return the share of y's variance that a prediction explains; below 0 where its mean would do better.

    >>> from torch import tensor
    >>> explained(tensor([[0.0], [1.0]]), tensor([[0.0], [2.0]]))
    tensor(0.5000)
    """
    return 1 - (predicted - y).square().sum() / (y - y.mean(0)).square().sum()
