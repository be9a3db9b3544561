"""Settings classes as command-line options."""

from typing import Literal

from envgen.cli.options import explicitly_set, optional_settings
from envgen.settings import Settings


class Example(Settings):
    feedback: Literal["none", "paper"] = "paper"
    decay: float | None = 0.99
    limit: float | None = None


Options = optional_settings(Example, "Options")


def test_only_given_options_are_returned():
    assert explicitly_set(Options()) == {}
    assert explicitly_set(Options(decay=0.5)) == {"decay": 0.5}


def test_none_is_null_only_where_null_is_a_value():
    assert explicitly_set(Options(decay="none")) == {"decay": None}
    assert explicitly_set(Options(feedback="none")) == {"feedback": "none"}
