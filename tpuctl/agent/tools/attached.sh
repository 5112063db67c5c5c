# Run a command for as long as somebody at the other end of standard input is there.
#
# An SSH server does not end a command whose client is gone. The client sends a line every few
# seconds; after end-of-file or a long silence the command's process group gets SIGHUP, and SIGKILL
# when it stays. So does what the command leaves behind when it has ended: nothing outlives it.
# The command takes this shell's place, so that its exit status is its own, and the watcher is
# nobody's child, so that a command that waits for all of its children never waits for it.
# Arguments: this text itself, then the command's.
shift
set -m # the watcher in a group of its own
( { while read -r -t 25 && kill -0 $$; do :; done
    kill -HUP -- -$$ && sleep 3 && kill -KILL -- -$$; } <&0 >/dev/null 2>&1 & )
exec -- "$@" </dev/null
