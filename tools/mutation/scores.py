"""What became of the mutants: the share that the tests notice, with its interval, and those that survive."""

import hashlib
import json
from pathlib import Path

from scipy import stats

from tools.rooms import ROOT

EQUIVALENT = Path(__file__).with_name("equivalent.json")
MISSED = ("survived", "no test", "not run")


def name_of(mutant: dict) -> str:
    """Name a mutant by its whole source."""
    return hashlib.sha256(mutant["source"].encode()).hexdigest()[:16]


def interval(modules: dict, weights: list[float], noticed: str) -> list[float]:
    """Return the weighted share noticed with its 95 % interval.

    It is exact for the effective number of trials (Kish); with equal weights that is the number drawn. To draw from
    each module apart only makes it more cautious (Hoeffding 1956).
    """
    trials = [m["drawn"] - m["equivalent"] for m in modules.values()]
    total = sum(w * n for w, n in zip(weights, trials, strict=True))
    effective = total**2 / sum(w * w * n for w, n in zip(weights, trials, strict=True))
    right = effective * sum(w * m[noticed] for w, m in zip(weights, modules.values(), strict=True)) / total
    low = stats.beta.ppf(0.025, right, effective - right + 1) if right > 0 else 0
    high = stats.beta.ppf(0.975, right + 1, effective - right) if right < effective else 1
    return [round(float(v), 3) for v in (right / effective, low, high)]


def report(plan: dict, results: dict) -> dict:
    """Return what became of the mutants, at first and now: how many were noticed, and those that survived at first."""
    equivalent = json.loads(EQUIVALENT.read_text(encoding="utf-8"))
    modules, survivors = {}, []
    for path, module in plan.items():
        tried = [(m, results[name_of(m)]) for m in module["sample"] if name_of(m) in results]
        lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
        missed = [
            {
                "place": f"{path}:{m['line']}",
                "line": lines[m["line"] - 1].strip(),
                "before": m["before"],
                "after": m["after"],
                "outcome": result["outcome"],
            }
            for m, result in tried
            if result["first"] in MISSED
        ]
        for mutant in missed:
            mutant["equivalent"] = equivalent.get(f"{path}: {mutant['line']}: {mutant['before']} -> {mutant['after']}")
        modules[path] = {
            "mutants": module["mutants"],
            "drawn": len(tried),
            "equivalent": sum(mutant["equivalent"] is not None for mutant in missed),
            "noticed_at_first": len(tried) - len(missed),
            "noticed": len(tried) - sum(mutant["outcome"] in MISSED for mutant in missed),
        }
        survivors += missed
    counted = {path: m for path, m in modules.items() if m["drawn"] > m["equivalent"]}
    sizes = [m["mutants"] / (m["drawn"] - m["equivalent"]) for m in counted.values()]
    scores = {}
    for suffix, weights in (("", [1.0] * len(counted)), ("_by_size_of_module", sizes)) if counted else ():
        scores[f"score_at_first{suffix}"] = interval(counted, weights, "noticed_at_first")
        scores[f"score{suffix}"] = interval(counted, weights, "noticed")[0]  # once tests were written for it, no sample
    counts = ("drawn", "equivalent", "noticed_at_first", "noticed")
    totals = {name: sum(m[name] for m in modules.values()) for name in counts}
    planned = sum(len(module["sample"]) for module in plan.values())
    return {
        "mutants": sum(m["mutants"] for m in modules.values()),
        "planned": planned,
        **totals,
        **scores,
        "survivors": survivors,
    }


def to_json(samples: dict) -> str:
    """Write the scores as JSON: a line for each sample, and one for each change that survived at first."""

    def line(value) -> str:
        if not isinstance(value, dict):
            return json.dumps(value)
        survivors = "".join(f"\n   {json.dumps(mutant)}," for mutant in value["survivors"]).rstrip(",")
        return json.dumps(value | {"survivors": []}).removesuffix("]}") + survivors + "]}"

    return "{\n" + ",\n".join(f" {json.dumps(name)}: {line(value)}" for name, value in samples.items()) + "\n}\n"
