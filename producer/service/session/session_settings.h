// SPDX-License-Identifier: Apache-2.0
//
// The meaning of a TraceConfig for its session, with defaults and limits applied: times as nsec_t,
// both spellings of compression as one flag.
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
    nsec_t trigger_timeout;       // for the modes with triggers
    bool duration_counts_suspend; // these times include suspend
    bool write_into_file;
    nsec_t write_period; // for write_into_file
    bool flush_on_write; // sources are flushed before each write
    nsec_t flush_period;
    nsec_t clear_period;
    nsec_t snapshot_period;  // of clock snapshots, synchronization markers and statistics
    uint64_t max_file_bytes; // 0: no limit
    bool deflate;
    bool sync_after_write;      // sync at each write-out
    int64_t uuid_msb, uuid_lsb; // from the config, or random
    uint32_t primary_clock;     // BuiltinClock
    bool clock_snapshots, trace_config, system_info, service_events;
};

// Reads the settings. Returns 0, or -EOPNOTSUPP with text if mmtrace does not support a setting.
int session_settings_read(const Pb__TraceConfig *config, struct session_settings *ret,
                          struct err *err);

// Makes a new UUID, except for `lsb`, the half that identifies the original session.
void session_settings_renew_uuid(struct session_settings *settings, int64_t lsb);
