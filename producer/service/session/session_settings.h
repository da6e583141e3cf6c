// SPDX-License-Identifier: Apache-2.0
//
// What a TraceConfig means for its session, with defaults filled in and limits applied: times as
// nsec_t, both spellings of compression as one flag.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/nsec.h"
#include "protos/config/trace_config.pb-c.h"

enum session_mode {
    SESSION_MODE_PLAIN, // no triggers
    SESSION_MODE_START,
    SESSION_MODE_STOP,
    SESSION_MODE_CLONE,
};

// Periods and durations of 0 mean "never".
struct session_settings {
    nsec_t duration;
    enum session_mode mode;
    nsec_t trigger_timeout;       // of the modes with triggers
    bool duration_counts_suspend; // time that the machine sleeps is part of all of these
    bool write_into_file;
    nsec_t write_period; // of write_into_file
    bool flush_on_write; // sources are flushed before each of these
    nsec_t flush_period;
    nsec_t clear_period;
    nsec_t snapshot_period;  // of clock snapshots, synchronization markers and statistics
    uint64_t max_file_bytes; // 0: no limit
    bool deflate;
    bool sync_after_write;      // the file is synced at each write-out
    int64_t uuid_msb, uuid_lsb; // from the config, or random
    uint32_t primary_clock;     // BuiltinClock
    bool clock_snapshots, trace_config, system_info, service_events;
};

// -EOPNOTSUPP with text: the config wants what mmtrace does not do.
int session_settings_read(const Pb__TraceConfig *config, struct session_settings *ret,
                          struct err *err);

// A UUID of its own, but for the half that tells which session it comes from.
void session_settings_renew_uuid(struct session_settings *settings, int64_t lsb);
