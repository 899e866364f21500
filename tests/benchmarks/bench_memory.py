"""How much memory grows with the length of a text, of what looks at attention maps."""

import json
import subprocess
import sys

LENGTHS = (512, 1024, 2048, 4096)
CALLS = {
    "the model alone": "model(read(n))",
    "`census`": "census(model, 'one two ' * n, tokenizer=tokenizer, longest=n)",
    "`score_parts`": "score_parts(model, read(n))",
    "`draw_maps`, one map": "save(draw_maps(torch.rand(1, n, n), words[:n]), 'png')",
    "a report's ten maps": "save(small_maps(read_maps(model, read(n)[:, :PICTURE])[0][:10], words, words), 'svg')",
}
PROGRAM = """
import json, re
import torch
from transformers import GPT2Config, GPT2LMHeadModel
from analysis import census, draw_maps, score_parts
from analysis.models import checkpoints, pretrained
from analysis.reporting.figures import small_maps
from analysis.reporting.making import PICTURE, draw_maps as read_maps

def peak():  # of this process; getrusage would count its parent's
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024

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


def test_memory_by_length(capsys):
    """It prints a table: the peak of a process for each row, beyond what a text of 16 tokens takes."""
    rows = [f"| MiB for a text of | {' | '.join(f'{n:,}' for n in LENGTHS)} tokens |"]
    for name, call in CALLS.items():
        program = PROGRAM.format(lengths=LENGTHS, longest=LENGTHS[-1], call=call)
        child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert child.returncode == 0, child.stderr
        rows.append(f"| {name} | {' | '.join(f'{each:,.0f}' for each in json.loads(child.stdout))} |")
    with capsys.disabled():
        print("", *rows, sep="\n")
