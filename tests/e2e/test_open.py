# SPDX-License-Identifier: Apache-2.0
"""mmsql open: the Perfetto UI gets the file, once, and nobody else gets anything."""
import contextlib
import http.client
import pathlib
import re
import shutil
import socket
import sqlite3
import tempfile
import time
import unittest

import lib

TRACE = lib.ROOT / "tests" / "golden" / "mm_pressure.pftrace"
UI = "https://ui.perfetto.dev"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Open(unittest.TestCase):
    def setUp(self):
        self.port = free_port()
        self.server = lib.Popen([lib.MMSQL, "open", "--port", str(self.port), TRACE],
                                stdout=-1, stderr=-1, text=True)
        self.addCleanup(self.end)
        link = self.server.stdout.readline().strip()
        found = re.fullmatch(re.escape(f"{UI}/#!/?url=http://127.0.0.1:{self.port}")
                             + "(/[0-9a-f]{32}/trace)", link)
        self.assertTrue(found, link)
        self.path = found[1]

    def end(self):
        self.server.kill()
        self.server.wait()
        self.server.stdout.close()
        self.server.stderr.close()

    def ask(self, method="GET", path=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"Origin": UI, **headers}
        connection.request(method, path or self.path,
                           headers={k: v for k, v in headers.items() if v})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer, body

    def test_the_ui_fetches_the_file_once(self):
        answer, body = self.ask("OPTIONS")
        self.assertEqual(answer.status, 204)
        self.assertEqual(answer.headers["Access-Control-Allow-Private-Network"], "true")
        answer, body = self.ask("HEAD")
        self.assertEqual((answer.status, body), (200, b""))
        self.assertIsNone(self.server.poll())
        answer, body = self.ask()
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.headers["Access-Control-Allow-Origin"], UI)
        self.assertEqual(body, TRACE.read_bytes())
        self.assertEqual(self.server.wait(60), 0)

    def test_others_get_nothing(self):
        for status, arguments in (
                (403, {"Origin": None}), (403, {"Origin": "https://example.com"}),
                (403, {"Origin": UI + ".example.com"}), (403, {"Host": "example.com:9001"}),
                (404, {"path": "/"}), (404, {"path": "/trace"}),
                (404, {"path": self.path + "/../x"}), (405, {"method": "POST"}),
                (405, {"method": "DELETE"})):
            with self.subTest(arguments):
                answer, body = self.ask(**arguments)
                self.assertEqual((answer.status, body), (status, b""))
                self.assertIsNone(answer.headers["Access-Control-Allow-Origin"])
        for text in (b"", b"GET\r\n\r\n", b"\0\r\n\r\n", b"A" * 20000):
            # The server may hang up before all is sent.
            with (socket.create_connection(("127.0.0.1", self.port), timeout=60) as client,
                  contextlib.suppress(OSError)):
                client.sendall(text)
                client.shutdown(socket.SHUT_WR)
                self.assertNotIn(b"200", client.recv(1000))
        self.assertIsNone(self.server.poll())
        self.assertEqual(self.ask()[0].status, 200)

    def test_silent_connections_keep_nobody_waiting(self):
        """Other users of the machine can connect and send nothing."""
        with contextlib.ExitStack() as stack:
            for _ in range(12):
                client = stack.enter_context(
                    socket.create_connection(("127.0.0.1", self.port), timeout=60))
                client.sendall(b"GET ")
            began = time.monotonic()
            self.assertEqual(self.ask()[0].status, 200)
            # Each connection has 5 s.
            self.assertLess(time.monotonic() - began, 30)

    def test_a_port_that_is_taken(self):
        done = lib.run(lib.MMSQL, "open", "--port", self.port, TRACE)
        self.assertEqual(done.returncode, 1)
        self.assertIn("another program has the port", done.stderr)


