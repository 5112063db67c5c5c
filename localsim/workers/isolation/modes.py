"""The two modes of isolation; either has hosts, and programs on them, with the same methods."""

from typing import TypeAlias

from localsim.workers.isolation.namespace import NamespaceIsolation
from localsim.workers.isolation.namespace_host import NamespaceHost, NamespaceProgram
from localsim.workers.isolation.process import ProcessHost, ProcessIsolation
from localsim.workers.isolation.process_programs import ProcessProgram

Isolation: TypeAlias = NamespaceIsolation | ProcessIsolation
Host: TypeAlias = NamespaceHost | ProcessHost
Program: TypeAlias = NamespaceProgram | ProcessProgram
