// SPDX-License-Identifier: Apache-2.0
//
// What the recorder and mmheap-attach say to each other over a SOCK_SEQPACKET pair, which the
// helper has as descriptor 3: the recorder sends the ring's header, the helper answers once, with
// the ring's memfd beside it where all went well.
#pragma once

#include <stdint.h>

#define ATTACH_SOCKET_FD 3
#define ATTACH_TEXT_MAX  240

struct attach_answer {
    int32_t result;             // 0 or a negative errno; -EBUSY: somebody else profiles the process
    uint32_t stopped_us;        // how long the thread that was borrowed stood still
    char text[ATTACH_TEXT_MAX]; // why not; terminated
};
