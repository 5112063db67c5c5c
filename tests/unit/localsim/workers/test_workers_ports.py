from localsim.workers import free_ports


def test_chosen_ports_are_free_and_distinct():
    chosen = free_ports.choose_ports(50, taken=())
    assert len(set(chosen)) == 50
    assert free_ports.are_free(chosen)


def test_a_port_that_is_listened_on_is_not_free():
    with free_ports.listen() as listening:
        port = listening.getsockname()[1]
        assert not free_ports.are_free([port])


def test_taken_ports_are_not_chosen():
    low, high = 1024, 65536
    allowed = set(free_ports.choose_ports(3, taken=()))
    assert set(free_ports.choose_ports(1, taken=set(range(low, high)) - allowed)) <= allowed
