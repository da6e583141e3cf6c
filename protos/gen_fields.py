#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turn the .proto files into C: field numbers, enum values, and which fields hold messages.

usage: gen_fields.py [--prefix PREFIX] [--messages MESSAGES.h] [--shapes SHAPES.c] [--names NAMES.c]
                     [--depfile FILE] HEADER PROTO_OR_FOLDER...

HEADER defines PB_Message_field for every field (nested messages joined with '_') and PB_VALUE for
every enum value (PB_Scope_VALUE where two scopes name different numbers alike). Schemas whose names
clash with Perfetto's have another prefix than PB. MESSAGES.h has each message as its fields by name
and by number. SHAPES.c is the table behind shapes.h, NAMES.c the one behind names.h. That is all
the schema that code using the wire reader and writer needs.

A folder stands for all .proto files in it: with the folder in the depfile, a new file needs no
list.
"""
import argparse
import collections
import pathlib
import re
import sys

TOKEN = re.compile(r"//[^\n]*|\"(?:\\.|[^\"\\])*\"|[A-Za-z_][\w.]*|-?\d+|[{}=;\[\],()<>]")
VARINT = {"int32", "int64", "uint32", "uint64", "sint32", "sint64", "bool"}
FIXED = {"fixed32": 32, "sfixed32": 32, "float": 32, "fixed64": 64, "sfixed64": 64, "double": 64}
EXTENSION_MIN = 1000  # numbers from here on are extensions, which arrays of fields leave out
PACKAGE = "perfetto.protos"  # of all files in the folders
KEYWORDS = {"at", "default", "double", "enum", "float", "int", "register", "short", "signed",
            "static", "switch"}
# Kinds of fields; see shapes.h.
PLAIN, PACKED_VARINT, PACKED_32, PACKED_64, FLAT, FIRST_SHAPE = range(6)

Field = collections.namedtuple("Field", "name number label type place")


class Schema:
    def __init__(self):
        self.messages = {}  # dotted name -> its fields
        self.extensions = {}  # dotted name -> (where it was, fields that others add)
        self.enums = {}  # dotted name -> its (name, number)
        self.values = []  # (scope, name, number) of enums


class Parser:
    """Reads one file. protoc must have accepted the file."""

    def __init__(self, path, schema):
        self.path, self.schema, self.at = path, schema, 0
        text = path.read_text(encoding="utf-8")
        self.tokens = [t for t in TOKEN.findall(text) if not t.startswith("//")]
        self.imports, self.package = [], None
        before = {*schema.messages, *schema.enums}
        try:
            while self.at < len(self.tokens):
                self.statement("")
        except (IndexError, ValueError) as error:
            sys.exit(f"{path}: cannot be read as a .proto file ({error})")
        self.defined = {*schema.messages, *schema.enums} - before

    def next(self):
        self.at += 1
        return self.tokens[self.at - 1]

    def skip(self):
        while self.next() != ";":
            pass

    def statement(self, outer):
        token = self.next()
        if token == "message":
            self.message(outer)
        elif token == "enum":
            self.enum(outer)
        elif token == "extend":
            place, target = outer.rstrip("."), self.next()
            self.next()
            fields = []
            while self.tokens[self.at] != "}":
                self.field(fields, place, self.next())
            self.at += 1
            self.schema.extensions.setdefault(target, []).append((outer, fields))
        else:
            if token == "import":
                self.imports.append(self.tokens[self.at].strip('"'))
            elif token == "package":
                self.package = self.tokens[self.at]
            self.skip()

    def enum(self, outer):
        values = self.schema.enums[outer + self.next()] = []
        self.next()
        while self.tokens[self.at] != "}":
            name = self.next()
            if name not in ("option", "reserved"):
                values.append((name, int(self.tokens[self.at + 1])))
                self.schema.values.append((outer, *values[-1]))
            self.skip()
        self.at += 1

    def message(self, outer):
        name = outer + self.next()
        if name in self.schema.messages:
            sys.exit(f"{self.path}: message {name} is defined a second time")
        fields = self.schema.messages[name] = []
        depth = 1
        self.next()
        while depth:
            token = self.tokens[self.at]
            if token in ("message", "enum", "extend"):
                self.statement(name + ".")
            elif token == "oneof":
                depth += 1
                self.at += 3
            elif token == "}":
                depth -= 1
                self.at += 1
            elif token in ("reserved", "extensions", "option"):
                self.skip()
            else:
                self.field(fields, name, self.next())

    def field(self, fields, place, token):
        label = "optional"
        if token in ("optional", "repeated", "required"):
            label, token = token, self.next()
        if token == "map":
            self.next()
            key = self.next()
            self.next()
            kind = self.next()
            self.next()
            name = self.next()
            entry = "".join(part.capitalize() for part in name.split("_")) + "Entry"
            self.schema.messages[f"{place}.{entry}"] = [
                Field("key", 1, "optional", key, self.path),
                Field("value", 2, "optional", kind, self.path),
            ]
            label, token = "repeated", entry
        else:
            name = self.next()
        self.next()
        fields.append(Field(name, int(self.next()), label, token, self.path))
        self.skip()


def resolve(schema, scope, name):
    """The dotted name of a type that a message of this scope names."""
    parts = scope.split(".")
    for n in range(len(parts), -1, -1):
        full = ".".join([*parts[:n], name])
        if full in schema.messages or full in schema.enums:
            return full
    return None


def kind_of(schema, ids, scope, field):
    """The kind of a field in shapes.h; `ids` has the messages that have a shape of their own."""
    fixed = FIXED.get(field.type)
    if field.type in ("string", "bytes"):
        return PLAIN
    if field.type not in VARINT and not fixed:
        full = resolve(schema, scope, field.type)
        if not full:
            sys.exit(f"{field.place}: field {field.name} of {scope} has the type {field.type}, "
                     "which no .proto defines")
        if full in schema.messages:
            return ids.get(full, FLAT)
    if field.label != "repeated":
        return PLAIN
    return {None: PACKED_VARINT, 32: PACKED_32, 64: PACKED_64}[fixed]


def shapes(schema):
    fields = {name: [(name, field) for field in own] for name, own in schema.messages.items()}
    for target, groups in schema.extensions.items():
        fields[target] += [(scope.rstrip("."), field) for scope, group in groups for field in group]
    # The messages with a field that needs a check of its bytes: a message, or packed numbers.
    shaped = [name for name in fields
              if any(kind_of(schema, {}, scope, field) for scope, field in fields[name])]
    ids = {name: FIRST_SHAPE + i for i, name in enumerate(shaped)}
    lines = ["// Generated by gen_fields.py from the .proto files.", '#include "protos/shapes.h"',
             ""]
    for name in shaped:
        kinds = [(field.number, kind_of(schema, ids, scope, field))
                 for scope, field in fields[name]]
        cells = ", ".join(f"[{number}] = {kind}" for number, kind in sorted(kinds) if kind)
        lines.append(f"static const uint16_t kinds_of_{name.replace('.', '_')}[] = {{{cells}}};")
    lines += ["", "const struct message_shape message_shapes[] = {"]
    for name in shaped:
        array = "kinds_of_" + name.replace(".", "_")
        lines.append(f"    {{{array}, sizeof({array}) / sizeof({array}[0])}},")
    return [*lines, "};", "", f"const uint16_t packet_kind = {ids['TracePacket']};"]


def names(schema):
    """The messages that packets are made of, with the names of their fields and of the values of
    enums."""
    fields = {name: [(name, field.name, field) for field in own]
              for name, own in schema.messages.items()}
    for target, groups in schema.extensions.items():
        fields[target] += [(scope.rstrip("."), scope + field.name, field) for scope, group in groups
                           for field in group]
    messages, enums, waiting = {"TracePacket": 0}, {}, ["TracePacket"]
    tables = []
    while waiting:
        rows = []
        for scope, name, field in fields[waiting.pop(0)]:
            full, of = resolve(schema, scope, field.type), 0
            kind = field.type.upper() if field.type in VARINT | FIXED.keys() | {
                "string", "bytes"} else None
            if kind is None and full in schema.enums:
                kind, of = "ENUM", enums.setdefault(full, len(enums))
            elif kind is None:
                kind = "MESSAGE"
                if full not in messages:
                    messages[full] = len(messages)
                    waiting.append(full)
                of = messages[full]
            rows.append(f'{{"{name}", {field.number}, {of}, NAMED_{kind}}}')
        tables.append(sorted(rows, key=lambda row: row.split('"')[1]))
    lines = ["// Generated by gen_fields.py from the .proto files.", '#include "protos/names.h"',
             ""]
    for kind, all_rows in (("field", tables),
                           ("value", [sorted(f'{{"{name}", {number}}}'
                                             for name, number in schema.enums[full])
                                      for full in enums])):
        for i, rows in enumerate(all_rows):
            if rows:
                lines.append(
                    f"static const struct named_{kind} {kind}s_{i}[] = {{{', '.join(rows)}}};")
        of = {"field": "message", "value": "enum"}[kind]
        lines += ["", f"const struct named_{of} named_{of}s[] = {{"]
        called = list(messages if kind == "field" else enums)
        lines += [f'    {{"{called[i]}", {f"{kind}s_{i}" if rows else 0}, {len(rows)}}},'
                  for i, rows in enumerate(all_rows)]
        lines += ["};", ""]
    return lines


def constants(schema):
    for name, fields in schema.messages.items():
        c_name = name.replace(".", "_")
        yield from ((f"{c_name}_{field.name}", field.number) for field in fields)
    for groups in schema.extensions.values():
        for scope, fields in groups:
            yield from ((scope.replace(".", "_") + field.name, field.number) for field in fields)
    numbers = collections.defaultdict(set)
    for scope, name, number in schema.values:
        numbers[name].add(number)
    for scope, name, number in schema.values:
        yield name if len(numbers[name]) == 1 else scope.replace(".", "_") + name, number


def header(schema, prefix):
    seen = {}
    for name, value in constants(schema):
        if seen.setdefault(name, value) != value:
            sys.exit(f"{prefix}_{name} would be both {seen[name]} and {value}: name one of the two "
                     "otherwise")
    lines = ["// Generated by gen_fields.py from the .proto files: field numbers and enum values. "
             "END is after the last field.",
             "#pragma once", ""]
    numbers = {name: [field.number for field in fields] for name, fields in schema.messages.items()}
    for target, groups in schema.extensions.items():
        numbers[target] += [field.number for _, fields in groups for field in fields]
    ends = [(f"END_{name.replace('.', '_')}", max(found, default=0) + 1)
            for name, found in numbers.items()]
    return [*lines, *(f"#define {prefix}_{name} {value}" for name, value in [*seen.items(), *ends])]


def message_types(schema):
    lines = ["// Generated by gen_fields.py from the .proto files: messages by name and by number "
             "of their fields.",
             "#pragma once", "", '#include "common/wire.h"', ""]
    for name, fields in schema.messages.items():
        members, last = [], 0
        for field in sorted(fields, key=lambda field: field.number):
            if field.number >= EXTENSION_MIN:
                break
            if field.number > last + 1:
                members.append(f"gap_{last + 1}[{field.number - last - 1}]")
            members.append(field.name + "_" * (field.name in KEYWORDS))
            last = field.number
        lines.append(f"union message_{name.replace('.', '_')} {{")
        lines.append(f"    struct wire_field at[{last + 1}];")
        lines.append(f"    struct {{ struct wire_field {', '.join(['gap_0', *members])}; }};")
        lines.append("};")
    return lines


def write_file(path, lines):
    """Writes the file only if the content changes. Nearly everything depends on the file."""
    path, text = pathlib.Path(path), "\n".join(lines) + "\n"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def check_imports(parsers, root):
    for parser in parsers:
        for name in parser.imports:
            if root and not (root / name).exists() and not any(
                    str(p.path).endswith(name) for p in parsers):
                sys.exit(f"{parser.path}: imports {name}, which does not exist")


def check_packages(parsers):
    """protoc accepts a file without a package, and gives its messages other names."""
    for parser in parsers:
        if parser.package != PACKAGE:
            sys.exit(f"{parser.path}: add the line: package {PACKAGE};")


def check_numbers(schema):
    for name, fields in schema.messages.items():
        seen = {}
        for field in fields:
            first = seen.setdefault(field.number, field)
            if first is not field:
                sys.exit(f"{field.place}: {name}.{field.name} has the number {field.number}, which "
                         f"{first.name} has already: take a free one")


def check_types(parsers, schema):
    """Each file imports the files of the messages that its fields name."""
    imports = {str(parser.path): parser.imports for parser in parsers}
    homes = {full: str(parser.path) for parser in parsers for full in parser.defined}
    for name, fields in schema.messages.items():
        for field in fields:
            home = homes.get(resolve(schema, name, field.type))
            if home and home != str(field.place) and not any(
                    home.endswith(imported) for imported in imports[str(field.place)]):
                sys.exit(f"{field.place}: add the import of {home}, which defines {field.type}")


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--prefix", default="PB")
    options.add_argument("--messages")
    options.add_argument("--shapes")
    options.add_argument("--names")
    options.add_argument("--depfile")
    options.add_argument("header")
    options.add_argument("protos", nargs="+", type=pathlib.Path)
    options = options.parse_args()
    folders = [path for path in options.protos if path.is_dir()]
    files = [path for path in options.protos if not path.is_dir()]
    files += sorted(path for folder in folders for path in folder.glob("*.proto"))
    schema = Schema()
    parsers = [Parser(path, schema) for path in files]
    check_imports(parsers, folders[0].parent.parent if folders else None)
    check_numbers(schema)
    if folders:
        check_packages(parsers)
        check_types(parsers, schema)
    write_file(options.header, header(schema, options.prefix))
    if options.messages:
        write_file(options.messages, message_types(schema))
    if options.shapes:
        write_file(options.shapes, shapes(schema))
    if options.names:
        write_file(options.names, names(schema))
    if options.depfile:
        paths = " ".join(str(path).replace(" ", "\\ ") for path in folders + files)
        pathlib.Path(options.depfile).write_text(f"{options.header}: {paths}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