class OpenReport(unittest.TestCase):
    def test_the_browser_gets_the_report_once(self):
        port = free_port()
        server = lib.Popen([lib.MMSQL, "open", "--report", "--port", str(port), TRACE],
                           stdout=-1, stderr=-1, text=True)
        self.addCleanup(Open.end, self)
        self.server, self.port = server, port
        link = server.stdout.readline().strip()
        found = re.fullmatch(f"http://127.0.0.1:{port}(/[0-9a-f]{{32}}/report.html)", link)
        self.assertTrue(found, link)
        self.path = found[1]
        for headers in ({"Origin": UI}, {"Origin": "null"},
                        {"Origin": None, "Host": f"example.com:{port}"}):
            answer, body = Open.ask(self, **headers)
            self.assertEqual((answer.status, body), (403, b""), headers)
        self.assertEqual(Open.ask(self, path="/x/report.html", Origin=None)[0].status, 404)
        answer, body = Open.ask(self, Origin=None)
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.headers["Content-Type"], "text/html; charset=utf-8")
        self.assertIsNone(answer.headers["Access-Control-Allow-Origin"])
        self.assertTrue(body.startswith(b"<!DOCTYPE html>") or body.startswith(b"<!doctype html>"))
        self.assertTrue(body.rstrip().endswith(b"</html>"))
        self.assertEqual(server.wait(60), 0)

    def test_no_report(self):
        done = lib.run(lib.MMSQL, "open", "--report", "--port", free_port(), "/dev/null")
        self.assertEqual(done.returncode, 1)
        self.assertIn("there is no report", done.stderr)


class Kinds(unittest.TestCase):
    """A file that the UI cannot read is refused; the unit test ui_kinds has all kinds."""

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="open-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def test_what_the_ui_cannot_read(self):
        with contextlib.closing(sqlite3.connect(self.dir / "database")) as handle, handle:
            handle.execute("CREATE TABLE t(a)")
        (self.dir / "empty").touch()
        (self.dir / "letter").write_text("Dear reader,\nthis is a letter.\n")
        for name, said in (
                ("empty", "the file is empty (the recording or the copy of it failed: record "
                          "again)"),
                ("letter", "the Perfetto UI cannot read text of an unknown form (a trace, a "
                           "bugreport or an archive of traces is wanted)"),
                ("database", "the Perfetto UI cannot read a SQLite database ('mmsql report' and "
                             "'mmsql query' read a database that mmsql made)")):
            with self.subTest(name):
                path = self.dir / name
                done = lib.run(lib.MMSQL, "open", "--port", free_port(), path)
                self.assertEqual((done.returncode, done.stdout, done.stderr),
                                 (1, "", f"mmsql: {path}: {said}\n"))

    def test_a_file_of_an_unknown_kind_is_served(self):
        folded = self.dir / "stacks.folded"
        folded.write_text("main;work 12\nmain;idle 3\n")
        self.port = free_port()
        self.server = lib.Popen([lib.MMSQL, "open", "--port", str(self.port), folded],
                                stdout=-1, stderr=-1, text=True)
        self.addCleanup(Open.end, self)
        self.assertEqual(self.server.stderr.readline(), f"mmsql: {folded}: the Perfetto UI may not "
                         "know this file: text of an unknown form\n")
        self.path = self.server.stdout.readline().strip().split(f":{self.port}")[1]
        self.assertEqual(Open.ask(self)[1], folded.read_bytes())
        self.assertEqual(self.server.wait(60), 0)


class Usage(unittest.TestCase):
    def test_wrong_usage(self):
        for arguments, code in (([], 2), ([TRACE, TRACE], 2), (["--port", "0", TRACE], 2),
                                (["--port", "65536", TRACE], 2), (["/nonexistent"], 1),
                                (["/dev/null"], 1)):
            with self.subTest(arguments):
                done = lib.run(lib.MMSQL, "open", *arguments)
                self.assertEqual(done.returncode, code, done.stderr)


if __name__ == "__main__":
    unittest.main()
