"""Error messages are one clean line, and survive the way between processes."""

import pickle

import pytest

from softgate import errors
from softgate.errors import UnknownActivation, clean

HOSTILE = [
    ("relu\n\nExploit: yes", "relu Exploit: yes"),
    ("tab\there", "tab here"),
    ("\x1b[31mred\x1b[0m", "red"),
    ("\x1b]0;title\x07name", "name"),
    ("\x1b]8;;http://x\x1b\\link", "link"),
    ("\x9b2Jwiped", "wiped"),
    ("abc\u202egpj.exe", "abcgpj.exe"),
    ("zero\u200bwidth\ufeff", "zerowidth"),
    ("nul\x00bell\x07back\x08", "nulbellback"),
    ("lone\ud800surrogate", "lonesurrogate"),
    ("line\u2028separator", "line separator"),
    ("naïve 活性化 ∂", "naïve 活性化 ∂"),
]


@pytest.mark.parametrize(("raw", "shown"), HOSTILE)
def test_clean_leaves_what_can_be_shown(raw, shown):
    assert clean(raw) == shown


def test_clean_cuts_to_the_limit_dots_included():
    assert clean("x" * 80) == "x" * 80
    assert clean("x" * 81) == "x" * 77 + "..."
    assert [len(clean("x" * 9, limit)) for limit in range(6)] == [0, 1, 2, 3, 4, 5]


def test_clean_takes_what_is_not_text():
    assert clean(3.5) == "3.5"
    assert clean(None) == "None"


def test_unknown_activation_is_one_short_line():
    error = UnknownActivation("gelu\n\x1b[2J" + "x" * 500, ("gelu", "geglu"))
    line = str(error)
    assert "\n" not in line
    assert "\x1b" not in line
    assert line.endswith("did you mean gelu, geglu?")
    assert len(error.name) == 80
    assert error.near == ("gelu", "geglu")


def test_unknown_activation_survives_pickling():
    error = UnknownActivation("gellu", ["gelu"])
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is UnknownActivation
    assert (again.name, again.near, str(again)) == (error.name, error.near, str(error))


@pytest.mark.parametrize("name", ["UnknownActivation", "BadInput", "StudyError", "TrialError", "RecordError"])
def test_every_error_is_a_softgate_error(name):
    assert issubclass(getattr(errors, name), errors.SoftgateError)


@pytest.mark.parametrize("name", ["UnknownActivation", "BadInput", "RecordError"])
def test_bad_values_are_value_errors(name):
    assert issubclass(getattr(errors, name), ValueError)
