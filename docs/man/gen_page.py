# SPDX-License-Identifier: Apache-2.0
"""Writes a manual page from the text that already explains its subject.

usage: gen_page.py library HEADER OUTPUT      the comments of a C header
       gen_page.py config PROTO... OUTPUT     mmtrace's own fields of trace configs
       gen_page.py tables MARKDOWN OUTPUT     the page of the database's tables
       gen_page.py java MARKDOWN OUTPUT       the page of the agent for Java virtual machines
       gen_page.py functions C_FILE OUTPUT    the SQL functions, from their descriptions
"""
import pathlib
import re
import sys

DATE = re.search(r"^\.Dd .*$", (pathlib.Path(__file__).parent / "mmtrace.1").read_text(), re.M)[0]
# Numbers of fields that mmtrace adds to Perfetto's messages.
OWN = range(3100, 3150)


def literal(text):
    """Text without a meaning for mdoc."""
    return re.sub(r"^(?=[.'])", r"\\&", text.replace("\\", r"\e"), flags=re.M)


def prose(text):
    """The lines of a paragraph of Markdown: one for each sentence."""
    text = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", " ".join(text.split()))
    text = re.sub(r"\*\*(.+?)\*\*", r"\1", text.replace("`", ""))
    return literal(re.sub(r"([.!?]\)?) ", r"\1\n", text)).splitlines()


def quoted(text):
    return '"' + literal(text).replace('"', r"\(dq") + '"'


def page(name, section, what, body, also):
    return "\n".join([
        r'.\" Made from other files of the source by gen_page.py.', DATE,
        f".Dt {name.upper()} {section}", ".Os", ".Sh NAME", f".Nm {name}", f".Nd {what}", *body,
        ".Sh SEE ALSO", " ,\n".join(f".Xr {page} {number}" for page, number in also), ""])


def paragraphs(text):
    """The lines of a text: paragraphs, examples (indented) and lists ("- ")."""
    lines = []
    for part in re.split(r"\n\s*\n", text.strip("\n")):
        if not part.strip():
            continue
        if lines and not lines[-1].startswith(".S"):
            lines.append(".Pp")
        if part.startswith("    "):
            code = [literal(line.removeprefix("    ")) for line in part.splitlines()]
            lines += [".Bd -literal", *code, ".Ed"]
        elif part.startswith("|"):
            lines.append(".Bl -tag -width 4n -compact")
            for row in part.splitlines():
                cells = [cell.strip() for cell in row.strip("|").split("|")]
                if any(re.sub("[-: ]", "", cell) for cell in cells):
                    lines += [f".It {quoted(cells[0].replace('`', ''))}", *prose(cells[1])]
            lines.append(".El")
        elif part.startswith("- "):
            lines.append(".Bl -bullet -compact")
            for item in re.split(r"\n?^- ", part, flags=re.M)[1:]:
                lines += [".It", *prose(item)]
            lines.append(".El")
        else:
            lines += prose(part)
    # A list and an example make room by themselves.
    return [line for line, after in zip(lines, [*lines[1:], ""])
            if not (line == ".Pp" and after.startswith((".Bd", ".Bl")))]


def library(header):
    """What stands above declarations."""
    text = header.read_text()
    head, *comments = re.findall(r"/\*(.*?)\*/\n(.*?)(?=\n\n|\Z)", text, re.S)
    def words(comment):
        return re.sub(r"^ \* ?", "", comment, flags=re.M).strip()
    summary, *more = re.split(r"\n\n", words(head[0]).replace(
        "SPDX-License-Identifier: Apache-2.0", "").strip("\n"), maxsplit=1)
    body = [".Sh SYNOPSIS", f".In {header.name}", ".Sh DESCRIPTION",
            *paragraphs(summary + "\n\n" + more[0]), ".Sh FUNCTIONS"]
    for comment, code in comments:
        code = re.sub(r"\s*\{.*", "", code, flags=re.S).replace("static inline ", "").strip()
        if code.startswith("struct mmheap") and "(" not in code:
            continue
        body += [".Bd -literal", *literal(code.rstrip(";") + ";").splitlines(), ".Ed", ".Pp",
                 *paragraphs(words(comment))]
    return page(header.stem, 3, "pools and arenas of a program in its heap profiles", body,
                [("mmtrace", 1)])


FIELD = re.compile(r"(?P<comment>(?:^ *//.*\n)*)^ *(?P<label>optional|repeated) "
                   r"(?P<type>[\w.]+) (?P<name>\w+) = (?P<number>\d+)", re.M)
VALUE = re.compile(r"(?P<comment>(?:^ *//.*\n)*)^ *(?P<name>[A-Z]\w+) = \d+;", re.M)


def comment_of(match):
    return prose(re.sub(r"^ *// ?", "", match["comment"], flags=re.M))


def message_of(text, field):
    """The message that a field belongs to, with the messages around it."""
    names = {}
    for message in re.finditer(r"^( *)message (\w+) {", text[:field.start("label")], re.M):
        names = {depth: name for depth, name in names.items() if depth < len(message[1])}
        names[len(message[1])] = message[2]
    depth = len(re.search(r" *$", text[:field.start("label")])[0])
    return ".".join(name for at, name in sorted(names.items()) if at < depth)


