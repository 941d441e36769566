from sweet_rl.runs.records import content_id, hash_rows, seed_for


def test_an_id_is_the_content_s_whatever_the_order_of_keys():
    assert content_id({"a": 1, "b": "é"}) == content_id({"b": "é", "a": 1}) != content_id({"a": 1, "b": "e"})
    assert len(content_id("x")) == 16
    assert content_id("x") == "ba2df4903a2c14e8"  # the first digits of SHA-256 of '"x"'


def test_seeds_are_stable_and_differ_by_seed_and_key():
    assert seed_for(0, "a") == seed_for(0, "a")
    assert len({seed_for(0, "a"), seed_for(1, "a"), seed_for(0, "b"), seed_for(0, "a", 1)}) == 4
    assert all(0 <= seed_for(0, i) < 2**63 for i in range(100))


def test_the_hash_of_rows_knows_their_order():
    assert hash_rows([1, 2]) != hash_rows([2, 1]) and hash_rows(iter([1, 2])) == hash_rows([1, 2])


def test_the_seed_of_a_key_is_the_same_on_every_machine():
    assert seed_for(0, "a", 1) == 7376671040889259502  # from the SHA-256 of [0,"a",1]
