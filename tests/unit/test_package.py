import ast
from pathlib import Path

import sweet_rl

ROOT = Path(sweet_rl.__file__).parent


def test_the_package_openai_is_the_only_way_over_http_to_a_language_model():
    clients = {"openai", "aiohttp", "httpx", "httpx2", "requests", "urllib.request", "http.client", "urllib3"}
    users = {}
    for path in ROOT.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
        if found := names & clients:
            users[path.relative_to(ROOT).as_posix()] = found
    assert users.pop("dialogues/released.py") == {"urllib.request"}  # the prompts of a protocol
    others = {name: found - {"openai"} for name, found in users.items() if not name.startswith("rendering/")}
    assert {name: found for name, found in others.items() if found} == {}
