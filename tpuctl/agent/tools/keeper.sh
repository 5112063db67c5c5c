# End a command that has its client's own input, so that only this, beside it, can tell that the
# client is gone: attached.sh hangs up on it then. A command that has ended by itself may leave
# behind what it likes. It says when it is ready.
# Arguments: the name of the temporary file that has the command's process group.
note=${TMPDIR:-/tmp}/$1
trap 'trap "" HUP
    [ -s "$note" ] || sleep 1; group=$(cat "$note"); rm -f "$note"
    kill -0 "$group" && kill -s HUP -- "-$group" && sleep 1 && kill -s KILL -- "-$group"
    exit 0' HUP
echo ready
sleep 2147483647 & wait
