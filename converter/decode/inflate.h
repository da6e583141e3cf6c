// SPDX-License-Identifier: Apache-2.0
//
// Packets that were compressed together.
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "common/wire.h"
#include "converter/ground/spill.h"

// Appends what `packets` holds, a TracePacket's compressed_packets or zstd_compressed_packets, to
// `to`. -EBADMSG: it is damaged, or holds more than `max` bytes; what came before that (one piece
// of 64 KiB more at most) is there. -EOPNOTSUPP: this build has no zstd. Other errors are those of
// `to`, or of memory.
int packets_inflate(const struct wire_field *packets, uint64_t max, struct spill *to,
                    struct err *err);
