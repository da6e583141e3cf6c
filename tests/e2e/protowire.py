# SPDX-License-Identifier: Apache-2.0
"""Protobuf on the wire, and the frames of Perfetto's sockets, as far as tests write and read them by hand."""
import struct


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def frame(body):
    return struct.pack("<I", len(body)) + body


def bind(service=b"ConsumerPort"):
    return frame(field(2, 1) + field(3, field(1, service)))


def invoke(request_id, method, args=b""):
    return frame(field(2, request_id) + field(5, field(1, 1) + field(2, method) + field(3, args)))


def fields(data):
    """A message's fields: number -> the last value."""
    found, at = {}, 0

    def number():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = number()
        value = number()
        if tag & 7 == 2:
            value, at = data[at:at + value], at + value
        found[tag >> 3] = value
    return found
