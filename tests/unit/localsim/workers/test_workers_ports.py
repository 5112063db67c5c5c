from localsim.workers import ports


def test_chosen_ports_are_free_and_distinct():
    chosen = ports.choose(50, taken=())
    assert len(set(chosen)) == 50
    assert ports.are_free(chosen)


def test_a_port_that_is_listened_on_is_not_free():
    with ports.listen() as listening:
        port = listening.getsockname()[1]
        assert not ports.are_free([port])


def test_taken_ports_are_not_chosen():
    low, high = 1024, 65536
    allowed = set(ports.choose(3, taken=()))
    assert set(ports.choose(1, taken=set(range(low, high)) - allowed)) <= allowed
