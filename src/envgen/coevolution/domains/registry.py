"""The domains by name. A domain is imported only when it is loaded, because some need extra packages.

To add one, write its module and add its line to `DOMAINS`. A domain outside this project needs no line here: it is
loaded by its import path, `my_package.my_module:MyDomain`.
"""

import importlib
import inspect
from collections.abc import Callable

from envgen.settings import format_choice_error

from ..tasks import Domain

DOMAINS = {
    "answers": "envgen.coevolution.domains.answers:AnswersDomain",
    "tools": "envgen.coevolution.domains.tools.domain:ToolsDomain",
    "reasoning_gym:<generator>": "envgen.coevolution.domains.reasoning_gym.domain:ReasoningGymDomain",
}
_PARAMETRIZED = {name.partition(":")[0]: path for name, path in DOMAINS.items() if ":" in name}


def load_domain(name: str) -> Domain:
    """Create a domain from its name.

    Args:
        name: `tools`, `answers`, `reasoning_gym:` and the name of a generator (`reasoning_gym:leg_counting`), or the
            import path of a `Domain` subclass whose constructor takes no arguments (`my_package.my_module:MyDomain`).

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
        return _import_domain(name)()
    raise ValueError(f"domain {format_choice_error(name, [*DOMAINS, '<module>:<class>'])}")


def domain_path(domain: Domain) -> str:
    """The name with which `load_domain` creates this domain again, also one from outside this project."""
    if domain.name in DOMAINS or domain.name.partition(":")[0] in _PARAMETRIZED:
        return domain.name
    return f"{type(domain).__module__}:{type(domain).__qualname__}"


def _import_domain(path: str) -> Callable[..., Domain]:
    module_name, _, class_name = path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        if not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module exists, but something that it imports does not
        raise ValueError(
            f"domain {path!r}: there is no module {module_name!r}; use one of {', '.join(DOMAINS)}, or "
            "<module>:<class> for a module that Python can import (check PYTHONPATH)"
        ) from None
    classes = [key for key, value in vars(module).items() if inspect.isclass(value) and issubclass(value, Domain)]
    if class_name not in classes:
        available = ", ".join(key for key in classes if not inspect.isabstract(getattr(module, key))) or "none"
        raise ValueError(
            f"domain {path!r}: {module_name} has no subclass of Domain called {class_name!r} (it has: {available})"
        )
    domain_class = getattr(module, class_name)
    if inspect.isabstract(domain_class):
        missing = ", ".join(sorted(domain_class.__abstractmethods__))
        raise ValueError(f"domain {path!r}: {class_name} does not implement {missing}")
    return domain_class