def own_messages(texts):
    """The messages of mmtrace's sources, which fields of DataSourceConfig lead to."""
    return {field["type"] for text in texts for field in FIELD.finditer(text)
            if int(field["number"]) in OWN and field["name"].endswith("_config")}


def head_of(proto, text):
    """The comment at the head of a file."""
    found = re.search(r"//\n((?:// .*\n)+)syntax", text)
    if not found:
        sys.exit(f"{proto}: say in a comment above `syntax`, after the licence and a line `//`, "
                 "which data source the config is of: the manual page mmtrace-config begins so")
    return prose(re.sub(r"// ?", "", found[1]))


def config(protos):
    """Messages of mmtrace whole, and its fields in others."""
    body = [".Sh DESCRIPTION", "A trace config of mmtrace is Perfetto's TraceConfig, as text or "
            "binary.", "This page has the fields that mmtrace adds.",
            "Perfetto's tools ignore these fields."]
    texts = {proto: proto.read_text() for proto in protos}
    own = own_messages(texts.values())
    for proto, text in texts.items():
        is_own = not own.isdisjoint(re.findall(r"^message (\w+) {", text, re.M))
        fields = [field for field in FIELD.finditer(text)
                  if is_own or int(field["number"]) in OWN and "_config" not in field["name"]]
        if not fields:
            continue
        heading = message_of(text, fields[0])
        body.append(f".Sh {heading.upper()}")
        if is_own:
            body += head_of(proto, text)
        body.append(".Bl -tag -width 4n")
        for field in fields:
            if message_of(text, field) != heading:
                heading = message_of(text, field)
                body += [".El", f".Sh {heading.upper()}", ".Bl -tag -width 4n"]
            many = " , any number" if field["label"] == "repeated" else ""
            body.append(f".It Va {field['name']} Pq {field['type']}{many}")
            body += comment_of(field)
            values = re.search(rf"enum {re.escape(field['type'])} {{(.*?)\n    }}", text, re.S)
            if values:
                body.append(".Bl -tag -width 4n -compact")
                for value in VALUE.finditer(values[1]):
                    body += [f".It {value['name']}", *comment_of(value)]
                body.append(".El")
        body.append(".El")
    return page("mmtrace-config", 5, "fields that mmtrace adds to trace configs", body,
                [("mmsql", 1), ("mmtrace", 1)])


def sections(markdown):
    """The lines of a page, with its headings as sections."""
    _, rest = markdown.read_text().split("\n\n", 1)
    body = [".Sh DESCRIPTION"]
    for part in re.split(r"^(?=##+ )", rest, flags=re.M):
        heading = re.match(r"(##+) (.*)\n", part)
        if heading:
            macro = ".Sh" if heading[1] == "##" else ".Ss"
            body.append(f"{macro} {quoted(heading[2].upper() if macro == '.Sh' else heading[2])}")
            part = part[heading.end():]
        body += paragraphs(part)
    return body


def tables(markdown):
    body = sections(markdown)
    return page("mmsql-tables", 5, "tables, views and columns of mmsql's databases", body,
                [("mmsql", 1), ("sqlite3", 1)])


def java(markdown):
    return page("libtiallocsample", 3, "agent that samples allocations in Java virtual machines",
                sections(markdown), [("mmsql", 1), ("mmtrace", 1)])


def functions(source):
    """The calls and descriptions of `function_docs`."""
    rows = re.search(r"function_docs\[\] = \{\n(.*?)^\};", source.read_text(), re.M | re.S)[1]
    text = r'((?:"(?:[^"\\]|\\.)*"\s*)+)'
    found = [["".join(re.findall(r'"((?:[^"\\]|\\.)*)"', part)).replace('\\"', '"')
              for part in row] for row in re.findall(rf"\{{{text},\s*{text}\}}", rows)]
    body = [".Sh SYNOPSIS", ".Dl .load LIBDIR/mmtrace/mmsql_functions", ".Sh DESCRIPTION",
            *prose("The extension has the SQL functions of Perfetto's trace processor that SQLite "
                   "lacks. `mmsql query` has these functions built in."),
            ".Bl -tag -width 4n"]
    for call, says in found:
        body += [f".It {quoted(call)}", *prose(says)]
    return page("mmsql_functions", 3, "SQL functions for other programs that use SQLite",
                [*body, ".El"], [("mmsql", 1), ("sqlite3", 1)])


def main():
    kind, *inputs, output = sys.argv[1:]
    paths = [pathlib.Path(path) for path in inputs]
    text = {"library": lambda: library(paths[0]), "config": lambda: config(paths),
            "tables": lambda: tables(paths[0]), "java": lambda: java(paths[0]),
            "functions": lambda: functions(paths[0])}[kind]()
    pathlib.Path(output).write_text(text)


if __name__ == "__main__":
    main()
