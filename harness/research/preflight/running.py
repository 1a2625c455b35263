"""Scorers that run what a candidate wrote: what comes from /out is followed by name through each Python file.

By name alone, without order or branches. A scorer that hides what it does (names put together, a helper of another
language) may pass; the scorer box still holds no candidate code but what it takes from /out itself.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from harness.tree import Tree

Origin = Literal["outputs", "pinned", "unknown"]
_OUT, _PINNED = re.compile(r"(^|[^\w/])/out(/|$|[^\w])"), re.compile(r"(^|[^\w])/(labels|eval)(/|$|[^\w])")
_LOADS = ("pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "marshal")
_PICKLES = {f"{module}.{name}" for module in _LOADS for name in ("load", "loads", "Unpickler")}
_READERS = {"pandas.read_pickle", "shelve.open", "torch.load", "numpy.load", "yaml.unsafe_load", "yaml.full_load"}
_LOADERS = _PICKLES | _READERS | {"yaml.load", "jsonpickle.decode"}
_EVALUATES = {"pandas.eval", "numexpr.evaluate", "eval", "exec", "compile"} | {
    "sympy.sympify",
    "sympy.parse_expr",
    "sympy.parsing.sympy_parser.parse_expr",
}
_ASKED = {
    "__import__",
    "importlib.import_module",
    "runpy.run_path",
    "runpy.run_module",
    "ctypes.CDLL",
    "site.addsitedir",
}
_FINDERS = {"importlib.util.spec_from_file_location", "importlib.machinery.SourceFileLoader"}
_IMPORTS = _ASKED | _FINDERS
_PATH = {f"sys.path.{name}" for name in ("insert", "append", "extend")}
_STARTS = re.compile(r"(subprocess\.\w+|os\.(system|popen|exec\w+|spawn\w+|posix_spawnp?)|pty\.spawn)$")
_SHELLS = {"os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"}
_INTERPRETER = re.compile(r"(.*/)?(sh|bash|dash|zsh|env|python[\d.]*|pytest|node|perl|ruby|Rscript|lua|php|source)$")
_SHELL_RUNS = re.compile(
    rb"(^|[;&|(]|\bthen\b|\bdo\b)\s*((sh|bash|dash|source|\.|python[\d.]*|node|perl|exec|env)\s+(-\S+\s+)*)?[\"']?/out/"
    rb"|PYTHONPATH=[^\s]*/out|(?<![\w/.-])eval\s"
)


def running(scorer: Tree, command: Sequence[str] = ()) -> list[str]:
    """Places where a scorer runs outputs, `path:line what`; `command` is how it is started."""
    words = [word for word in command if not word.startswith("-")]
    started = next((word for word in words if not _INTERPRETER.match(word)), "")
    found = [f"eval.score runs {started}"] if _OUT.search(started) else []
    for path, file in scorer.items():
        if path.endswith(".sh"):
            rows = [row.split(b"#", 1)[0] for row in file.data.split(b"\n")]
            found += [f"{path}:{n} runs outputs" for n, row in enumerate(rows, 1) if _SHELL_RUNS.search(row)]
        elif path.endswith(".py"):
            try:
                tree = ast.parse(file.data)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                continue
            found += [f"{path}:{line} {what}" for line, what in sorted(set(_Reader.of(tree).faults(tree)))]
    return found


@dataclass
class _Reader:
    """One file: what each name stands for, and which names come from where."""

    names: dict[str, str] = field(default_factory=dict[str, str])
    outputs: set[str] = field(default_factory=set[str])
    pinned: set[str] = field(default_factory=set[str])

    @classmethod
    def of(cls, tree: ast.Module) -> _Reader:
        reader = cls()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for one in node.names:
                    full = one.name if one.asname else one.name.partition(".")[0]
                    reader.names[one.asname or full] = full
            elif isinstance(node, ast.ImportFrom) and node.module:
                reader.names |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
        flows = list(_flows(tree))
        before = -1
        while before != (now := len(reader.outputs) + len(reader.pinned) + len(reader.names)):
            before = now
            for target, value in flows:
                reader._flow(target, value)
        return reader

    def _flow(self, target: str, value: ast.expr) -> None:
        if isinstance(value, ast.Name | ast.Attribute) and target not in self.names:
            full = self.called(value)
            if full in _EVALUATES | _LOADERS | _IMPORTS or _STARTS.match(full):
                self.names[target] = full
        if self._holds(value, self.outputs, _OUT):
            self.outputs.add(target)
        if self._holds(value, self.pinned, _PINNED):
            self.pinned.add(target)

    def _holds(self, value: ast.AST, known: set[str], pattern: re.Pattern[str]) -> bool:
        for node in ast.walk(value):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and pattern.search(node.value):
                return True
            if isinstance(node, ast.Name) and node.id in known:
                return True
            if isinstance(node, ast.Attribute) and (
                f".{node.attr}" in known or (known is self.outputs and node.attr == "out")
            ):
                return True
        return False

    def origin(self, values: Sequence[ast.AST]) -> Origin:
        """Where values come from; what is only written down there is pinned."""
        if any(self._holds(value, self.outputs, _OUT) for value in values):
            return "outputs"
        plain = not any(isinstance(node, ast.Name) for value in values for node in ast.walk(value))
        return "pinned" if plain or any(self._holds(value, self.pinned, _PINNED) for value in values) else "unknown"

    def called(self, node: ast.expr) -> str:
        """The full dotted name, as far as it can be read."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            return f"{self.called(node.value)}.{node.attr}".replace("builtins.", "")
        return ""

    def faults(self, tree: ast.Module) -> Iterator[tuple[int, str]]:
        """Every place that runs outputs, with its line."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                what = self._fault(node)
                if what:
                    yield node.lineno, what
            elif isinstance(node, ast.Assign | ast.AugAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = [self.called(one.value if isinstance(one, ast.Subscript) else one) for one in targets]
                environment = any("PYTHONPATH" in ast.dump(one) for one in targets)
                if ("sys.path" in names or environment) and self.origin([node.value]) == "outputs":
                    yield node.lineno, "imports from /out"

    def _fault(self, node: ast.Call) -> str | None:
        name, values = self.called(node.func), [*node.args, *(one.value for one in node.keywords)]
        origin = self.origin(values)
        if name in _EVALUATES and origin != "pinned":
            return "evaluates text" if name != "compile" or origin == "outputs" else None
        if name in _LOADERS and origin != "pinned" and not _safe(name, node):
            return "unpickles" if not name.startswith("yaml") else "makes objects from YAML (use yaml.safe_load)"
        if origin != "outputs":
            return None
        if name in _IMPORTS or name in _PATH:
            return "imports from /out"
        if isinstance(node.func, ast.Call | ast.Subscript) and _by_name(node.func):
            return "calls what it looks up by name"
        return "runs outputs" if _STARTS.match(name) and self._starts(name, node) else None

    def _starts(self, name: str, node: ast.Call) -> bool:
        """Whether a candidate's file is what is started, and not only named to a program."""
        keys = {one.arg: one.value for one in node.keywords}
        shell = keys.get("shell")
        command = node.args[0] if node.args else keys.get("args")
        if command is None:
            return False
        if name in _SHELLS or (isinstance(shell, ast.Constant) and shell.value is True):
            return self.origin([command]) == "outputs"
        words = command.elts if isinstance(command, ast.List | ast.Tuple) else [command, *node.args[1:]]
        for word in words:
            if self.origin([word]) == "outputs":
                return True
            text = word.value if isinstance(word, ast.Constant) and isinstance(word.value, str) else ""
            passed = text.startswith("-") or text in ("pytest", "unittest") or _INTERPRETER.match(text)
            if not passed and self.called(word) != "sys.executable":
                break
        where = keys.get("cwd")
        return where is not None and self.origin([where]) == "outputs"


