// SPDX-License-Identifier: Apache-2.0
//
// Inflation of compressed packets.
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "common/wire.h"
#include "converter/ground/spill.h"

// Inflates `packets`, a TracePacket's compressed_packets or zstd_compressed_packets, and appends
// the bytes to `to`. Returns 0 or a negative errno: -EBADMSG if the data is damaged or has more
// than `max` bytes (the bytes before the damage are appended, and at most 64 KiB more than `max`);
// -EOPNOTSUPP if this build has no zstd; -ENOMEM; the errors of spill_append().
int packets_inflate(const struct wire_field *packets, uint64_t max, struct spill *to,
                    struct err *err);
