"""Names: which records exist, and what they are also called."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from softgate.acts.exponential import CELU, ELU, SELU, XIELU
from softgate.acts.gated import BILINEAR, GEGLU, GEGLU_TANH, GLU, REGLU, SWIGLU, SWIGLU_OAI
from softgate.acts.piecewise import HARDSIGMOID, HARDSWISH, IDENTITY, LEAKY_RELU, PRELU, RELU, RELU2, RELU6
from softgate.acts.sigmoidal import LAPLACE, SIGMOID, SOFTPLUS, SQRTSOFTPLUS, TANH
from softgate.acts.smooth import GELU, GELU_10, GELU_SIGMOID, GELU_TANH, MISH, SILU
from softgate.acts.spec import Activation, GatedActivation
from softgate.errors import RecordError, UnknownActivation

Record = Activation | GatedActivation

# A new activation is one record and its name here.
PLAIN: tuple[Activation, ...] = (
    *(RELU, RELU2, RELU6, LEAKY_RELU, PRELU, ELU, SELU, CELU),
    *(GELU, GELU_TANH, GELU_SIGMOID, SILU, MISH, SOFTPLUS, HARDSWISH, HARDSIGMOID),
    *(SIGMOID, TANH, LAPLACE, XIELU, GELU_10, SQRTSOFTPLUS, IDENTITY),
)
GATED: tuple[GatedActivation, ...] = (GLU, BILINEAR, REGLU, GEGLU, GEGLU_TANH, SWIGLU, SWIGLU_OAI)


def _index(records: Iterable[Record]) -> tuple[dict[str, Record], dict[str, str]]:
    """Records by name, and the name behind every alias; no label may stand for two records."""
    by_name: dict[str, Record] = {}
    by_alias: dict[str, str] = {}
    for record in records:
        for label in (record.name, *record.aliases):
            if label in by_name or label in by_alias:
                raise RecordError(f"record {record.name!r}: {label!r} is taken")
            by_alias[label] = record.name
        by_name[record.name] = record
        del by_alias[record.name]
    return by_name, by_alias


_BY_NAME, _ALIASES = _index((*PLAIN, *GATED))


def get(name: str) -> Record:
    """The record of a canonical name or an alias.

    Raises UnknownActivation, which is a ValueError, with the names that look most like the unknown one.

    >>> get("quick_gelu").name
    'gelu_sigmoid'
    >>> get("gelo")
    Traceback (most recent call last):
    softgate.errors.UnknownActivation: unknown activation 'gelo'; did you mean gelu, geglu?
    """
    if not isinstance(name, str) or (found := _BY_NAME.get(_ALIASES.get(name, name))) is None:
        raise UnknownActivation(name, _near(str(name)))
    return found


def _near(name: str) -> tuple[str, ...]:
    # A long hostile name would make the comparison slow without making it better.
    return tuple(difflib.get_close_matches(name.strip().lower()[:80], [*_BY_NAME, *_ALIASES], n=4, cutoff=0.6))


def names(gated: bool = False) -> tuple[str, ...]:
    """Canonical names of the plain records, or of the gated ones; never aliases.

    >>> names(gated=True)
    ('glu', 'bilinear', 'reglu', 'geglu', 'geglu_tanh', 'swiglu', 'swiglu_oai')
    """
    return tuple(record.name for record in (GATED if gated else PLAIN))


def aliases() -> dict[str, str]:
    """Every alias and the canonical name it stands for.

    >>> aliases()["gelu_new"]
    'gelu_tanh'
    """
    return dict(_ALIASES)
