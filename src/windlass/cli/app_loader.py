"""Loads the Windlass object that MODULE:APP names, or explains what is missing."""

import importlib
import os
import sys
import traceback
from collections.abc import Iterable
from types import ModuleType

from windlass.app import Windlass
from windlass.effects.handlers import like
from windlass.errors import Invalid

EXAMPLE = "for example windlass worker shop.jobs:app for `app = Windlass()` in shop/jobs.py"


def load(target: str) -> Windlass:
    """Import the module with the current folder on the path, as `python -m` does, and return its app."""
    module_name, colon, name = target.partition(":")
    if not module_name or (colon and not name):
        raise Invalid(f"{target!r} is not MODULE:APP: {EXAMPLE}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    module = _import(module_name)
    return _checked(module, name or "app")


def check_prefixes(app: Windlass, prefixes: Iterable[str]) -> None:
    """Raise if a prefix matches no handler: the worker would wait for ever."""
    types = app.handlers.types()
    for prefix in prefixes:
        if not any("%" in type_ or like(prefix).fullmatch(type_) for type_ in types):
            raise Invalid(
                f"no handler matches --prefix {prefix!r}: it is a LIKE pattern such as 'billing.%', and the handlers "
                f"are {', '.join(types)}",
                field="prefix",
            )


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise Invalid(
                f"there is no module {name!r}: run this in the folder that contains it, or add that to PYTHONPATH"
            ) from None
        raise _broken(name, error) from error
    except Exception as error:
        raise _broken(name, error) from error


def _broken(name: str, error: Exception) -> Invalid:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{error.filename}, line {error.lineno}" if isinstance(error, SyntaxError) else ""
    where = where or f"{frame.filename}, line {frame.lineno}"
    message = error.msg if isinstance(error, SyntaxError) else error
    return Invalid(f"importing {name!r} failed: {type(error).__name__}: {message} ({where})")


def _checked(module: ModuleType, name: str) -> Windlass:
    value: object = module
    for part in name.split("."):
        if not hasattr(value, part):
            raise Invalid(f"module {module.__name__!r} has no {name!r}: {_candidates(module)}")
        value = getattr(value, part)
    if not isinstance(value, Windlass):
        kind = type(value).__name__
        raise Invalid(f"{module.__name__}:{name} is a {kind}, not a Windlass object: {_candidates(module)}")
    if not value.built and all(type_.startswith("windlass.") for type_ in value.handlers.types()):  # the built-in ones
        raise Invalid(
            f"{module.__name__}:{name} has no handlers: decorate functions with @{name}.job('content.thumbnail.v1'), "
            "or import the modules that contain them"
        )
    return value


def _candidates(module: ModuleType) -> str:
    names = [name for name, value in vars(module).items() if isinstance(value, Windlass)]
    if not names:
        return f"it should have `app = Windlass()`; {EXAMPLE}"
    return f"did you mean {' or '.join(f'{module.__name__}:{name}' for name in names)}?"
