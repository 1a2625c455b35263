"""The layer map in `harness/__init__` is a rule, and this is what holds it."""

import ast
from pathlib import Path

import pytest

import harness

PACKAGE = Path(harness.__file__).parent
BASE = {
    "errors",
    "records",
    "tree",
    "streams",
    "clock",
    "failpoint",
    "events",
    "limits",
    "resources",
    "untrusted",
    "version",
}
LAYERS = {
    "policy": 1,
    "model": 2,
    "box": 2,
    "repo": 2,
    "archive": 2,
    "agent": 3,
    "optimizer": 3,
    "telemetry": 3,
    "evaluation": 4,
    "research": 5,
    "report": 6,
    "cluster": 6,
    "cli": 7,
}
MODULES = sorted(PACKAGE.rglob("*.py"))


def part(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def imports(path: Path) -> set[str]:
    found = set()
    tree = ast.parse(path.read_text())
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name == "harness" or name.startswith("harness.")}


def allowed(own: str, other: str) -> bool:
    if other in BASE or other == own:
        return True
    if own in BASE:
        return False
    if own == "testing":
        return other in LAYERS and LAYERS[other] <= 5
    return other in LAYERS and LAYERS[other] < LAYERS[own]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_down_only(path):
    own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if own == "__init__" or "_data" in path.parts:
        return
    for name in imports(path):
        other = part(name)
        if other:
            assert allowed(own, other), f"{own} imports {name}"


def inside_research(path):
    return path.relative_to(PACKAGE / "research").parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", sorted((PACKAGE / "research").rglob("*.py")), ids=lambda path: path.stem)
def test_research_rules_on_evidence_and_judges_an_eval_from_above(path):
    of = {name.split(".")[2] for name in imports(path) if name.startswith("harness.research.")}
    own = inside_research(path)
    assert own != "evidence" or of <= {"evidence"}, "evidence is pure"
    assert own == "preflight" or "preflight" not in of, "a run does not depend on `strop check`"
    assert own == "redteam" or "redteam" not in of, "a run does not know the attacks"


def test_no_module_has_more_than_400_lines():
    assert {path.name: n for path in MODULES if (n := len(path.read_text().splitlines())) > 400} == {}


def test_every_package_and_module_has_a_docstring():
    assert [str(path) for path in MODULES if not ast.get_docstring(ast.parse(path.read_text()))] == []


def test_only_the_store_imports_gitpython():
    users = {path.stem for path in MODULES if "git" in {n.split(".")[0] for n in top_level(path)}}
    assert users <= {"store", "git"}


def test_nothing_but_tests_imports_testing():
    assert [path for path in MODULES if "testing" not in path.parts and "harness.testing" in path.read_text()] == []


def top_level(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module)
    return names
