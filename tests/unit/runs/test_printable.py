from sweet_rl.runs.errors import UserError
from sweet_rl.runs.printable import printable


def test_characters_that_steer_a_terminal_are_shown_and_lines_and_letters_stay():
    assert printable("a\x1b[2Jb\r\x00\x9b\u202e\udce9") == r"a\x1b[2Jb\r\x00\x9b\u202e\udce9"
    assert printable("é 中 ±\tx\ny 👩\u200d🔬") == "é 中 ±\tx\ny 👩\u200d🔬"
    assert str(UserError("the id 'a\x1b[31m' is repeated")) == r"the id 'a\x1b[31m' is repeated"
