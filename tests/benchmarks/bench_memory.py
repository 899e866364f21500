"""How much memory grows with the length of a text, of what looks at attention maps."""

from tests.benchmarks.machine import fresh_interpreter

LENGTHS = (512, 1024, 2048, 4096)
CALLS = {
    "the model alone": "model(read(n))",
    "`census`": "census(model, 'one two ' * n, tokenizer=tokenizer, longest=n)",
    "`score_parts`": "score_parts(model, read(n))",
    "`draw_maps`, one map": "save(draw_maps(torch.rand(1, n, n), words[:n]), 'png')",
    "a report's ten maps": "save(small_maps(read_maps(model, read(n)[:, :PICTURE])[0][:10], words, words), 'svg')",
}
PROGRAM = """
import torch
from transformers import GPT2Config, GPT2LMHeadModel
from analysis import census, draw_maps, score_parts
from analysis.models import checkpoints, pretrained
from analysis.reporting.figures import small_maps
from analysis.reporting.making import PICTURE, draw_maps as read_maps

torch.set_num_threads(1)
tokenizer = pretrained.tokenizer(checkpoints.find("gpt2-mini"))
shape = GPT2Config(n_layer=2, n_head=12, n_embd=768, n_positions={longest}, vocab_size=len(tokenizer))
shape._attn_implementation = "eager"
model, words = GPT2LMHeadModel(shape).eval().requires_grad_(False), [str(number) for number in range({longest})]
read = lambda n: torch.arange(n)[None] % len(tokenizer)
save = lambda figure, form: figure.savefig("/dev/null", format=form)
work = lambda n: {call}
work(16)
before = peak()
print(json.dumps([(work(n), peak() - before)[1] for n in {lengths}]))
"""


def test_memory_by_length(say):
    """It prints a table: the peak of a process for each row, beyond what a text of 16 tokens takes."""
    say(f"| MiB for a text of | {' | '.join(f'{n:,}' for n in LENGTHS)} tokens |")
    for name, call in CALLS.items():
        grown = fresh_interpreter(PROGRAM.format(lengths=LENGTHS, longest=LENGTHS[-1], call=call))
        say(f"| {name} | {' | '.join(f'{each:,.0f}' for each in grown)} |")
