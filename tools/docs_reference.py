"""Reference pages of the documentation, from signatures and docstrings.

The code is read, not imported, so that a page is built without Airflow and Spark; only the command's verbs, which are
data, are imported. Whatever has an argument without a word about it is an error: a reference is whole or not built.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from airflow_provider_replacewhere.cli.arguments import VERBS, Verb

PACKAGE = "airflow_provider_replacewhere"
# An argument that is passed on as Airflow's own operators have it.
OF_AIRFLOW = frozenset({"name", "kwargs"})

Function = ast.FunctionDef | ast.AsyncFunctionDef


class UndocumentedError(Exception):
    """Something public has no docstring, or an argument that its docstring does not tell of."""


@dataclass(frozen=True)
class Docstring:
    """A docstring taken apart; all texts are Markdown."""

    text: str = ""
    params: Mapping[str, str] = field(default_factory=dict)
    raises: tuple[tuple[str, str], ...] = ()
    returns: str = ""
    refers: tuple[str, ...] = ()

    @classmethod
    def parse(cls, raw: str) -> Docstring:
        """Take a docstring with ``:param name:`` fields apart. What stands behind the fields belongs to the text."""
        prose: list[str] = []
        fields: list[tuple[str, str, list[str]]] = []
        inside = False
        for line in inspect.cleandoc(raw).splitlines():
            if found := re.match(r":(param|raises|return)\s*([^:]*):\s*(.*)", line):
                fields.append((found[1], found[2].strip(), [found[3]]))
                inside = True
            elif inside and line.startswith(" "):
                fields[-1][2].append(line.strip())
            else:
                inside = False
                prose.append(line)
        texts = [(kind, name, markdown(" ".join(lines))) for kind, name, lines in fields]
        return cls(
            text=markdown("\n".join(prose).strip()),
            params={name: text for kind, name, text in texts if kind == "param"},
            raises=tuple((name, text) for kind, name, text in texts if kind == "raises"),
            returns=next((text for kind, _, text in texts if kind == "return"), ""),
            refers=tuple(re.findall(r":(?:meth|func):`~?\.*([\w.]+)`", raw)),
        )


@dataclass(frozen=True)
class Argument:
    """One argument of a function, or one field of a value."""

    name: str
    type: str
    default: str | None
    text: str


def markdown(text: str) -> str:
    """Docstring text as Markdown: roles become names, doubled backticks single ones."""
    text = re.sub(r":(?:class|meth|func|mod|data|attr):`~?[\w.]*?\.?([A-Za-z_][\w]*(?:\.\w+)?)`", _short, text)
    return re.sub(r"``([^`]+)``", r"`\1`", text)


def _short(role: re.Match[str]) -> str:
    name = role[1]
    return f"`{name}`" if name[:1].isupper() else f"`{name.rpartition('.')[2]}`"


def reference(what: str) -> str:
    """The reference of something, as Markdown.

    :param what: ``module:Name`` below the package, or ``module:Name methods`` for a class with all its public methods
    :raises UndocumentedError: a part of it is not documented
    """
    place, _, extra = what.partition(" ")
    shown, _, name = place.partition(":")
    module = _defining(shown, name)
    node = _find(module, name)
    if not isinstance(node, ast.ClassDef):
        return _function(module, node, shown=shown, of=None)
    parts = [_class(module, node, shown)]
    if extra == "methods":
        parts += [_function(module, method, shown=None, of=node) for method in _methods(node)]
    return "\n\n".join(parts)


def _class(module: str, node: ast.ClassDef, shown: str) -> str:
    docstring = _docstring(node, f"{module}:{node.name}")
    init = next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
    arguments = _arguments(module, init, docstring, node) if init else _fields(module, node, docstring)
    return _entry(node.name, shown, docstring, arguments)


def _function(module: str, node: Function, *, shown: str | None, of: ast.ClassDef | None) -> str:
    docstring = _docstring(node, f"{module}:{node.name}")
    # The hook's methods pass everything on to the ledger, which says more of it.
    behind = next((name for name in docstring.refers if "HistoryStore." in name), None)
    if behind is not None:
        docstring = _referred(module, behind, of)
    return _entry(node.name, shown, docstring, _arguments(module, node, docstring, of))


def _entry(name: str, shown: str | None, docstring: Docstring, arguments: list[Argument]) -> str:
    """One entry; of a method, which is not imported, ``shown`` is None."""
    if shown is None:
        parts = [f"#### `{name}`"]
    else:
        parts = [f"### `{name}`", f"```python\nfrom {_public(shown, name)} import {name}\n```"]
    parts.append(docstring.text)
    if arguments:
        parts.append(_table(arguments))
    if docstring.returns:
        parts.append(f"Returns {docstring.returns}.")
    parts += [f"Raises `{name}`: {text}." if text else f"Raises `{name}`." for name, text in docstring.raises]
    return "\n\n".join(part for part in parts if part)


def _public(module: str, name: str) -> str:
    """The module that users import a name from: the package, where it hands the name on."""
    package = f"{PACKAGE}.{module.split('.')[0]}"
    tree = _tree(f"{module.split('.')[0]}") if "." in module else None
    handed_on = {text.value for text in ast.walk(tree) if isinstance(text, ast.Constant)} if tree else set()
    return package if name in handed_on else f"{PACKAGE}.{module}"


def _table(arguments: list[Argument]) -> str:
    rows = ["| argument | type | default | meaning |", "| --- | --- | --- | --- |"]
    for argument in arguments:
        default = "required" if argument.default is None else _code(argument.default)
        rows.append(f"| `{argument.name}` | {_code(argument.type)} | {default} | {_cell(argument.text)} |")
    return "\n".join(rows)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _code(text: str) -> str:
    return f"`{_cell(text)}`" if text else ""


def verbs() -> str:
    """The verbs of the console command and their arguments, as Markdown."""
    return "\n\n".join(_verb(verb) for verb in VERBS)


def _verb(verb: Verb) -> str:
    rows = ["| argument | default | meaning |", "| --- | --- | --- |"]
    for argument in verb.arguments:
        options = argument.options
        values = options.get("metavar") or "|".join(map(str, options.get("choices", ())))
        flag = argument.flags[0]
        shown = f"{flag} {values}".strip() if flag.startswith("-") else str(options.get("metavar", flag))
        default = options.get("default")
        given = f"`{default}`" if default not in (None, [], False) else ""
        required = "" if flag.startswith("-") or options.get("nargs") == "*" else "required"
        rows.append(f"| `{_cell(shown)}` | {given or required} | {_cell(options['help'].replace('%%', '%'))} |")
    text = verb.description or f"{verb.help[0].upper()}{verb.help[1:]}."
    return "\n\n".join((f"### `replacewhere {verb.name}`", text, "\n".join(rows)))


# -- reading the code --------------------------------------------------------------------------------------------------


@cache
def _tree(module: str) -> ast.Module:
    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    path = Path(next(iter(spec.submodule_search_locations))).joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def _defined(module: str, name: str) -> list[ast.ClassDef | Function]:
    return [n for n in _tree(module).body if isinstance(n, ast.ClassDef | ast.FunctionDef) and n.name == name]


def _defining(module: str, name: str) -> str:
    """The module that defines a name, which ``module`` may only hand on."""
    return module if _defined(module, name) else _home(module, name) or module


def _find(module: str, name: str) -> ast.ClassDef | Function:
    found = _defined(module, name)
    if not found:
        raise UndocumentedError(f"{module} has no {name}.")
    # Of overloads, the last one is the function itself.
    return found[-1]


def _docstring(node: ast.ClassDef | Function, what: str) -> Docstring:
    raw = ast.get_docstring(node, clean=False)
    if not raw:
        raise UndocumentedError(f"{what} has no docstring.")
    return Docstring.parse(raw)


def _methods(node: ast.ClassDef) -> Iterator[Function]:
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and not method.name.startswith("_"):
            decorators = {d.id for d in method.decorator_list if isinstance(d, ast.Name)}
            if not decorators & {"classmethod", "cached_property", "property"}:
                yield method


def _arguments(module: str, node: Function, docstring: Docstring, owner: ast.ClassDef | None) -> list[Argument]:
    spec = node.args
    positional = [*spec.posonlyargs, *spec.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(spec.defaults)) + list(spec.defaults)
    pairs = [*zip(positional, defaults, strict=True), *zip(spec.kwonlyargs, spec.kw_defaults, strict=True)]
    found = [
        (argument.arg, _unparsed(argument.annotation), _default(module, default, owner))
        for argument, default in pairs
        if argument.arg not in ("self", "cls")
    ]
    if spec.kwarg is not None and spec.kwarg.arg in docstring.params:
        found.append((f"**{spec.kwarg.arg}", _unparsed(spec.kwarg.annotation), ""))
    return _with_texts(module, node.name, found, docstring, owner)


def _fields(module: str, node: ast.ClassDef, docstring: Docstring) -> list[Argument]:
    """The fields of a dataclass that its docstring tells of."""
    found = [
        (each.target.id, _unparsed(each.annotation), _default(module, each.value, node))
        for each in node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and each.target.id in docstring.params
    ]
    return _with_texts(module, node.name, found, docstring, node)


def _with_texts(
    module: str,
    name: str,
    found: list[tuple[str, str, str | None]],
    docstring: Docstring,
    owner: ast.ClassDef | None,
) -> list[Argument]:
    """Arguments with what is said of them, here or in a function that the docstring refers to."""
    texts = dict(docstring.params)
    for other in docstring.refers:
        for key, text in _referred(module, other, owner).params.items():
            texts.setdefault(key, text)
    missing = [arg for arg, _, _ in found if arg.strip("*") not in texts and arg not in OF_AIRFLOW]
    if missing:
        raise UndocumentedError(f"{module}:{name} does not tell of {', '.join(missing)}.")
    return [
        Argument(arg, type_, default, texts.get(arg.strip("*"), ""))
        for arg, type_, default in found
        if arg not in OF_AIRFLOW or arg in texts
    ]


def _referred(module: str, name: str, owner: ast.ClassDef | None) -> Docstring:
    """The docstring of a method ``Class.method``, or of a function of the same class or module."""
    if "HistoryStore." in name:
        candidates = _bases("history.store", "HistoryStore", name.rpartition(".")[2])
    elif owner is not None:
        candidates = [n for n in owner.body if isinstance(n, ast.FunctionDef) and n.name == name.rpartition(".")[2]]
    else:
        candidates = [n for n in _tree(module).body if isinstance(n, ast.FunctionDef) and n.name == name]
    raw = next((raw for n in candidates if (raw := ast.get_docstring(n, clean=False))), "")
    return Docstring.parse(raw)


def _bases(module: str, class_name: str, method: str) -> list[ast.FunctionDef]:
    """A method of a class, else of the classes that it extends."""
    tree = _tree(module)
    classes = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == class_name]
    for node in classes:
        own = [n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == method]
        if own:
            return own
        homes = [(_home(module, base.id), base.id) for base in node.bases if isinstance(base, ast.Name)]
        inherited = [found for home, name in homes if home for found in _bases(home, name, method)]
        if inherited:
            return inherited
    return []


def _home(module: str, name: str) -> str | None:
    """The module below the package that a name of ``module`` was imported from; None where it is not ours."""
    for node in _tree(module).body:
        if isinstance(node, ast.ImportFrom) and node.module and any(alias.name == name for alias in node.names):
            return node.module.removeprefix(f"{PACKAGE}.") if node.module.startswith(PACKAGE) else None
    return None


def _default(module: str, node: ast.expr | None, owner: ast.ClassDef | None) -> str | None:
    """A default as its value, where it is a constant of ours; the text says what one with an underscore means."""
    if isinstance(node, ast.Name):
        home = _home(module, node.id)
        value = _constant(_tree(home or module).body, node.id) or _constant(owner.body if owner else [], node.id)
        return "…" if node.id.startswith("_") or value is None else ast.unparse(value)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and (home := _home(module, node.value.id)):
        value = _constant(_find(home, node.value.id).body, node.attr)
        return ast.unparse(value if value is not None else node)
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "field":
        return next((f"{ast.unparse(each.value)}()" for each in node.keywords if each.arg == "default_factory"), "…")
    return None if node is None else ast.unparse(node)


def _constant(body: list[ast.stmt], name: str) -> ast.expr | None:
    for node in body:
        if isinstance(node, ast.Assign) and name in map(ast.unparse, node.targets):
            return node.value
        if isinstance(node, ast.AnnAssign) and name == ast.unparse(node.target):
            return node.value
    return None


def _unparsed(node: ast.expr | None) -> str:
    return "" if node is None else ast.unparse(node).replace("'", "")
