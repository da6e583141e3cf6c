// SPDX-License-Identifier: Apache-2.0
//
// A trace has no magic number. Each packet follows the tag of Trace.packet (0x0a, a newline) and
// its size. A packet whose size leads to another tag is good evidence.
#include "converter/input/recognise.h"

#define TAG_PACKET     0x0a
#define VARINT_BYTES   10
#define TAG_BYTE_MIN   0x08 // field 1, varint
#define WIRE_TYPE_MASK 7
#define WIRE_TYPE_MAX  5

bool trace_recognise(const uint8_t *bytes, size_t size)
{
    if (size < 2 || bytes[0] != TAG_PACKET)
        return false;
    uint64_t length = 0;
    size_t at = 1;
    for (unsigned shift = 0;; shift += 7) {
        if (at == size || at > VARINT_BYTES)
            return false;
        length |= (uint64_t)(bytes[at] & 0x7f) << (shift < 64 ? shift : 63);
        if (!(bytes[at++] & 0x80))
            break;
    }
    if (length && at < size &&
        (bytes[at] < TAG_BYTE_MIN || (bytes[at] & WIRE_TYPE_MASK) > WIRE_TYPE_MAX))
        return false;
    return length >= size - at || bytes[at + length] == TAG_PACKET;
}
