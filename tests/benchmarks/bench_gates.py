"""Time and memory of reading one attention map grow no faster than its cells do: 64 times the cells, from 256 to 2,048.

CPU times of this process, least of several; memory is the added peak of a process of its own.
``python -m tests.benchmarks.bench_gates`` prints the table.
"""

from book.studies.bert_gates.cost import measure

SLACK = 2.0  # caches: a map of 2,048 does not fit where one of 256 does


def test_reading_a_map_is_linear_in_its_cells():
    seconds, megabytes = measure((256, 2048), repeats=5)
    assert seconds[1] / seconds[0] < 64 * SLACK
    assert megabytes[1] < 2048**2 * 4 / 2**20 * 100  # a hundred maps of single precision


if __name__ == "__main__":
    sizes = (128, 256, 512, 1024, 2048)
    for n, seconds, megabytes in zip(sizes, *measure(sizes), strict=True):
        print(f"{n:5} positions  {1e3 * seconds:8.1f} ms  {1e9 * seconds / n**2:6.0f} ns a cell  {megabytes:7.1f} MB")
