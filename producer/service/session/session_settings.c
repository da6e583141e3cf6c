// SPDX-License-Identifier: Apache-2.0
//
// STOP_TRACING without any trigger only limits the recording, so the timeout becomes a duration.
//
// The rules are Perfetto's. A file is written every 5 s, and never more often than every 100 ms.
// Unless write_flush_mode says otherwise, sources are flushed every 5 s if writes are at least as
// frequent, and before each write if writes are rarer. An explicit flush_period_ms has priority.
#include "producer/service/session/session_settings.h"

#include <errno.h>
#include <sys/random.h>

#include "producer/service/config/config.h"
#include "protos/fields.h"

#define FLUSH_PERIOD_DEFAULT    (5 * NSEC_PER_SEC)
#define SNAPSHOT_PERIOD_DEFAULT (10 * NSEC_PER_SEC)

static nsec_t from_ms(uint64_t ms)
{
    return (nsec_t)ms * NSEC_PER_MSEC;
}

static void read_flush_mode(const Pb__TraceConfig *config, struct session_settings *settings)
{
    settings->flush_period = from_ms(config->flush_period_ms);
    if (!settings->write_into_file)
        return;
    switch (config->write_flush_mode) {
    case PB__TRACE_CONFIG__WRITE_FLUSH_MODE__WRITE_FLUSH_DISABLED:
        break;
    case PB__TRACE_CONFIG__WRITE_FLUSH_MODE__WRITE_FLUSH_ENABLED:
        settings->flush_on_write = true;
        break;
    default:
        if (settings->flush_period > 0)
            break;
        if (settings->write_period <= FLUSH_PERIOD_DEFAULT)
            settings->flush_period = FLUSH_PERIOD_DEFAULT;
        else
            settings->flush_on_write = true;
    }
}

static void read_mode(const Pb__TraceConfig *config, struct session_settings *settings)
{
    const Pb__TraceConfig__TriggerConfig *triggers = config->trigger_config;
    if (!triggers)
        return;
    switch (triggers->trigger_mode) {
    case PB__TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER_MODE__START_TRACING:
        settings->mode = SESSION_MODE_START;
        break;
    case PB__TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER_MODE__STOP_TRACING:
        settings->mode =
            triggers->use_clone_snapshot_if_available ? SESSION_MODE_CLONE : SESSION_MODE_STOP;
        break;
    case PB__TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER_MODE__CLONE_SNAPSHOT:
        settings->mode = SESSION_MODE_CLONE;
        break;
    default:
        return;
    }
    settings->trigger_timeout = from_ms(triggers->trigger_timeout_ms);
    if (triggers->n_triggers == 0 && settings->mode == SESSION_MODE_STOP) {
        settings->mode = SESSION_MODE_PLAIN;
        settings->duration = settings->trigger_timeout;
    }
}

static int read_compression(const Pb__TraceConfig *config, struct session_settings *settings,
                            struct err *err)
{
    if (config->compression && config->compression->zstd) {
        err_set(err, -EOPNOTSUPP, "compression: zstd is not supported");
        return err_hint(err, -EOPNOTSUPP, "use compression { deflate {} }");
    }
    settings->deflate =
        config->compression_type == PB__TRACE_CONFIG__COMPRESSION_TYPE__COMPRESSION_TYPE_DEFLATE ||
        (config->compression && config->compression->deflate);
    return 0;
}

// Makes a random UUID by RFC 9562: version 4, variant 10.
static void make_uuid(struct session_settings *settings)
{
    int64_t random[2];
    if (getrandom(random, sizeof(random), GRND_NONBLOCK) != (ssize_t)sizeof(random)) {
        random[0] = nsec_now(CLOCK_REALTIME);
        random[1] = nsec_now(CLOCK_MONOTONIC_RAW);
    }
    settings->uuid_msb = (int64_t)(((uint64_t)random[0] & ~UINT64_C(0xf000)) | 0x4000);
    settings->uuid_lsb =
        (int64_t)(((uint64_t)random[1] & ~(UINT64_C(3) << 62)) | (UINT64_C(2) << 62));
}

static void read_uuid(const Pb__TraceConfig *config, struct session_settings *settings)
{
    settings->uuid_msb = config->trace_uuid_msb;
    settings->uuid_lsb = config->trace_uuid_lsb;
    if (!settings->uuid_msb && !settings->uuid_lsb)
        make_uuid(settings);
}

void session_settings_renew_uuid(struct session_settings *settings, int64_t lsb)
{
    make_uuid(settings);
    settings->uuid_lsb = lsb;
}

int session_settings_read(const Pb__TraceConfig *config, struct session_settings *ret,
                          struct err *err)
{
    static const Pb__TraceConfig__BuiltinDataSource defaults =
        PB__TRACE_CONFIG__BUILTIN_DATA_SOURCE__INIT;
    const Pb__TraceConfig__BuiltinDataSource *builtin =
        config->builtin_data_sources ? config->builtin_data_sources : &defaults;
    struct session_settings settings = {
        .duration = from_ms(config->duration_ms),
        .duration_counts_suspend = config->prefer_suspend_clock_for_duration,
        .write_into_file = config->write_into_file,
        .write_period = from_ms(config_file_write_period_ms(config)),
        .clear_period = config->incremental_state_config
                            ? from_ms(config->incremental_state_config->clear_period_ms)
                            : 0,
        .snapshot_period = from_ms(builtin->snapshot_interval_ms),
        .max_file_bytes = config->max_file_size_bytes,
        .sync_after_write =
            config->fflush_post_write == PB__TRACE_CONFIG__FFLUSH_MODE__FFLUSH_ENABLED,
        .primary_clock = builtin->primary_trace_clock ? (uint32_t)builtin->primary_trace_clock
                                                      : PB_BUILTIN_CLOCK_BOOTTIME,
        .clock_snapshots = !builtin->disable_clock_snapshotting,
        .trace_config = !builtin->disable_trace_config,
        .system_info = !builtin->disable_system_info,
        .service_events = !builtin->disable_service_events,
    };
    if (settings.snapshot_period == 0)
        settings.snapshot_period = SNAPSHOT_PERIOD_DEFAULT;
    read_flush_mode(config, &settings);
    read_mode(config, &settings);
    read_uuid(config, &settings);
    int r = read_compression(config, &settings, err);
    if (r < 0)
        return r;
    *ret = settings;
    return 0;
}
