"""The name and the hash of a simulated human."""

from sweet_rl.domains import load_domain
from sweet_rl.humans.identity import HumanIdentity
from sweet_rl.records import Task, Trajectory

SETTINGS = {"temperature": 0.0, "max_tokens": 256, "max_chars": 400, "retry_leaks": True, "request": None}


def identity(name=None, model="org/Model-8B", folder=None, prompt="Be kind.", **changes) -> HumanIdentity:
    return load_domain("code").human_identity(name, model, folder, prompt, **SETTINGS | changes)


def test_the_hash_is_that_of_all_that_the_replies_depend_on():
    plain = identity()
    assert (plain.name, len(plain.hash)) == ("Model-8B", 16) and plain == identity()
    others = [
        identity(model="org/Model-70B"), identity(prompt="Be rude."), identity(temperature=0.7),
        identity(max_tokens=8), identity(max_chars=80), identity(retry_leaks=False), identity(request={"top_k": 3}),
    ]  # fmt: skip
    assert len({plain.hash, *(other.hash for other in others)}) == 8


def test_a_given_name_names_the_same_human():
    assert identity("the kind one") == HumanIdentity("the kind one", identity().hash)


def test_a_folder_is_known_by_its_content_not_by_its_path(tmp_path):
    for name, content in (("a", "1"), ("b", "1"), ("c", "2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(content)
    a, b, c = (identity(model=str(tmp_path / n), folder=str(tmp_path / n)) for n in "abc")
    assert (a.name, b.name) == ("a", "b") and a.hash == b.hash != c.hash


def test_a_scripted_human_is_known_by_its_name_and_the_file_of_its_domain(tmp_path):
    packaged = [load_domain(domain).human_identity(None, "mini") for domain in ("code", "mini")]
    assert packaged[0] == packaged[1] and packaged[0].name == "mini"
    text = "from sweet_rl.environments import ScriptedHuman\nfrom sweet_rl.mini.domains import MINI\n"
    text += "from sweet_rl.mini.human import MiniHuman\nfrom dataclasses import replace\n"
    text += "DOMAIN = replace(MINI, scripted_humans={'mini': ScriptedHuman(MiniHuman)})\n"
    path = tmp_path / "own.py"
    path.write_text(text)
    own = load_domain(str(path)).human_identity(None, "mini")
    path.write_text(text + "# its replies may be others now\n")
    assert len({packaged[0].hash, own.hash, load_domain(str(path)).human_identity(None, "mini").hash}) == 3


def test_a_dialogue_has_a_human_only_if_one_replied():
    human = HumanIdentity("mini", "0123456789abcdef").as_dict()
    roles = (["user", "assistant"], ["user", "assistant", "user", "assistant"], [])
    labels = [
        Trajectory(Task("t", "g"), [{"role": role, "content": ""} for role in said], human=human).human_label
        for said in roles
    ]
    assert labels == [None, "mini (01234567)", None]
    replied = [{"role": role, "content": ""} for role in roles[1]]
    assert Trajectory(Task("t", "g"), replied).human_label == "not recorded"
