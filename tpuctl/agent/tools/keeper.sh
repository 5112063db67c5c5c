# End a command that has its client's own input, so that only this, beside it, can tell that the
# client is gone: attached.sh hangs up on it then. A command that has ended by itself may leave
# behind what it likes. It says when it is ready.
# Arguments: the file that has the command's process group.
trap 'trap "" HUP
    [ -s "$1" ] || sleep 1; group=$(cat "$1"); rm -f "$1"
    kill -0 "$group" && kill -s HUP -- "-$group" && sleep 1 && kill -s KILL -- "-$group"
    exit 0' HUP
echo ready
sleep 2147483647 & wait
