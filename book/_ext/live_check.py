"""Judge a reader's answer to an exercise, by the same code in a page's Python and in tests with the package.

A check is Python in two parts, with a line ``---`` between. Above stands what the reader begins with. Below stand the
solution, the arguments to try it on (``tries``), and for each wrong function what to say to it (``hints``). An answer
that returns what a wrong function returns, on every try, gets its hint.
"""

import ast
import math

BEGINNING = "That's what the code returned before you changed it."
NOTHING = "It returns nothing: is there a return?"


def plain(value):
    """Return arrays and tuples as lists."""
    value = value.tolist() if hasattr(value, "tolist") else value
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def same(one, other):
    """Say whether two answers agree, up to rounding."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=1e-4, abs_tol=1e-4) or (math.isnan(one) and math.isnan(other))
    return one == other


def shape(value):
    """Return the lengths of nested lists."""
    return (len(value), *(shape(value[0]) if value else ())) if isinstance(value, list) else ()


def shown(value):
    """Write an answer with few digits.

    >>> shown([1 / 3, ["a", 2]])
    "[0.3333, ['a', 2]]"
    """
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    return f"{value:.4g}" if isinstance(value, float) else repr(value)


def functions(block):
    """Return the name of the function that is asked for, the one that the reader begins with, and what is hidden."""
    start, hidden = block.split("\n---\n")
    space = {}
    exec(start, space)
    name = [each.name for each in ast.parse(start).body if isinstance(each, ast.FunctionDef)][-1]
    first = space[name]
    exec(hidden, space)
    return name, first, space


def answers(function, tries):
    """Return what a function answers to each try; it gets copies, which it may change."""
    each = [args if isinstance(args, tuple) else (args,) for args in tries]
    return [plain(function(*(x.clone() if hasattr(x, "clone") else x for x in args))) for args in each]


def solution(block):
    """Return the code of the solution.

    >>> solution("def f(x):\\n    return 0\\n---\\ndef f(x):\\n    return x\\n\\ntries = [1]\\nhints = {}")
    'def f(x):\\n    return x'
    """
    hidden = block.split("\n---\n")[1]
    name = functions(block)[0]
    found = (each for each in ast.parse(hidden).body if isinstance(each, ast.FunctionDef) and each.name == name)
    return ast.get_source_segment(hidden, next(found))


def judge(own, block):
    """Say whether the function among the reader's names is right, and what to say of it.

    >>> block = "def f(x):\\n    return 0\\n---\\ndef f(x):\\n    return x\\n\\ntries = [1, 2]\\nhints = {}"
    >>> judge({"f": lambda x: [x, x]}, block)
    (False, 'It returns the shape (2,); right is the shape ().')
    """
    name, first, space = functions(block)
    if not callable(own.get(name)):
        return False, f"Where is the function {name}?"
    due, found = (answers(f, space["tries"]) for f in (space[name], own[name]))
    if same(found, due):
        return True, f"Right, {len(due)} times out of {len(due)}."
    if None in found:
        return False, NOTHING
    for wrong, hint in {first: BEGINNING, **space["hints"]}.items():
        if same(found, answers(wrong, space["tries"])):
            return False, hint
    args, one, other = next(each for each in zip(space["tries"], found, due, strict=True) if not same(*each[1:]))
    if shape(one) != shape(other):
        return False, f"It returns the shape {shape(one)}; right is the shape {shape(other)}."
    given = ", ".join(map(shown, plain(args if isinstance(args, tuple) else (args,))))
    return False, f"{name}({given}) returns {shown(one)}; right is {shown(other)}."
