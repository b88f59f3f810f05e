"""schemas_test.py WALKER [COUNT]: checks the grammars of COUNT random JSON schemas. Each schema must be refused, or every complete text that
its grammar accepts must parse and validate (by jsonschema from PyPI)."""
import collections
import json
import random
import subprocess
import sys

import jsonschema

WALKER, COUNT = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2000
NAMES = ["a", "b", "id", "é", "x y", "q\"q", "k_1", "$t", "a.b", "items", "type", "enum"]
VALUES = ["a", "b\"c", 1, -2.5, 1e3, True, None, [], {"k": [1, "é"]}, "", 0, "\n"]
PATTERNS = ["^\\d{2}", "a", r"b$|^c", r"^\"\\\\?$", r"[\n\t]", "^[a-c]+$", r"^\d{2,4}$", "^(foo|bar)?$", "^.{1,3}$", "[^x]{2}", r"^\w+ \w+$", "^a.*z$", r"\S", "[!-~]{2}", "^[ -Z]+$", r"^\D{2}$", r"[\]-a]{2}"]
FORMATS = ["email", "date", "time", "date-time", "duration", "ipv4", "ipv6", "hostname", "uuid", "uri"]
LEAVES = ["string", "integer", "number", "boolean", "null", "enum", "const"]
# Keywords that grammars cannot express: a schema with one of these members must be refused.
REFUSED = [{"uniqueItems": True}, {"contains": {"type": "null"}}, {"not": {"type": "null"}}, {"if": {}, "then": {}}, {"dependentRequired": {"a": ["b"]}},
           {"multipleOf": 0.5, "type": "number"}, {"pattern": "(?=a)", "type": "string"}, {"oneOf": [{"type": "integer"}, {"type": "number"}]}]
