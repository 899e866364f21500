r"""The kernel of a head with rotary positions: what query and key bias say of distance alone, read off the weights.

``D(distance) = b_Q R(distance) b_K^T / sqrt(channel)``, a sum of one cosine per frequency.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.positions import Rotary
from analysis.core.signatures import checked
from analysis.decomposition.rotary_channels import check_rotary, split_channels


@dataclass(frozen=True)
class Kernel:
    r"""A function of distance for each head: :math:`D(\Delta) = \sum_f A_f \cos(\theta_f \Delta + \varphi_f) + d`.

    Attributes
    ----------
    amplitude, phase
        ``A`` in nats, not negative, and ``phi`` in radians, in (-pi, pi]. Amplitude 0 has phase 0.
    frequencies
        ``theta``, in radians per position.
    constant
        ``d``, what the coordinates add that are not turned; no softmax sees it.
    """

    amplitude: Float[Tensor, "head frequency"]
    phase: Float[Tensor, "head frequency"]
    frequencies: Float[Tensor, " frequency"]
    constant: Float[Tensor, " head"]

    @checked
    def at(self, distances: Float[Tensor, " distance"]) -> Float[Tensor, "head distance"]:
        """Return the kernel at each distance ``query - key``, in nats; negative distances are later keys."""
        angle = distances.to(self.phase)[:, None] * self.frequencies + self.phase[:, None]
        return (self.amplitude[:, None] * angle.cos()).sum(-1) + self.constant[:, None]

    def slope(self, distance: float | int = 0.0, slower_than: float | int = math.inf) -> Float[Tensor, " head"]:
        r"""Return :math:`D'`, in nats per position, of the frequencies below a limit in radians per position.

        At distance 0, of the frequencies that turn little within a text, it is what ALiBi fixes: the line by which a
        head prefers near keys (negative) or far ones.
        """
        slow = (self.frequencies < slower_than).to(self.amplitude) * self.frequencies
        return -(self.amplitude * slow * (self.frequencies * distance + self.phase).sin()).sum(-1)

    def preferred(self) -> Float[Tensor, "head frequency"]:
        r"""Return the smallest distance, at least 0, at which each cosine is largest: :math:`-\varphi_f/\theta_f`.

        It repeats with the period :math:`2\pi/\theta_f`.
        """
        return torch.remainder(-self.phase, 2 * math.pi) / self.frequencies


@checked(finite=True, mixed=True)
def distance_kernel(b_Q: Float[Tensor, "head channel"], b_K: Float[Tensor, "head channel"], rotary: Rotary) -> Kernel:
    r"""Return the kernel of each head from its two biases, in the dtype of these.

    .. math::

        A_f e^{i\varphi_f} = a^2\, \beta_f \bar\kappa_f / \sqrt c, \qquad
        \beta_f = z_f(b_Q),\; \kappa_f = z_f(b_K)

    where :math:`z_f` reads pair ``f`` of a vector as a complex number and ``a`` is the rotation's attention factor.
    Give it effective biases, such as ``b + beta W`` with the bias of a LayerNorm or ``b + o W`` with the mean input,
    for what these add.

    Examples
    --------
    >>> one, turn = torch.tensor([[2.0, 0.0]]), Rotary(torch.tensor([0.5]), 2)
    >>> kernel = distance_kernel(one, one, turn)
    >>> (kernel.at(torch.tensor([0.0, 2 * torch.pi])) * 2**0.5).round()
    tensor([[ 4., -4.]])
    """
    if b_Q.shape != b_K.shape:
        raise ValueError(
            f"b_Q and b_K must have one shape, got {tuple(b_Q.shape)} and {tuple(b_K.shape)}; repeat a "
            "group's key bias for each of its heads"
        )
    check_rotary(rotary, b_Q.shape[-1])
    root = math.sqrt(b_Q.shape[-1])
    conjugate = pair_channels(b_K, rotary).conj_physical()
    product = pair_channels(b_Q, rotary) * conjugate * (rotary.attention_factor**2 / root)
    rest = (split_channels(b_Q, rotary)[1] * b_K).sum(-1) / root
    return Kernel(product.abs(), product.angle(), rotary.frequencies.to(b_Q), rest)


@checked(finite=True, mixed=True)
def pair_channels(vectors: Float[Tensor, "*any channel"], rotary: Rotary) -> Tensor:
    """Read the coordinates that are turned as complex numbers: ``(..., frequency)``, ``a + ib`` for a pair ``(a, b)``.

    >>> pair_channels(torch.tensor([1.0, 2.0, 3.0, 4.0, 9.0]), Rotary(torch.ones(2), 5))
    tensor([1.+3.j, 2.+4.j])
    """
    check_rotary(rotary, vectors.shape[-1])
    turned = vectors[..., : rotary.coordinates]
    if rotary.pairing == "halves":
        return torch.complex(*turned.chunk(2, -1))
    return torch.complex(turned[..., ::2].contiguous(), turned[..., 1::2].contiguous())


def unpair_channels(pairs: Tensor, rotary: Rotary) -> Float[Tensor, "*any channel"]:
    """Write complex numbers back as the coordinates that are turned, the inverse of `pair_channels`; the rest is 0.

    >>> unpair_channels(torch.tensor([1 + 3j, 2 + 4j]), Rotary(torch.ones(2), 5))
    tensor([1., 2., 3., 4., 0.])
    """
    if rotary.pairing == "halves":
        turned = torch.cat([pairs.real, pairs.imag], -1)
    else:
        turned = torch.stack([pairs.real, pairs.imag], -1).flatten(-2)
    rest = turned.new_zeros(*turned.shape[:-1], rotary.channel - rotary.coordinates)
    return torch.cat([turned, rest], -1)
