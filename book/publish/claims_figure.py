"""The figure of the first page: verdicts by document."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from analysis.plotting import style


def verdicts(counts: Mapping[str, Mapping[str, int]], names: Mapping[str, str]) -> Figure:
    """Draw one bar per document, cut into its verdicts.

    Parameters
    ----------
    counts
        Document's letter to outcome to number of claims.
    names
        Document's letter to its name.
    """
    fig, ax = style.new(size="strip")
    rows = [f"{letter} · {names[letter]}" for letter in counts]
    left = [0] * len(rows)
    for outcome in next(iter(counts.values())):
        sizes = [counts[letter][outcome] for letter in counts]
        if not any(sizes):
            continue
        ax.barh(rows, sizes, left=left, color=style.VERDICTS[outcome], label=f"{outcome} ({sum(sizes)})", height=0.72)
        for row, (start, size) in enumerate(zip(left, sizes, strict=True)):
            if size > 2:
                pale = outcome in ("open", "conditional")
                ax.text(
                    start + size / 2,
                    row,
                    size,
                    ha="center",
                    va="center",
                    color=style.COLOURS["ink"] if pale else style.COLOURS["paper"],
                )
        left = [a + b for a, b in zip(left, sizes, strict=True)]
    ax.invert_yaxis()
    ax.set_xlabel("claims")
    fig.legend(loc="outside upper center", ncols=6, columnspacing=1.0, handlelength=1)
    return fig
