"""How fast statistics are counted in tiles of other sizes, in half precision: ``python -m tools.tiles cuda``.

Beside each size stands the time of a pass with statistics over that of a plain one, a measurement for
:data:`analysis.maps.tiles.TILE` and :data:`analysis.maps.tiles.BLOCK`.
"""

import sys

import torch

from analysis.maps import tiles
from book.experiments.streaming_capture_gpu_cost import measure

CELLS, BLOCKS = (2**22, 2**24), (64, 128, 256, 512)


def main(device: str, sequences: int = 128) -> None:
    for cells in CELLS:
        for block in BLOCKS:
            tiles.TILE, tiles.BLOCK = cells, block
            found = measure(torch.bfloat16, torch.device(device), sequences=sequences, repeats=2, product=256)
            print(f"{cells:10} cells, {block:4} rows: {found['time']:.2f} times a plain pass", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
