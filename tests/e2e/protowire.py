# SPDX-License-Identifier: Apache-2.0
"""Protobuf on the wire, and the frames of Perfetto's sockets, as far as tests write and read them
by hand."""
import struct


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def read_varint(data, at):
    """The number that begins at data[at], and the index of the byte after it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def field(number, value):
    """A field of a message: a number as a varint; bytes (a text, a message) with their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def frame(body):
    return struct.pack("<I", len(body)) + body


def bind(service=b"ConsumerPort"):
    return frame(field(2, 1) + field(3, field(1, service)))


def invoke(request_id, method, args=b""):
    return frame(field(2, request_id) + field(5, field(1, 1) + field(2, method) + field(3, args)))


def each_field(data):
    """The fields of a message in their order: (number, value). Raises ValueError for a wire type of
    a fixed size."""
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        if tag & 7 not in (0, 2):
            raise ValueError(f"field {tag >> 3} has wire type {tag & 7}")
        value, at = read_varint(data, at)
        if tag & 7 == 2:
            value, at = data[at:at + value], at + value
        yield tag >> 3, value


def fields(data):
    """A message's fields: number -> the last value."""
    return dict(each_field(data))