# Keywords that a grammar can express only together with others, and keywords that demand nothing.
OTHERS = [{"type": "object", "propertyNames": {"maxLength": 2}}, {"type": "object", "unevaluatedProperties": False}, {"format": "json-pointer", "type": "string"},
          {"type": "object", "required": ["zz"]}, {"x-order": 1}, {"type": "array", "uniqueItems": False},
          {"type": "object", "patternProperties": {"a": {"type": "integer"}, "^b": {"type": "null"}}, "properties": {"ab": {"minimum": 3}}},
          {"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"properties": {"b": {"type": "null"}}, "maxProperties": 3}]},
          {"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
          {"oneOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]}]
dice = random.Random(7)


def texts():
    schema, kind = {"type": "string"}, dice.random()
    if kind < 0.3:
        schema["maxLength"] = dice.randint(0, 6)
    if 0.2 < kind < 0.4:
        schema["minLength"] = dice.randint(0, min(3, schema.get("maxLength", 3)))
    if 0.4 < kind < 0.6:
        schema["pattern"] = dice.choice(PATTERNS)
        if kind < 0.45:
            schema["maxLength"] = dice.randint(3, 9)
    if 0.6 < kind < 0.8:
        schema["format"] = dice.choice(FORMATS)
    return schema


def numbers(kind):
    schema, low, which = {"type": kind}, dice.randint(-300, 300), dice.random()
    high = low + dice.randint(0, 500)
    if kind == "number":
        low, high = round(low / 7, dice.randint(0, 3)), round(high / 7 + 1, dice.randint(0, 3))
    if which < 0.5:
        schema[dice.choice(["minimum", "exclusiveMinimum"])] = low - 1
    if 0.3 < which < 0.8:
        schema[dice.choice(["maximum", "exclusiveMaximum"])] = high + 1
    if which > 0.9 and kind == "integer":
        schema["multipleOf"] = dice.randint(1, 7)
    return schema


def lists(depth):
    schema = {"type": "array"}
    if dice.random() < 0.7:
        schema["items"] = make(depth - 1)
    if dice.random() < 0.4:
        schema["prefixItems"] = [make(depth - 1) for _ in range(dice.randint(1, 2))]
    if dice.random() < 0.4:
        schema["minItems"] = dice.randint(0, 3)
    if dice.random() < 0.4:
        schema["maxItems"] = max(schema.get("minItems", 0), len(schema.get("prefixItems", []))) + dice.randint(0, 2)
    return schema


def objects(depth):
    schema, names, more = {"type": "object"}, dice.sample(NAMES, dice.randint(0, 4)), dice.random()
    if names:
        schema["properties"] = {name: make(depth - 1) for name in names}
        schema["required"] = [name for name in names if dice.random() < 0.5]
    elif more < 0.5:
        schema["patternProperties"] = {"^x[0-9]+$": make(depth - 1)}
    if more < 0.5:
        schema["additionalProperties"] = False
    elif more < 0.7:
        schema["additionalProperties"] = make(depth - 1)
    if dice.random() < 0.3:
        if names and more < 0.5:
            schema["minProperties"] = dice.randint(0, len(names))
        schema["maxProperties"] = max(schema.get("minProperties", 0), len(schema.get("required", []))) + dice.randint(0, 3)
    return schema


def make(depth):
    kind = dice.choice(LEAVES if depth == 0 else LEAVES + ["array", "object", "object", "anyOf", "oneOf", "allOf", "types", "ref", "any", "refused", "other"])
    made = {"string": texts, "integer": lambda: numbers("integer"), "number": lambda: numbers("number"), "array": lambda: lists(depth),
            "object": lambda: objects(depth), "enum": lambda: {"enum": [dice.choice(VALUES) for _ in range(dice.randint(1, 4))]},
            "const": lambda: {"const": dice.choice(VALUES)}, "anyOf": lambda: {"anyOf": [make(depth - 1) for _ in range(dice.randint(1, 3))]},
            "oneOf": lambda: {"oneOf": [{"type": "string", "maxLength": 3}, {"type": dice.choice(["integer", "null", "boolean"])}]},
            "allOf": lambda: {"allOf": [make(depth - 1)]}, "types": lambda: {"type": dice.sample(["string", "null", "boolean", "integer"], 2)},
            "ref": lambda: {"$ref": "#/$defs/D"}, "any": lambda: {}, "boolean": lambda: {"type": "boolean"}, "null": lambda: {"type": "null"},
            # Refused keywords are rare. Otherwise few deep schemas would be free of them.
            "other": lambda: dict(dice.choice(OTHERS)), "refused": lambda: dict(dice.choice(REFUSED)) if dice.random() < 0.2 else texts()}
    return made[kind]()


KINDS = {kind: {"type": "object", "properties": {"kind": {"const": kind}, "n": {"type": "integer"}}, "required": ["kind"]} for kind in "AB"}


def with_definitions(schema):
    if '"#/$defs/A"' in json.dumps(schema):
        schema = {**schema, "$defs": {**KINDS, "D": {"type": "null"}}}
        return schema
    if '"#/$defs/D"' not in json.dumps(schema):
        return schema
    list_of_itself = {"type": "object", "properties": {"n": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/D"}]}}, "required": ["n"], "additionalProperties": False}
    return {**schema, "$defs": {"D": dice.choice([{"type": "string", "maxLength": 2}, list_of_itself])}}


def has_refused(schema):
    if isinstance(schema, list):
        return any(map(has_refused, schema))
    if not isinstance(schema, dict):
        return False
    return any(refused.items() <= schema.items() for refused in REFUSED) or any(
        has_refused(part) for keyword, part in schema.items() if keyword not in ("enum", "const"))


def main():
    schemas = [with_definitions(make(3)) for _ in range(COUNT)]
    lines = "".join(json.dumps(schema) + "\n" for schema in schemas)
    walked = subprocess.run([WALKER], input=lines.encode(), stdout=subprocess.PIPE, check=True).stdout.decode().split("\n")[:-1]
    assert len(walked) == len(schemas)
    count, wrong = collections.Counter(), []
    for schema, answer in zip(schemas, map(json.loads, walked)):
        if "refused" in answer:
            count["refused"] += 1
            continue
        if has_refused(schema):
            wrong.append((schema, "is not refused"))
        for text in answer["texts"]:
            count["texts"] += 1
            try:
                jsonschema.Draft202012Validator(schema).validate(json.loads(text))
            except (json.JSONDecodeError, jsonschema.ValidationError) as error:
                wrong.append((schema, f"{text!r}: {str(error).splitlines()[0]}"))
    print(f"{COUNT} schemas: {count['refused']} refused, {count['texts']} texts, {len(wrong)} wrong")
    for schema, what in wrong[:10]:
        print(json.dumps(schema), what)
    sys.exit(1 if wrong or count["texts"] < 3 * COUNT or count["refused"] < COUNT // 50 else 0)


main()
