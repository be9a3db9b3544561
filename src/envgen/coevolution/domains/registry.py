"""The domains by name. A domain is imported only when it is loaded, because some need extra packages.

To add one, write its module and add its line to `DOMAINS`. A domain outside this project needs no line here: it is
loaded by its import path, `my_package.my_module:MyDomain`.
"""

import inspect
from collections.abc import Callable

from envgen.errors import EnvgenError, describe_exception
from envgen.imports import ImportPathError, import_object
from envgen.settings import format_choice_error

from ..tasks import Domain

DOMAINS = {
    "alfworld": "envgen.coevolution.domains.alfworld.domain:AlfworldDomain",
    "alfworld:<texts>": "envgen.coevolution.domains.alfworld.domain:AlfworldDomain",
    "answers": "envgen.coevolution.domains.answers:AnswersDomain",
    "bfcl": "envgen.coevolution.domains.bfcl.domain:BfclDomain",
    "bfcl:<listing>": "envgen.coevolution.domains.bfcl.domain:BfclDomain",
    "tools": "envgen.coevolution.domains.tools.domain:ToolsDomain",
    "travel": "envgen.coevolution.domains.travel.domain:TravelDomain",
    "two_hop": "envgen.coevolution.domains.two_hop.domain:TwoHopDomain",
    "reasoning_gym:<generator>": "envgen.coevolution.domains.reasoning_gym.domain:ReasoningGymDomain",
}
_PARAMETRIZED = {name.partition(":")[0]: path for name, path in DOMAINS.items() if ":" in name}


def load_domain(name: str) -> Domain:
    """Create a domain from its name.

    Args:
        name: `tools`, `answers`, `bfcl` (or `bfcl:json`, which lists functions as JSON), `alfworld` (or
            `alfworld:original`, with ALFWorld's own sentences), `travel`, `two_hop`, `reasoning_gym:` and the name of a
            generator (`reasoning_gym:leg_counting`), or the import path of a `Domain` subclass whose constructor takes
            no arguments (`my_package.my_module:MyDomain`).

    Raises:
        ValueError: There is no such domain; the message suggests the nearest name.
        ImportError: The domain needs a package that is not installed.
    """
    prefix, _, argument = name.partition(":")
    if prefix == "gym" and argument:
        raise ValueError(f"domain {name!r} is now called {f'reasoning_gym:{argument}'!r}")
    if name in DOMAINS and not argument:
        return _import_domain(DOMAINS[name])()
    if prefix in _PARAMETRIZED and argument:
        return _import_domain(_PARAMETRIZED[prefix])(argument)
    is_module = all(part.isidentifier() for part in prefix.split("."))
    if argument and is_module and prefix not in (*DOMAINS, *_PARAMETRIZED):
        return _create_domain(name)
    raise ValueError(f"domain {format_choice_error(name, [*DOMAINS, '<module>:<class>'])}")


def _create_domain(path: str) -> Domain:
    """The domain at an import path. Whatever its constructor raises is explained by a ValueError."""
    domain_class = _import_domain(path)
    try:
        return domain_class()
    except (EnvgenError, ImportError, MemoryError):
        raise
    except Exception as error:
        raise ValueError(f"domain {path!r} cannot be created without arguments: {describe_exception(error)}") from error


def domain_path(domain: Domain) -> str:
    """The name from which `load_domain` recreates this domain; for one outside this project, its import path.

    A subclass of a domain of this project, which may have the same name, is one outside.
    """
    path = f"{type(domain).__module__}:{type(domain).__qualname__}"
    return domain.name if path in DOMAINS.values() else path


def is_builtin(name: str) -> bool:
    """Whether `load_domain(name)` loads a domain of this project."""
    return name in DOMAINS or name.partition(":")[0] in _PARAMETRIZED


def _import_domain(path: str) -> Callable[..., Domain]:
    try:
        domain_class = import_object(path, Domain)
    except ImportPathError as error:
        if isinstance(error.__cause__, ImportError):  # the module exists, but something that it imports does not
            raise error.__cause__ from None
        raise ValueError(f"domain {path!r}: {error}") from error.__cause__
    if not (inspect.isclass(domain_class) and issubclass(domain_class, Domain)):
        raise ValueError(f"domain {path!r} is not a subclass of Domain")
    if inspect.isabstract(domain_class):
        missing = ", ".join(sorted(domain_class.__abstractmethods__))
        raise ValueError(f"domain {path!r}: {domain_class.__name__} does not implement {missing}")
    return domain_class
