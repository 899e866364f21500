"""What is recorded of the dial from uniform to sharp, and of output projections.

Static: the source of every ``modeling_*.py`` is parsed, nothing is imported or run. A module counts where its
``__init__`` makes linear maps for queries, keys and values, separate or fused.
"""

import ast
import importlib.util
import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import numpy as np
import torch

from analysis.core.attention_layer import Norm
from analysis.maps import entropy
from analysis.models import checkpoints, pretrained
from analysis.models.controls import make_controls, random_attention_layer
from analysis.models.reading import load
from analysis.transformer.attention import compute_scores, mask_future
from analysis.transformer.layernorm import apply_norm
from book.publish.records import Experiment, Result, Value
from book.studies.shared.equality import entropy_shares
from book.studies.shared.gpt2_mini_runs import SEEDS, find_run
from book.studies.shared.ladder import measure_controls

# ---- Survey: how many attention modules of the installed transformers library have an output projection

LINEAR = re.compile(r"\b(\w*Linear\w*|Conv1D|Conv[12]d|Parameter|ConvDropoutLayerNorm)\(")
FUSED = re.compile(r"qkv|query_key_value|c_attn|^in_proj|^Wqkv$|^W_pack$|^att_proj$", re.I)
QUERY = re.compile(r"^(q|wq|w_q|to_q|.*query.*|q_.*|.*_q|.*q_proj.*|.*q_lin.*)$", re.I)
VALUE = re.compile(r"^(v|wv|w_v|to_v|.*value.*|v_.*|.*_v|kv_.*|.*_kv|.*v_proj.*|.*v_lin.*)$", re.I)
OUT = re.compile(
    r"^(o|wo|to_out|dense|proj|post(_proj)?|(final_)?linear|.*out.*|o_.*|.*_o|c_proj|.*projection.*)$", re.I
)
HOLDABLE = re.compile(r"Attention|Projection")


