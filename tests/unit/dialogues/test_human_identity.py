"""The name and the hash of a simulated human."""

from dataclasses import replace

from sweet_rl.dialogues import HumanSettings
from sweet_rl.dialogues.task_types import load_domain
from sweet_rl.rendering.settings import BrowserSettings

CODE, HTML = load_domain("code"), load_domain("html")


def identity(name=None, model="org/Model-8B", prompt="Be kind.", request=None, folder=None, **human) -> dict[str, str]:
    return CODE.human_identity(name, model, prompt, CODE.reply_settings(HumanSettings(**human)), request, folder=folder)


def test_the_hashes_are_those_of_the_trajectories_that_exist(tmp_path):
    (tmp_path / "domain.py").write_text("a domain\n")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    own, folder = replace(CODE, source=tmp_path / "domain.py"), str(tmp_path / "model")
    settings = HumanSettings(temperature=0.7, max_tokens=8, max_chars=400, retry_leaks=False)
    frontend = HTML.reply_settings(HumanSettings(max_tokens=256))
    found = [
        CODE.human_identity(None, "mini"),
        own.human_identity("x", "mini"),
        identity(),
        identity(request={"top_k": 3}),
        own.human_identity("the kind one", "org/Model-8B", "Be kind.", settings),
        identity(model=folder, folder=folder),
        HTML.human_identity(None, "org/Model-8B", "Be kind.", frontend, window=BrowserSettings().window()),
    ]
    assert [(one["name"], one["hash"]) for one in found] == [
        ("mini", "3279c8a8f8d94588"),
        ("x", "e94a59b963991187"),
        ("Model-8B", "a6b082f430c10562"),
        ("Model-8B", "af5f0943bef76120"),
        ("the kind one", "77f9150372a72c9f"),
        ("model", "e42c829fa9268155"),
        ("Model-8B", "09eb2c62df5bed92"),
    ]


def test_a_folder_is_known_by_its_content_not_by_its_path(tmp_path):
    for name, content in (("a", "1"), ("b", "1"), ("c", "2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(content)
    a, b, c = (identity(model=str(tmp_path / n), folder=str(tmp_path / n)) for n in "abc")
    assert (a["name"], b["name"]) == ("a", "b") and a["hash"] == b["hash"] != c["hash"]


def test_a_scripted_human_is_known_by_its_name_and_the_file_of_its_domain(tmp_path):
    packaged = [load_domain(domain).human_identity(None, "mini") for domain in ("code", "mini")]
    assert packaged[0] == packaged[1] and packaged[0]["name"] == "mini"
    text = "from sweet_rl.dialogues.mini.human import MINI\n"
    text += "from sweet_rl.dialogues.mini.human import MiniHuman\nfrom dataclasses import replace\n"
    text += "DOMAIN = replace(MINI, scripted_humans={'mini': MiniHuman})\n"
    path = tmp_path / "own.py"
    path.write_text(text)
    own = load_domain(str(path)).human_identity(None, "mini")
    path.write_text(text + "# its replies may be others now\n")
    changed = load_domain(str(path)).human_identity(None, "mini")
    assert len({packaged[0]["hash"], own["hash"], changed["hash"]}) == 3
