"""Inputs of models drawn at random: texts, embeddings, positions, masks of any form, caches, types, dtypes.

What belongs here: drawing what a user might hand to a model, and what became of it. What does not: the inputs that a
test names one by one (``test_inputs.py``). By hand: ``python -m tests.analysis.models.inputs 200 7``.
"""

import random
import sys
from collections import Counter

import torch
from transformers import DynamicCache

from analysis import load, score_parts
from analysis.models.families.table import FAMILIES
from analysis.models.families.tiny import tiny_inputs, tiny_model
from analysis.models.reading import Model

KINDS = list(dict.fromkeys(kind for row in FAMILIES for kind in row.model_types if not row.stack))
MASKS = (
    "none",
    "none",
    "right",
    "left",
    "hole",
    "two axes of numbers",
    "three axes",
    "four axes",
    "bool",
    "all hidden",
)
POSITIONS = ("none", "none", "packed", "gap", "of the mask", "offset", "one row", "falling")
BESIDE = (
    "none",
    "none",
    "none",
    "cache",
    "token_type_ids",
    "head_mask",
    "use_cache",
    "logits_to_keep",
    "labels",
    "lists",
)
DTYPES = (torch.float64, torch.float32, torch.float32, torch.bfloat16)


def draw_case(seed: int) -> dict:
    """Draw a model type, how many texts of how many tokens, and what is beside them."""
    drawn = random.Random(seed)
    return {
        "kind": drawn.choice(KINDS),
        "texts": drawn.choice((1, 2, 3)),
        "tokens": drawn.choice((1, 2, 7, 12, 20)),
        "mask": drawn.choice(MASKS),
        "positions": drawn.choice(POSITIONS),
        "beside": drawn.choice(BESIDE),
        "embeds": drawn.random() < 0.15,
        "dtype": drawn.choice(DTYPES),
        "seed": seed,
    }


