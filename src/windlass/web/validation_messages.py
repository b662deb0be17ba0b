"""What is wrong with a field, in our words: the validation library's sentences are translated in this one place."""

from collections.abc import Callable, Mapping
from typing import Any

Details = Mapping[str, Any]

_KINDS = {
    "string_type": "a string",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a smaller number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "uuid_type": "an id such as 01890a5d-ac96-774b-bcce-b302099a8057",
    "uuid_parsing": "an id such as 01890a5d-ac96-774b-bcce-b302099a8057",
    "datetime_type": "a time such as 2030-01-31T12:00:00Z",
    "datetime_parsing": "a time such as 2030-01-31T12:00:00Z",
    "datetime_from_date_parsing": "a time such as 2030-01-31T12:00:00Z",
    "datetime_object_invalid": "a time such as 2030-01-31T12:00:00Z",
    "timezone_aware": "a time with a zone such as 2030-01-31T12:00:00Z",
}
_MESSAGES: Mapping[str, Callable[[Details], str]] = {
    "missing": lambda _: "it is missing",
    "extra_forbidden": lambda _: "it is not known here: leave it out",
    "greater_than": lambda details: f"it must be greater than {details['gt']}",
    "greater_than_equal": lambda details: f"it must be {details['ge']} or more",
    "less_than": lambda details: f"it must be less than {details['lt']}",
    "less_than_equal": lambda details: f"it must be {details['le']} or less",
    "string_too_long": lambda details: f"it must have at most {details['max_length']} characters",
    "string_too_short": lambda details: f"it must have at least {details['min_length']} characters",
    "too_long": lambda details: f"it must have at most {details['max_length']} items",
    "too_short": lambda details: f"it must have at least {details['min_length']} items",
    "literal_error": lambda details: f"it must be one of {details['expected']}",
    "enum": lambda details: f"it must be one of {details['expected']}",
    "value_error": lambda details: str(details["error"]),
}


def message(error: Mapping[str, Any]) -> str:
    """The sentence for one error of pydantic; its own words if it is of a kind that we have none for."""
    kind = error["type"]
    if kind in _KINDS:
        return f"it must be {_KINDS[kind]}"
    try:
        return _MESSAGES[kind](error.get("ctx", {}))
    except KeyError:
        return str(error["msg"])