def _safe(name: str, node: ast.Call) -> bool:
    """Whether a loader is told to make no objects."""
    keys = {one.arg: one.value for one in node.keywords}
    if name == "numpy.load":
        allowed = keys.get("allow_pickle")
        return allowed is None or (isinstance(allowed, ast.Constant) and not allowed.value)
    if name == "torch.load":
        only = keys.get("weights_only")
        return isinstance(only, ast.Constant) and only.value is True
    return name == "yaml.load" and any("Safe" in ast.dump(one) for one in [*node.args[1:], *keys.values()])


def _by_name(looked_up: ast.expr) -> bool:
    """getattr(builtins, ...)(x), vars(builtins)[...](x), globals()[...](x), getattr(os, ...)(x) and their like."""
    told = {node.id for node in ast.walk(looked_up) if isinstance(node, ast.Name)}
    return bool(told & {"__builtins__", "builtins", "globals", "vars", "__import__"}) or (
        isinstance(looked_up, ast.Call)
        and isinstance(looked_up.func, ast.Name)
        and looked_up.func.id == "getattr"
        and bool(told & {"os", "subprocess", "pickle", "sys", "importlib"})
    )


def _flows(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """(name, value) for all that gives a name a value: assignments, loops, contexts, parameters, returns."""
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    for function in functions.values():
        for node in ast.walk(function):
            if isinstance(node, ast.Return | ast.Yield | ast.YieldFrom) and node.value is not None:
                yield function.name, node.value
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            yield from ((name, node.value) for target in node.targets for name in _told(target))
        elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr) and node.value is not None:
            yield from ((name, node.value) for name in _told(node.target))
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            yield from ((name, node.iter) for name in _told(node.target))
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            yield from ((name, node.context_expr) for name in _told(node.optional_vars))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions:
            told = functions[node.func.id].args
            places = [*told.posonlyargs, *told.args]
            yield from ((place.arg, value) for place, value in zip(places, node.args, strict=False))
            yield from ((one.arg, one.value) for one in node.keywords if one.arg)


def _told(target: ast.expr) -> Iterator[str]:
    """Names and attributes that an assignment changes; what is kept under a key counts for the whole."""
    if isinstance(target, ast.Tuple | ast.List):
        for one in target.elts:
            yield from _told(one)
    elif isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, ast.Attribute):
        yield f".{target.attr}"
    elif isinstance(target, ast.Subscript | ast.Starred):
        yield from _told(target.value)
