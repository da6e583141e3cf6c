// SPDX-License-Identifier: Apache-2.0
//
// The messages between the recorder and mmheap-attach, over a SOCK_SEQPACKET pair that the helper
// has as descriptor 3. The recorder sends the ring's header. The helper answers once. On success
// the answer carries the ring's memfd.
#pragma once

#include <stdint.h>

#define ATTACH_SOCKET_FD 3
#define ATTACH_TEXT_MAX  240

struct attach_answer {
    int32_t result;      // 0 or a negative errno; -EBUSY: another recorder profiles the process
    uint32_t stopped_us; // microseconds for which the borrowed thread stood still
    char text[ATTACH_TEXT_MAX]; // the reason of a failure; terminated
};
