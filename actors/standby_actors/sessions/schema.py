"""Answers that are data: the JSON schema that a model is shown, and the reading of its answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
from attrs import field, frozen


@frozen
class AnswerSchema:
    """How an answer of `kind` is asked for, and read.

    Servers that keep answers to a schema want the strict subset: an object at
    the root, every property required, none besides.  A type that is no object
    is therefore asked for as the property `value` of one.

    Args:
        kind: a type that msgspec decodes.

    Raises:
        TypeError: msgspec cannot describe the type.

    Examples:
        >>> AnswerSchema(list[int]).read('{"value": [1, 2]}')
        [1, 2]
    """

    kind: Any
    name: str = field(init=False)
    wrapped: bool = field(init=False)
    schema: dict[str, Any] = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        [root], parts = msgspec.json.schema_components([self.kind], ref_template="#/$defs/{name}")
        name = root.get("$ref", "").rpartition("/")[2]
        whole: Any = parts[name] if name else root
        wrapped = whole.get("type") != "object" or "properties" not in whole
        if wrapped:
            whole = {"type": "object", "properties": {"value": root}, "required": ["value"]}
        elif f'"#/$defs/{name}"' not in json.dumps(parts):
            # Only a type that holds itself is still referred to.
            parts = {key: part for key, part in parts.items() if key != name}
        schema = _strict(whole)
        if parts:
            schema["$defs"] = {key: _strict(part) for key, part in parts.items()}
        object.__setattr__(self, "name", name or "answer")
        object.__setattr__(self, "wrapped", wrapped)
        object.__setattr__(self, "schema", schema)

    def response_format(self) -> dict[str, Any]:
        """The request's field, for a server that keeps to schemas."""
        return {
            "type": "json_schema",
            "json_schema": {"name": self.name, "strict": True, "schema": self.schema},
        }

    def instruction(self) -> str:
        """The words for a model whose server does not keep to schemas."""
        text = json.dumps(self.schema, ensure_ascii=False)
        return f"Answer with JSON only, without any other text, by this JSON schema:\n{text}"

    def read(self, answer: str) -> Any:
        """The data in `answer`.

        Raises:
            msgspec.MsgspecError: it is not JSON, or not data of this kind.
        """
        text = _unfenced(answer)
        if not self.wrapped:
            return msgspec.json.decode(text, type=self.kind)
        held = msgspec.json.decode(text)
        if not isinstance(held, dict) or "value" not in held:
            raise msgspec.ValidationError("Expected an object with the field `value`")
        return msgspec.convert(held["value"], self.kind)

    def write(self, value: Any) -> str:
        """`value` as the text that :meth:`read` reads."""
        return msgspec.json.encode({"value": value} if self.wrapped else value).decode()


def _unfenced(text: str) -> str:
    """`text` without the code fence that many models put around JSON.

    Examples:
        >>> _unfenced("```json\\n[1]\\n```")
        '[1]'
    """
    text = text.strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        return text.partition("\n")[2].removesuffix("```").strip()
    return text


def _strict(schema: Mapping[str, Any]) -> dict[str, Any]:
    """`schema` in the subset that strict servers take.

    Defaults go, because there every property is required, and so no default
    would ever be used.
    """
    strict: dict[str, Any] = {}
    for key, part in schema.items():
        if key == "default":
            continue
        if key in ("properties", "$defs"):
            strict[key] = {name: _strict(each) for name, each in part.items()}
        elif key in ("anyOf", "oneOf", "prefixItems"):
            strict[key] = [_strict(each) for each in part]
        elif key == "items" and isinstance(part, dict):
            strict[key] = _strict(part)
        else:
            strict[key] = part
    if "properties" in strict:
        strict["required"] = list(strict["properties"])
        strict["additionalProperties"] = False
    return strict
