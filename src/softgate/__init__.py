"""softgate: the non-linearity of a Transformer's feed-forward network, measured.

Everything is loaded at its first use, so `import softgate` costs no torch.

>>> import softgate as sg
>>> sg.get("quick_gelu").name
'gelu_sigmoid'
"""

from __future__ import annotations

from importlib import import_module, metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from softgate import lab as lab
    from softgate import nn as nn
    from softgate import numerics as numerics
    from softgate import theory as theory
    from softgate.acts import get as get
    from softgate.acts import names as names
    from softgate.errors import SoftgateError as SoftgateError
    from softgate.errors import UnknownActivation as UnknownActivation
    from softgate.nn import functional as functional

    __version__: str

# Public name -> where it lives, "module" or "module:attribute". tests/cli/test_cli.py compares it with the block above.
_HOMES = {
    "SoftgateError": "softgate.errors:SoftgateError",
    "UnknownActivation": "softgate.errors:UnknownActivation",
    "functional": "softgate.nn.functional",
    "get": "softgate.acts:get",
    "lab": "softgate.lab",
    "names": "softgate.acts:names",
    "nn": "softgate.nn",
    "numerics": "softgate.numerics",
    "theory": "softgate.theory",
}

__all__ = [
    "SoftgateError",
    "UnknownActivation",
    "__version__",
    "functional",
    "get",
    "lab",
    "names",
    "nn",
    "numerics",
    "theory",
]


def _load(name: str) -> object:
    """The public object of that name, imported now and kept, so that the next access is an ordinary one."""
    if name == "__version__":
        value: object = metadata.version("softgate")
    elif (home := _HOMES.get(name)) is not None:
        module, _, attribute = home.partition(":")
        value = getattr(import_module(module), attribute) if attribute else import_module(module)
    else:
        raise AttributeError(f"module 'softgate' has no attribute {name!r}")
    globals()[name] = value
    return value


if not TYPE_CHECKING:  # a checker that saw it would take every misspelt name for an existing one
    __getattr__ = _load


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
