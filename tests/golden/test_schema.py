#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does protos/ have the messages and enums that tests/data/facts lists, with Perfetto's numbers?

usage: test_schema.py PROTOC SOURCE_ROOT BUILD_ROOT

protoc compiles the schema into a FileDescriptorSet, which is decoded here: the reading of an
independent compiler counts, not the text of the files.
"""
import collections
import csv
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
from protowire import each_field  # noqa: E402 (found by the line above)

PROTOC, SOURCE, BUILD = "", pathlib.Path(), pathlib.Path()

LABELS = {1: "optional", 2: "required", 3: "repeated"}
TYPES = {
    1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 7: "fixed32",
    8: "bool", 9: "string",
    12: "bytes", 13: "uint32", 15: "sfixed32", 16: "sfixed64", 17: "sint32", 18: "sint64",
}  # fmt: skip
TYPE_ENUM = 14
PREFIX = ".perfetto.protos."
# The range of our own fields in messages of Perfetto.
OWN_NUMBERS = range(3100, 3150)
# Messages that Perfetto does not have and that no field with one of these numbers leads to.
OWN = {"ActivateTriggersResponse", "ActivateTriggersResponse.Answer"}
# One of ftrace that is not called like the others.
FTRACE = {"KprobeEvent"}


def fields(data):
    """A message's fields as {number: [value, ...]}; submessages and strings as bytes."""
    result = collections.defaultdict(list)
    for number, value in each_field(data):
        result[number].append(value)
    return result


def type_name(field):
    if not field[6]:
        return TYPES[field[5][0]]
    kind = "enum " if field[5][0] == TYPE_ENUM else ""
    return kind + field[6][0].decode().removeprefix(PREFIX)


def label(message, field):
    if field[9]:
        oneof = fields(message[8][field[9][0]])
        return "oneof " + oneof[1][0].decode()
    packed = field[8] and fields(field[8][0])[2] == [1]
    return LABELS[field[4][0]] + (" packed" if packed else "")


class Schema:
    def __init__(self, descriptor_set):
        self.messages = {}  # name -> {field: (number, label, type)}
        self.enums = {}  # name -> {value: number}
        for file in fields(descriptor_set)[1]:
            content = fields(file)
            for message in content[4]:
                self.add_message("", fields(message))
            for enum in content[5]:
                self.add_enum("", fields(enum))

    def add_enum(self, outer, enum):
        name = outer + enum[1][0].decode()
        self.enums[name] = {}
        for raw in enum[2]:
            value = fields(raw)
            number = value[2][0] if value[2] else 0
            self.enums[name][value[1][0].decode()] = number - (1 << 64) if number >> 63 else number

    def add_message(self, outer, message):
        name = outer + message[1][0].decode()
        self.messages[name] = {}
        for raw in message[2]:
            field = fields(raw)
            self.messages[name][field[1][0].decode()] = (
                field[3][0], label(message, field), type_name(field))
        for nested in message[3]:
            self.add_message(name + ".", fields(nested))
        for enum in message[4]:
            self.add_enum(name + ".", fields(enum))


def load_schema():
    files = sorted(str(path.relative_to(SOURCE)) for path in SOURCE.glob("protos/*/*.proto"))
    files.append("protos/ftrace_event.proto")  # generated into BUILD
    with tempfile.NamedTemporaryFile() as output:
        subprocess.run(
            [PROTOC, f"-I{SOURCE}", f"-I{BUILD}", f"--descriptor_set_out={output.name}", *files],
            check=True
        )
        return Schema(pathlib.Path(output.name).read_bytes())


def facts(name):
    with open(SOURCE / "tests/data/facts" / name, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


class SchemaTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.schema = load_schema()

    def test_fields(self):
        """All fields but those whose message type the facts do not describe: this subset leaves
        them out."""
        rows = facts("perfetto-messages.csv")
        described = {row["message"] for row in rows} | set(TYPES.values())
        wrong = []
        for row in rows:
            if row["type"] not in described and not row["type"].startswith("enum "):
                continue
            want = (int(row["number"]), row["label"], row["type"])
            have = self.schema.messages.get(row["message"], {}).get(row["field"])
            if have != want:
                wrong.append(f"{row['message']}.{row['field']}: {want} wanted, {have} found")
        self.assertEqual(wrong, [])

    def test_enums(self):
        wrong = []
        for row in facts("perfetto-enums.csv"):
            have = self.schema.enums.get(row["enum"], {}).get(row["value"])
            if have != int(row["number"]):
                wrong.append(f"{row['enum']}.{row['value']}: {row['number']} wanted, {have} found")
        self.assertEqual(wrong, [])

    def test_every_message_is_of_perfetto_or_our_own(self):
        """Each message is in one of the lists, so none goes without a comparison."""
        listed = {row["message"] for row in facts("perfetto-messages.csv")}
        ftrace = {name for name in self.schema.messages
                  if name.partition(".")[0].endswith("FtraceEvent")}
        unknown = {name for name, fields in self.schema.messages.items()
                   if fields} - listed - ftrace - FTRACE - OWN - self.own_messages(listed)
        self.assertEqual(unknown, set(),
                         "a message of Perfetto: add its fields to "
                         "tests/data/facts/perfetto-messages.csv; our own: give the field that "
                         "leads to it a number from 3100 to 3149")

    def own_messages(self, listed):
        """The messages that our own fields of Perfetto's messages lead to."""
        own = set()
        waiting = [kind for name in listed & self.schema.messages.keys()
                   for number, _, kind in self.schema.messages[name].values()
                   if number in OWN_NUMBERS]
        while waiting:
            name = waiting.pop()
            if name in self.schema.messages and name not in own | listed:
                own.add(name)
                waiting += [kind for _, _, kind in self.schema.messages[name].values()]
        return own

    def test_own_numbers_stay_in_the_unallocated_range(self):
        """Fields that Perfetto does not have must not take numbers that it may give away."""
        known = {(row["message"], row["field"]) for row in facts("perfetto-messages.csv")}
        listed = {message for message, _ in known}
        wrong = [
            f"{message}.{field} = {number}"
            for message in listed & self.schema.messages.keys()
            for field, (number, _, _) in self.schema.messages[message].items()
            if (message, field) not in known and number not in OWN_NUMBERS
        ]
        self.assertEqual(wrong, [], "in protos/: take the next free number from 3100 to 3149")


if __name__ == "__main__":
    PROTOC, SOURCE, BUILD = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    unittest.main(argv=sys.argv[:1])
