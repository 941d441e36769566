import ast
from pathlib import Path

import sweet_rl

ROOT = Path(sweet_rl.__file__).parent


def test_every_folder_with_modules_is_a_package_so_that_an_install_has_it():
    folders = {path.parent for path in ROOT.rglob("*.py")}
    assert [str(f.relative_to(ROOT)) for f in sorted(folders) if not (f / "__init__.py").exists()] == []


def test_every_other_file_is_one_that_an_install_takes_along():
    setup = ast.parse((ROOT.parent / "setup.py").read_text(encoding="utf-8"))
    data = next(n.value for n in ast.walk(setup) if isinstance(n, ast.keyword) and n.arg == "package_data")
    taken = {
        path
        for package, patterns in ast.literal_eval(data).items()
        for pattern in patterns
        for path in ROOT.parent.joinpath(*package.split(".")).glob(pattern)
    }
    files = (p for p in ROOT.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    others = {p for p in files if p.suffix != ".py"}
    assert others and others - taken == set()