def draw_mask(case: dict) -> torch.Tensor | None:
    mask = torch.ones(case["texts"], n := case["tokens"], dtype=torch.long)
    cut = max(1, n // 3)
    match case["mask"]:
        case "none":
            return None
        case "right":
            mask[0, n - cut :] = 0
        case "left":
            mask[0, :cut] = 0
        case "hole":
            mask[-1, n // 2] = 0
        case "two axes of numbers":
            return mask * 2
        case "three axes":
            return mask[:, None].expand(-1, n, -1).tril()
        case "four axes":
            return torch.zeros(case["texts"], 1, n, n).masked_fill(torch.ones(n, n).triu(1).bool(), -1e9)
        case "bool":
            return mask.bool()
        case "all hidden":
            mask[0] = 0
    return mask


def draw_positions(case: dict, mask: torch.Tensor | None) -> torch.Tensor | None:
    n = case["tokens"]
    rows = torch.arange(n).expand(case["texts"], n)
    counted = rows if mask is None or mask.ndim > 2 else (mask.long().cumsum(-1) - 1).clamp(min=0)
    drawn = {
        "packed": rows % max(1, n // 2),
        "gap": rows + 9 * (rows >= n // 2),
        "of the mask": counted,
        "offset": rows + 5,
        "one row": rows[:1],
        "falling": rows.flip(-1),
    }
    return drawn.get(case["positions"])


def draw_inputs(model: torch.nn.Module, case: dict) -> dict:
    """Return the arguments of a case."""
    generator = torch.Generator().manual_seed(case["seed"])
    given = dict(tiny_inputs(model, case["texts"], case["seed"]))
    if "input_ids" not in given:
        return {name: value.to(case["dtype"]) for name, value in given.items()}
    ids = torch.randint(2, 40, (case["texts"], case["tokens"]), generator=generator)
    mask = draw_mask(case)
    if mask is not None and mask.ndim == 2:
        ids = ids.masked_fill(mask == 0, getattr(model.config, "pad_token_id", None) or 1)
    given |= {"input_ids": ids}
    if case["embeds"]:
        given["inputs_embeds"] = model.get_input_embeddings()(given.pop("input_ids"))
    given |= {name: value.to(case["dtype"]) for name, value in given.items() if value.is_floating_point()}
    given |= {"attention_mask": mask} if mask is not None else {}
    positions = draw_positions(case, mask)
    given |= {"position_ids": positions} if positions is not None else {}
    match case["beside"]:
        case "cache":
            cache = model(ids[:, :2], use_cache=True)
            given["past_key_values"] = getattr(cache, "past_key_values", None) or DynamicCache()
        case "token_type_ids":
            given["token_type_ids"] = torch.randint(0, 2, ids.shape, generator=generator)
        case "head_mask":
            given["head_mask"] = torch.ones(2, 4)
        case "use_cache":
            given["use_cache"] = False
        case "logits_to_keep":
            given["logits_to_keep"] = 1
        case "labels":
            given["labels"] = ids
        case "lists":
            given = {name: value.tolist() for name, value in given.items()}
    return given


def own_maps(model: torch.nn.Module, read: Model, given: dict) -> list[tuple[int, torch.Tensor]]:
    """Return the attention that a model returns, with the number of the layer that has it."""
    maps = model(**given, output_attentions=True).attentions
    places = range(read.depth) if len(maps) == read.depth else read.layers.numbers  # a MiniMax returns all layers'
    return [(number, own) for number, own in zip(places, maps, strict=True) if number in read.layers.numbers]


def worst_gap(model: torch.nn.Module, given: dict) -> float:
    """Return the largest difference between the softmax of the parts and what the module itself returns."""
    as_tensors = {name: torch.as_tensor(value) if isinstance(value, list) else value for name, value in given.items()}
    if isinstance(given.get("inputs_embeds"), list):
        as_tensors["inputs_embeds"] = as_tensors["inputs_embeds"].to(next(model.parameters()).dtype)
    read, largest = load(model), 0.0
    real = as_tensors.get("attention_mask", torch.ones(1))
    torch.manual_seed(0)  # a ViT-MAE draws an order of its patches in every run
    for number, given_back in own_maps(model, read, as_tensors):
        own, cap = given_back.double(), read.layers[number].soft_cap
        torch.manual_seed(0)
        total = score_parts(model, given, number).total().double()
        total = total if cap is None else cap * torch.tanh(total / cap)
        ours = total.masked_fill(own == 0, -torch.inf).softmax(-1)
        gap = (ours - own / own.sum(-1, keepdim=True)).abs().transpose(1, 2)  # without a sink's share
        gap = gap[real.bool()] if real.shape == gap.shape[:2] else gap
        largest = max(largest, gap.nan_to_num().max().item()) if gap.numel() else largest
    return largest


@torch.no_grad()
def outcome(case: dict) -> str:
    """Try a case: ``"exact"``, ``"refused: ..."``, ``"the library fails"``, or what is wrong."""
    model = tiny_model(case["kind"]).to(case["dtype"])
    try:
        given = draw_inputs(model, case)
    except Exception as error:
        return f"the library fails: {type(error).__name__}"
    allowed = 0.05 if case["dtype"] == torch.bfloat16 else 1e-4
    try:
        gap = worst_gap(model, given)
    except (ValueError, TypeError) as refusal:
        try:
            score_parts(model, given, load(model).layers.numbers[0])
        except (ValueError, TypeError) as own:
            return f"refused: {' '.join(str(own).split())[:90]}"
        return f"the library fails: {refusal}"[:90]
    except Exception as error:
        try:
            model(**given)
        except Exception:
            return f"the library fails: {type(error).__name__}"
        return f"WRONG, raises {type(error).__name__}: {str(error)[:100]}"
    return "exact" if gap <= allowed else f"WRONG, differs by {gap:.1e}"


def try_many(draw_case, outcome) -> None:
    """Try as many cases as the command line says, from a first seed on, and count what became of them."""
    count, first = map(int, sys.argv[1:3])
    found = Counter()
    for seed in range(first, first + count):
        case = draw_case(seed)
        said = outcome(case)
        found[said.split(":")[0].split(",")[0]] += 1
        print(seed, said, "|", {name: value for name, value in case.items() if value not in ("none", "")}, flush=True)
    print(dict(found))


if __name__ == "__main__":
    try_many(draw_case, outcome)
