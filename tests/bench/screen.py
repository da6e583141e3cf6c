# SPDX-License-Identifier: Apache-2.0
"""The time from a command to the picture of its window, below an X server without a monitor (Xvfb).

The server keeps the screen in a file (-fbdir), so a look at the screen takes no other program.
"""
import hashlib
import mmap
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import time
import zlib

SIZE = (1280, 800)
STILL_S = 3  # a picture that stays the same for so long is the last one


class Screen:
    """An X server of its own; use it in a `with`."""

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="screen-"))
        readable, writable = os.pipe()
        self.server = subprocess.Popen(
            ["Xvfb", "-displayfd", str(writable), "-screen", "0", f"{SIZE[0]}x{SIZE[1]}x24",
             "-nolisten", "tcp", "-fbdir", self.folder], pass_fds=[writable],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(writable)
        with open(readable, encoding="ascii") as answer:
            self.display = ":" + answer.readline().strip()
        with open(self.folder / "Xvfb_screen0", "rb") as file:
            self.pixels = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        return self

    def __exit__(self, *_):
        self.pixels.close()
        self.server.terminate()
        self.server.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, command):
        """A program with this screen, and with settings of its own."""
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        env = {**os.environ, "DISPLAY": self.display, "QT_QPA_PLATFORM": "xcb", "HOME": str(home),
               "XDG_CONFIG_HOME": str(home), "XDG_RUNTIME_DIR": str(home), "LIBGL_ALWAYS_SOFTWARE":
               "1"}
        return subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def look(self):
        return hashlib.blake2b(self.pixels, digest_size=8).digest()

    def time(self, command, limit_s=120):
        """(seconds until the first picture, seconds until the last one, program). The caller ends
        the program."""
        blank = shown = self.look()
        begin = time.monotonic()
        program = self.start(command)
        first = last = None
        while time.monotonic() - begin < limit_s:
            time.sleep(0.02)
            now = self.look()
            at = time.monotonic() - begin
            if now != shown:
                shown, last = now, at
                first = first or at
            elif last and shown != blank and at - last > STILL_S:
                return first, last, program
            elif program.poll() is not None:
                break
        program.kill()
        program.wait()
        raise TimeoutError(f"{command[0]}: no picture that stays the same in {limit_s} s")

    def picture(self, path):
        """Writes the screen as a PNG."""
        head = struct.unpack(">25I", self.pixels[:100])
        begin, width, height, row = head[0] + 12 * head[19], head[4], head[5], head[12]
        lines = bytearray()
        for y in range(height):
            line = self.pixels[begin + y * row:begin + y * row + 4 * width]
            rgb = bytearray(3 * width)
            rgb[0::3], rgb[1::3], rgb[2::3] = line[2::4], line[1::4], line[0::4]
            lines += b"\0" + rgb

        def chunk(kind, data):
            return (struct.pack(">I", len(data)) + kind + data
                    + struct.pack(">I", zlib.crc32(kind + data)))
        size = struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)
        pathlib.Path(path).write_bytes(
            b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size)
            + chunk(b"IDAT", zlib.compress(bytes(lines))) + chunk(b"IEND", b""))
