"""softgate: which activation, is mine right and alive, run it well.

Everything here is loaded on first use (PEP 562): `import softgate` alone loads no torch.

>>> import softgate as sg
>>> sg.get("swish").name
'silu'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from softgate import lab, nn, theory
    from softgate.acts import get, names
    from softgate.errors import SoftgateError, UnknownActivation
    from softgate.nn import functional

    __version__: str

__all__ = [
    "SoftgateError",
    "UnknownActivation",
    "__version__",
    "functional",
    "get",
    "lab",
    "names",
    "nn",
    "theory",
]

# Name -> the module that has it, or that it is.
_HOMES = {
    "SoftgateError": "softgate.errors",
    "UnknownActivation": "softgate.errors",
    "functional": "softgate.nn.functional",
    "get": "softgate.acts",
    "lab": "softgate.lab",
    "names": "softgate.acts",
    "nn": "softgate.nn",
    "theory": "softgate.theory",
}


# Hidden from type checkers: they would take any misspelt name for one that this function finds.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Load what is asked for, and keep it: the next access finds it as an ordinary attribute."""
        value: object
        if name == "__version__":
            from importlib.metadata import version

            value = version("softgate")
        elif name in _HOMES:
            module = import_module(_HOMES[name])
            value = module if _HOMES[name].endswith(f".{name}") else getattr(module, name)
        else:
            raise AttributeError(f"module 'softgate' has no attribute '{name}'")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
