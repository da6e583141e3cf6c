#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Do packets become the rows that they should?

usage: test_imports.py MMSQL PROTOC SOURCE_ROOT BUILD_ROOT [NAME ...]
       test_imports.py MMSQL PROTOC SOURCE_ROOT BUILD_ROOT --print NAME

imports/NAME.textproto is a trace in text form, made into bytes by protoc; the bytes of a line `#hex
...` follow after them, for damaged and unknown fields. imports/NAME.sql has questions about the
trace's database, imports/NAME.expected the answers: after each question its rows, values separated
by bars. --print shows the answers as they are now.
"""
import pathlib
import sqlite3
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def encode(protoc, source, build, path):
    text = path.read_bytes()
    schema = ["protos/trace/trace_packet.proto", "protos/trace/gpu_track_event.proto"]
    argv = [protoc, f"-I{source}", f"-I{build}", "--encode=perfetto.protos.Trace", *schema]
    more = b"".join(bytes.fromhex(line[5:].decode()) for line in text.splitlines()
                    if line.startswith(b"#hex "))
    done = subprocess.run(argv, input=text, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"{path}: protoc cannot encode it by protos/:\n{done.stderr.decode()}")
    return done.stdout + more


def answers(db, questions):
    for question in questions.split(";\n"):
        if not question.strip():
            continue
        yield question.strip() + ";"
        try:
            for row in db.execute(question):
                yield "|".join("" if value is None else str(value) for value in row)
        except sqlite3.Error as error:
            yield f"{type(error).__name__}: {error}"
        yield ""


def run(mmsql, protoc, source, build, name):
    with tempfile.TemporaryDirectory() as folder:
        trace, path = pathlib.Path(folder, "trace"), pathlib.Path(folder, "db")
        trace.write_bytes(encode(protoc, source, build, HERE / f"imports/{name}.textproto"))
        subprocess.run([mmsql, "convert", "-q", trace, "-o", path], check=True)
        db = sqlite3.connect(path)
        return "\n".join(answers(db, (HERE / f"imports/{name}.sql").read_text())).rstrip() + "\n"


def main():
    tools, names = sys.argv[1:5], sys.argv[5:]
    if names[:1] == ["--print"]:
        print(run(*tools, names[1]), end="")
        return
    failed = 0
    for name in names or sorted({path.stem for path in (HERE / "imports").iterdir()}):
        missing = [end for end in ("textproto", "sql", "expected")
                   if not (HERE / f"imports/{name}.{end}").exists()]
        if missing:
            failed += 1
            print(f"FAILED {name}\nadd "
                  + ", ".join(f"tests/golden/imports/{name}.{end}" for end in missing))
            continue
        want, got = (HERE / f"imports/{name}.expected").read_text(), run(*tools, name)
        if want == got:
            print(f"ok {name}")
            continue
        failed += 1
        print(f"FAILED {name}")
        want, got = want.splitlines(), got.splitlines()
        for n in range(max(len(want), len(got))):
            pair = want[n] if n < len(want) else "(nothing)", got[n] if n < len(
                got) else "(nothing)"
            if pair[0] != pair[1]:
                print(f"line {n + 1}\n  want {pair[0]}\n  got  {pair[1]}")
                break
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
