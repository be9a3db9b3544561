"""Settings classes as command-line options."""

from pathlib import Path
from typing import Literal

import pytest
import tyro

from envgen.cli.options import explicitly_set, optional_settings
from envgen.settings import Settings


class Example(Settings):
    feedback: Literal["none", "paper"] = "paper"
    """What the model learns."""
    decay: float | None = 0.99
    limit: float | None = None
    file: Path | None = None
    shuffle: bool = False
    bfloat16: bool | None = None


Options = optional_settings(Example, "Options")


def test_only_given_options_are_returned():
    assert explicitly_set(Options()) == {}
    assert explicitly_set(Options(decay=0.5)) == {"decay": 0.5}


def test_none_is_null_only_where_null_is_a_value():
    assert explicitly_set(Options(decay="none")) == {"decay": None}
    assert explicitly_set(Options(feedback="none")) == {"feedback": "none"}


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--shuffle"], {"shuffle": True}),
        (["--no-shuffle"], {"shuffle": False}),
        (["--bfloat16"], {"bfloat16": True}),
        (["--no-bfloat16"], {"bfloat16": False}),
        (["--decay", "none"], {"decay": None}),
        (["--limit", "none"], {"limit": None}),
        (["--file", "none"], {"file": None}),
        (["--limit", "0.5", "--file", "x.json"], {"limit": 0.5, "file": Path("x.json")}),
        ([], {}),
    ],
)
def test_an_option_that_is_given_counts_even_if_it_repeats_the_default(args, expected):
    assert explicitly_set(tyro.cli(Options, args=args, config=(tyro.conf.DisallowNone,))) == expected


def test_the_help_of_an_overridden_default_is_inherited(capsys):
    class Derived(Example):
        feedback: Literal["none", "paper"] = "none"

    with pytest.raises(SystemExit):
        tyro.cli(optional_settings(Derived, "DerivedOptions"), args=["--help"])
    assert "What the model learns. (default: none)" in " ".join(capsys.readouterr().out.split())