def made(class_: ast.ClassDef, lines: list[str]) -> dict[str, str]:
    """Return what a class assigns to ``self`` in ``__init__``: attribute to source lines."""
    init = next((n for n in class_.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
    assigned = [n for n in ast.walk(init) if isinstance(n, ast.Assign)] if init else []
    parts: dict[str, str] = {}
    for node in assigned:
        source = " ".join(lines[node.lineno - 1 : node.end_lineno])
        for t in node.targets:
            if isinstance(t, ast.Attribute) and isinstance(t.value, ast.Name) and t.value.id == "self":
                parts[t.attr] = f"{parts.get(t.attr, '')} {source}"
    return parts


def judge(source: str) -> Iterator[tuple[str, str]]:
    """Yield each attention class of a file with where its output projection is: ``own``, ``beside`` or ``none``.

    ``beside``: in an ``...Output`` class of the same file, as BERT has it, in a class that holds this one, or in
    an attention class that this one holds.
    """
    tree = ast.parse(source)
    lines = source.splitlines()
    classes = {n.name: made(n, lines) for n in tree.body if isinstance(n, ast.ClassDef)}
    outputs = [name for name, parts in classes.items() if "Output" in name and _linear(parts, re.compile(""))]
    taken = re.compile("|".join([FUSED.pattern, QUERY.pattern, VALUE.pattern]), re.I)
    own = {n: [p for p in _linear(parts, OUT) if not taken.search(p)] for n, parts in classes.items()}
    for name, parts in classes.items():
        fused = _linear(parts, FUSED)
        if "Attention" not in name or not (fused or (_linear(parts, QUERY) and _linear(parts, VALUE))):
            continue
        holders = [n for n, p in classes.items() if _makes(p, name)]
        held = [n for n in own if HOLDABLE.search(n) and _makes(parts, n)]
        if own[name]:
            yield name, "own"
        elif outputs or any(own[n] for n in holders + held):
            yield name, "beside"
        else:
            yield name, "none"


def _makes(parts: dict[str, str], name: str) -> bool:
    return any(re.search(rf"\b{name}\(", s) for s in parts.values() if name in s)


def _linear(parts: dict[str, str], names: re.Pattern) -> list[str]:
    return [p for p, made_by in parts.items() if names.search(p) and LINEAR.search(made_by)]


def compute(device) -> Result:
    """Count over the installed library."""
    root = Path(importlib.util.find_spec("transformers").submodule_search_locations[0]) / "models"
    files = sorted(root.rglob("modeling_*.py"))
    found = [(f.parent.name, name, where) for f in files for name, where in judge(f.read_text(encoding="utf-8"))]
    without = sorted(f"{folder}.{name}" for folder, name, where in found if where == "none")
    counts = {w: Value(sum(where == w for *_, where in found), n=len(found)) for w in ("own", "beside", "none")}
    return Result(
        {
            **counts,
            "modules": Value(len(found)),
            "files": Value(len(files)),
            "without": Value(", ".join(without)),
            "transformers": Value(metadata.version("transformers")),
        }
    )


# ---- What is recorded of the dial from uniform to sharp: of GPT-2, of the ladder of controls, of seeds of gpt2-mini

POSITIONS, DRAWS = 128, 8
DIALS = torch.cat([torch.zeros(1), torch.logspace(-2, 2, 33)]).double()


def curves(x, layer) -> tuple[torch.Tensor, torch.Tensor]:
    """Return means over sequences and rows 2, 3, ...: ``(dial, head)`` entropy over ``log i``, and weight on itself."""
    scores = mask_future(compute_scores(x, layer))
    share = entropy.entropy_at(scores, DIALS.to(x)) / entropy.count_visible_keys(scores).log()
    return share[..., 1:].mean((1, -1)), scores.softmax(-1).diagonal(dim1=-2, dim2=-1)[..., 1:].mean((0, -1))


def turn_gpt2(device) -> Result:
    """Turn the dial for the trained layer and for the control."""
    checkpoint = checkpoints.find("gpt2")
    model = load(checkpoint, dtype=torch.float64)
    g = torch.Generator().manual_seed(0)
    noise = torch.randn(DRAWS, POSITIONS, model.width, generator=g, dtype=torch.float64).to(device)
    positions = model.positions[:POSITIONS].to(device)
    norm = model.norm("attention").to(device)
    layer = model.layers[0].plain().to(device)
    random = random_attention_layer(model, 0, dtype=torch.float64).to(device)
    plain = Norm(torch.ones_like(norm.gain), torch.zeros_like(norm.bias), norm.eps)
    inputs = {
        "positions": (apply_norm(positions, norm)[None], layer),
        "stand_ins": (apply_norm(positions + positions.std() * noise, norm), layer),
        "control": (apply_norm(model.config.initializer_range * noise, plain), random),
    }
    arrays = {}
    for name, (x, w) in inputs.items():
        arrays[name], arrays[f"{name}_self"] = (a.cpu().numpy() for a in curves(x, w))
    return Result(
        {"positions": Value(POSITIONS), "draws": Value(DRAWS), "spread": Value(float(positions.std()), 1e-6)},
        {"dials": DIALS.numpy(), **arrays},
        {"dials": 1e-6, **dict.fromkeys(arrays, 1e-6)},
    )


MODELS, PASSAGES = ("gpt2-mini", "minilm"), 4


def measure_ladder(device: torch.device) -> Result:
    """Return ``(layer, head)`` shares of the full entropy, trained, and ``(rung, seed, layer, head)`` of controls."""
    arrays = {}
    for name in MODELS:
        trained, controls = of_model(name, device)
        arrays |= {name: trained, f"{name}-controls": controls}
    trained, controls = of_gpt2(device)
    arrays |= {"gpt2": trained, "gpt2-controls": controls}
    return Result({}, arrays, dict.fromkeys(arrays, 1e-4))


def of_model(name: str, device: torch.device) -> tuple[np.ndarray, np.ndarray]:
    """Run a whole model and its controls on text."""
    checkpoint = checkpoints.find(name)
    trained = pretrained.load(checkpoint, dtype=torch.float64, device=device)

    def draw(seed):
        return pretrained.load(checkpoint, control_seed=seed, dtype=torch.float64, device=device)

    def share(network):
        return entropy_shares(checkpoint, passages=PASSAGES, network=network, device=device)[0].cpu().numpy()

    return share(trained), measure_controls(make_controls(trained, draw), share)


def of_gpt2(device: torch.device) -> tuple[np.ndarray, np.ndarray]:
    """Give GPT-2's first layer, and its controls, positions alone (first row) and with stand-ins (second row)."""
    checkpoint = checkpoints.find("gpt2")
    model = load(checkpoint, dtype=torch.float64)
    positions = model.positions[:POSITIONS]
    noise = torch.randn(DRAWS, *positions.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    norm = model.norm("attention")
    inputs = [apply_norm(x, norm).to(device) for x in (positions[None], positions + positions.std() * noise)]
    trained = model.layers[0].plain().to(device)

    def draw(seed):
        return random_attention_layer(model, 0, seed, torch.float64).to(device)

    def share(layer):
        return np.stack([_share_of_entropy(x, layer) for x in inputs])

    return share(trained), measure_controls(make_controls(trained, draw), share)


def _share_of_entropy(x, layer) -> np.ndarray:
    scores = mask_future(compute_scores(x, layer))
    shares = entropy.entropy_at(scores, torch.ones(1).to(x))[0] / entropy.count_visible_keys(scores).log()
    return shares[..., 1:].mean((0, -1)).cpu().numpy()


def measure_seeds(device: torch.device) -> Result:
    """Return the shares of the full entropy, ``(seed, layer, head)``."""
    folders = [find_run(seed, device) for seed in SEEDS]
    shares = [
        entropy_shares(checkpoints.find(str(folder)), passages=PASSAGES, device=device)[0].cpu().numpy()
        for folder in folders
    ]
    return Result({}, {"shares": np.stack(shares)}, {"shares": 0.2})


EXPERIMENTS = {
    "output-projections": Experiment(
        "Which attention modules of transformers have an output projection", compute, minutes=0.6
    ),
    "gpt2": Experiment(
        "GPT-2's first-layer heads between uniform and sharp attention",
        turn_gpt2,
        models=("gpt2",),
        minutes=0.3,
        seed=0,
    ),
    "ladder": Experiment(
        "How far from uniform attention the controls of three models are",
        measure_ladder,
        models=("gpt2", *MODELS),
        minutes=1.5,
        seed=0,
    ),
    "seeds": Experiment(
        "How far from uniform attention several seeds of gpt2-mini are",
        measure_seeds,
        models=("gpt2-mini",),
        minutes=25.0,
        seed=SEEDS[-1],
    ),
}
