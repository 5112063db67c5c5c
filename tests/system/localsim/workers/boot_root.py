"""Run as a program: be a worker's first process, in namespaces of our own, and do what stdin says.

stdin: {"hostname": …, "plan": …, "steps": ["a shell line", "!fill", "!free", "!user NAME", …]}
stdout: {"notes": […], "results": [[exit status, output and errors], …]}, or {"refused": reason}
"""

import json
import os
import sys

sys.path.insert(0, os.path.abspath(__file__).rsplit("/tests/", 1)[0])  # noqa: PTH100

from localsim.workers.isolation.inside import full_disk, kernel, root, users  # noqa: E402

NAMESPACES = (
    kernel.CLONE_NEWUSER
    | kernel.CLONE_NEWNS
    | kernel.CLONE_NEWPID
    | kernel.CLONE_NEWNET
    | kernel.CLONE_NEWUTS
    | kernel.CLONE_NEWIPC
)
ACTIONS = {
    "!free": full_disk.free,
    "!settle": full_disk.settle,
    "!user": users.add,
}


def leave_home():
    user, group = os.geteuid(), os.getegid()
    kernel.unshare(NAMESPACES)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"0 {user} 1"),
        ("gid_map", f"0 {group} 1"),
    ):
        descriptor = os.open(f"/proc/self/{name}", os.O_WRONLY)
        os.write(descriptor, text.encode())
        os.close(descriptor)


def do(step):
    if step.startswith("!"):
        name, *arguments = step.split()
        try:
            ACTIONS[name](*arguments)
        except OSError as error:
            return [1, error.strerror]
        return [0, ""]
    output = os.memfd_create("output", 0)
    child = os.fork()
    if child == 0:
        os.setsid()
        os.dup2(output, 1)
        os.dup2(output, 2)
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
        os.execve("/bin/sh", ["sh", "-c", step], environment)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    text = os.pread(output, 1 << 20, 0).decode()
    os.close(output)
    return [status, text]


def be_worker(order):
    kernel.set_host_name(order["hostname"])
    notes = root.build(order["plan"])
    ACTIONS["!fill"] = lambda: full_disk.fill(order["plan"]["mounts"])
    results = [do(step) for step in order["steps"]]
    os.write(1, json.dumps({"notes": notes, "results": results}).encode())


def main():
    order = json.load(sys.stdin)
    try:
        leave_home()
    except OSError as error:
        os.write(1, json.dumps({"refused": str(error)}).encode())
        return
    child = os.fork()
    if child == 0:
        try:
            be_worker(order)
        except OSError as error:
            os.write(1, json.dumps({"refused": str(error)}).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)


if __name__ == "__main__":
    main()
