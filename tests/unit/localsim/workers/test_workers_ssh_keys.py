"""SSH keys that arrive late, on a clock in the test's hand."""

from localsim.workers.ssh_keys import SshKeys


class Time:
    """The simulated time."""

    now_s = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now_s


def test_keys_are_in_force_at_once_without_a_delay():
    keys = SshKeys("ada:ssh-ed25519 AAAA ada@laptop", delay_s=0, now=Time())
    assert keys.of("ada") == {"ssh-ed25519 AAAA"}
    assert keys.of("eve") == frozenset()
    keys.change("eve:ssh-ed25519 BBBB")
    assert (keys.of("ada"), keys.of("eve")) == (frozenset(), {"ssh-ed25519 BBBB"})


def test_lines_that_are_no_keys_let_nobody_in():
    keys = SshKeys("ada\nada:\nada:ssh-ed25519\n:ssh-ed25519 AAAA\n\n", delay_s=0, now=Time())
    assert keys.of("ada") == frozenset()


def test_every_change_takes_the_delay():
    time = Time()
    keys = SshKeys("ada:rsa A", delay_s=30, now=time)
    seen = []
    for second in range(0, 100, 10):
        if second == 40:
            keys.change("ada:rsa B")
        if second == 50:
            keys.change("ada:rsa C")
        seen.append("".join(sorted(keys.of("ada"))))
        time.now_s += 10
    assert seen == ["", "", "", *["rsa A"] * 4, "rsa B", "rsa C", "rsa C"]
