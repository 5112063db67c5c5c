"""The sections in which a help page lists commands, by what a person wants to do."""

from collections.abc import Mapping, Sequence

Sections = Mapping[str, str]

ROOT: Sections = {
    "Start here": "quickstart context catalog help",
    "Slices": "plan capacity node queued-resource",
    "Programs and data": "run predict serve job service data checkpoint supervisor",
    "See": "top dashboard explain doctor bench history cost sweep",
    "Offline": "rehearse local record",
}
NOUNS: Mapping[str, Sections] = {
    "node": {
        "Get": "list describe workers logs metrics",
        "Change": "create update start stop wait delete",
        "Work on it": "exec ssh ssh-config cp forward free",
    },
    "queued-resource": {"Get": "list describe wait", "Change": "create reset delete"},
    "job": {
        "Get": "list describe logs metrics tensorboard bundle",
        "Change": "submit wait cancel retry delete",
        "Work on it": "exec ssh",
        "Begin with": "templates init lint",
    },
    "service": {"Get": "list describe logs", "Change": "update delete"},
    "data": {"Get": "list verify", "Change": "push pull copy rm", "Work on it": "mount"},
    "checkpoint": {
        "Get": "list describe verify advise",
        "Change": "push pull copy pin prune seal",
    },
    "catalog": {"Get": "types zones runtimes prices models"},
    "context": {"Get": "list show check", "Change": "create use edit budget rename delete"},
    "local": {
        "Get": "status env",
        "Change": "up down reset",
        "Work on it": "shell preempt fault record-faults bench",
    },
    "bench": {"Measure": "node serve"},
    "plan": {"Plan": "train serve program"},
    "supervisor": {"Get": "status", "Change": "run stop"},
}


def section_names(sections: Sections, names: Sequence[str]) -> dict[str, list[str]]:
    """The commands of each section in their order; one that no section has comes last."""
    placed = {title: listed.split() for title, listed in sections.items()}
    known = {name for listed in placed.values() for name in listed}
    rest = [name for name in names if name not in known]
    found = {title: [n for n in listed if n in names] for title, listed in placed.items()}
    return found | ({"Commands": rest} if rest else {})
