from harness.streams import derive, stream


def test_a_stream_is_a_function_of_its_name():
    assert stream(0, "agent", 3).random() == stream(0, "agent", 3).random()
    assert stream(0, "agent", 3).random() != stream(0, "agent", 4).random()
    assert stream(0, "agent", 3).random() != stream(1, "agent", 3).random()


def test_names_do_not_run_into_numbers():
    assert derive(0, "a", 11) != derive(0, "a", 1, 1)
    assert derive(1, "1a") != derive(11, "a")


def test_seed_zero_is_a_seed():
    assert derive(0, "x") != derive(1, "x")
    assert 0 <= derive(0, "x") < 2**63
