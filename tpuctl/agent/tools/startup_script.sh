#!/bin/sh
# tpuctl: runs the script below at every boot, and tells the node's guest attributes how it ended.
base="http://${GCE_METADATA_HOST:-metadata.google.internal}/computeMetadata/v1/instance/guest-attributes/tpuctl"

tell() { # KEY: the value comes on stdin; a value that cannot be told changes nothing else
  if command -v curl >/dev/null 2>&1; then
    curl -fsS --noproxy '*' --max-time 20 --retry 3 --retry-connrefused -o /dev/null -X PUT \
      -H 'Metadata-Flavor: Google' -H 'Content-Type: text/plain' --data-binary @- "$base/$1"
  else
    python3 -c 'import sys, urllib.request as u
u.build_opener(u.ProxyHandler({})).open(u.Request(sys.argv[1], sys.stdin.buffer.read(),
    {"Metadata-Flavor": "Google", "Content-Type": "text/plain"}, method="PUT"), timeout=20)' "$base/$1"
  fi || echo "tpuctl: could not tell $1" >&2
}

utf8() {
  if command -v iconv >/dev/null 2>&1; then iconv -c -f UTF-8 -t UTF-8; else LC_ALL=C tr -cd '\11\12\40-\176'; fi
}

printf running | tell startup-script-exit-code
work=$(mktemp -d) || exit 1
cat >"$work/script" <<'@END@'
@SCRIPT@
@END@
chmod 700 "$work/script"
: >"$work/output"
tail -n +1 -f "$work/output" 2>/dev/null & # the console shows it as it comes
follower=$!
@RUN@"$work/script" >"$work/output" 2>&1
code=$?
tail -n @LINES@ "$work/output" | tail -c @BYTES@ | LC_ALL=C tr -d '\000-\010\013-\037' | utf8 |
  tell startup-script-output
printf %s "$code" | tell startup-script-exit-code
sleep 0.2 2>/dev/null || sleep 1 # for the console to catch up; who runs us waits for its end
kill "$follower"
rm -rf "$work"
exit "$code"
