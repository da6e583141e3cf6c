// SPDX-License-Identifier: Apache-2.0
//
// Everything here (except the config) is small and bounded: pending snapshots and events are in
// fixed arrays. A session that is never read keeps the first and the newest snapshots, and prefers
// unique events to the events of periodic flushes.
//
// The synchronization marker must have exactly the bytes that other readers search for: uid,
// sequence id, then the marker as the last field.
#include "producer/service/service_packets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "common/elements.h"
#include "common/memory.h"
#include "protos/fields.h"

// Maximum bytes of a packet, without the fields of every packet (OWN_ROOM).
#define OWN_ROOM         64
#define ROOM             64
#define SNAPSHOT_ROOM    (32 + 24 * CLOCK_SET_MAX)
#define TRIGGER_ROOM     128 // without its names
#define NAMES_ROOM       512
#define SYSTEM_INFO_ROOM (512 + sizeof(struct utsname))
#define N_SMALL_PACKETS  3 // synchronization, config without its bytes, uuid

#ifndef MMTRACE_VERSION
#define MMTRACE_VERSION "0"
#endif

static const uint8_t sync_marker[16] = {0x82, 0x47, 0x7a, 0x76, 0xb2, 0x8d, 0x42, 0xba,
                                        0x81, 0xdc, 0x33, 0x32, 0x6d, 0x57, 0xa0, 0x79};

bool packet_list_peek(const struct packet_list *list, struct packet_view *ret)
{
    uint32_t size;
    if (list->read + sizeof(size) > list->bytes.n)
        return false;
    memcpy(&size, list->bytes.items + list->read, sizeof(size));
    *ret = (struct packet_view){
        .data = list->bytes.items + list->read + sizeof(size),
        .size = size,
        .sequence_id = SERVICE_SEQUENCE_ID,
    };
    return true;
}

void packet_list_advance(struct packet_list *list)
{
    struct packet_view view;
    if (packet_list_peek(list, &view))
        list->read += sizeof(uint32_t) + view.size;
}

void packet_list_clear(struct packet_list *list)
{
    byte_vec_clear(&list->bytes);
    list->read = 0;
}

void packet_list_done(struct packet_list *list)
{
    byte_vec_done(&list->bytes);
    *list = (struct packet_list){0};
}

static size_t stats_room(size_t n_buffers)
{
    return 256 + 160 * n_buffers;
}

// Opens a packet of at most `room` bytes at the end of the list. If memory ran out, the writer has
// no room, and list_end() drops the packet.
static struct wire_writer list_begin(struct packet_list *list, size_t room)
{
    size_t all = list->bytes.n + sizeof(uint32_t) + room + OWN_ROOM;
    if (byte_vec_reserve(&list->bytes, all) < 0)
        return wire_writer_over(NULL, 0);
    struct wire_writer w =
        wire_writer_over(list->bytes.items + list->bytes.n + sizeof(uint32_t), room + OWN_ROOM);
    wire_uint(&w, PB_TracePacket_trusted_uid, geteuid());
    wire_uint(&w, PB_TracePacket_trusted_packet_sequence_id, SERVICE_SEQUENCE_ID);
    return w;
}

static void list_end(struct packet_list *list, const struct wire_writer *w)
{
    if (w->overflow)
        return;
    uint32_t size = (uint32_t)wire_size(w);
    memcpy(list->bytes.items + list->bytes.n, &size, sizeof(size));
    list->bytes.n += sizeof(size) + size;
}

int service_packets_reserve(const struct service_packets *packets, size_t n_buffers,
                            struct packet_list *list)
{
    static const struct {
        size_t n, room;
    } kinds[] = {
        {SERVICE_SNAPSHOTS_MAX, SNAPSHOT_ROOM},
        {SERVICE_TRIGGERS_MAX + 1, TRIGGER_ROOM + NAMES_ROOM},
        {2 * SERVICE_EVENTS_MAX, ROOM},
        {1, SYSTEM_INFO_ROOM},
        {N_SMALL_PACKETS, ROOM},
    };
    size_t each = sizeof(uint32_t) + OWN_ROOM;
    size_t all = packets->config_size + stats_room(n_buffers) + each;
    for (size_t i = 0; i < ELEMENTS(kinds); i++)
        all += kinds[i].n * (kinds[i].room + each);
    return byte_vec_reserve(&list->bytes, all);
}

void service_packets_init(struct service_packets *packets, const struct clock_reader *clock,
                          const struct session_settings *settings, const uint8_t *config,
                          size_t config_size)
{
    *packets = (struct service_packets){
        .clock = clock,
        .settings = settings,
        .config = config,
        .config_size = config_size,
        .sync_due = true,
    };
}

void service_packets_snapshot(struct service_packets *packets)
{
    if (packets->twin)
        service_packets_snapshot(packets->twin);
    if (!packets->settings->clock_snapshots)
        return;
    struct clock_set now;
    clock_set_read(packets->clock, &now);
    if (packets->n_snapshots > 0 &&
        !clock_set_drifted(&packets->snapshots[packets->n_snapshots - 1], &now))
        return;
    if (packets->n_snapshots == SERVICE_SNAPSHOTS_MAX) {
        memmove(&packets->snapshots[1], &packets->snapshots[2],
                (SERVICE_SNAPSHOTS_MAX - 2) * sizeof(packets->snapshots[0]));
        packets->n_snapshots--;
    }
    packets->snapshots[packets->n_snapshots++] = now;
}

static bool is_periodic(uint32_t field)
{
    return field == PB_TracingServiceEvent_flush_started ||
           field == PB_TracingServiceEvent_all_data_sources_flushed;
}

void service_packets_event(struct service_packets *packets, uint32_t field)
{
    service_packets_event_at(packets, field, 1, clock_read(packets->clock, CLOCK_BOOTTIME));
}

void service_packets_event_at(struct service_packets *packets, uint32_t field, uint32_t value,
                              nsec_t time)
{
    if (packets->twin)
        service_packets_event_at(packets->twin, field, value, time);
    if (!packets->settings->service_events)
        return;
    if (packets->n_events == SERVICE_EVENTS_MAX) {
        size_t victim = 0;
        while (victim < packets->n_events - 1 && !is_periodic(packets->events[victim].field))
            victim++;
        memmove(&packets->events[victim], &packets->events[victim + 1],
                (packets->n_events - victim - 1) * sizeof(packets->events[0]));
        packets->n_events--;
    }
    packets->events[packets->n_events++] = (struct lifecycle_event){
        .field = field,
        .value = value,
        .time = time,
    };
}

static char *text_copy(const char *text)
{
    size_t size = strlen(text) + 1;
    char *ret = memory_malloc(size);
    return ret ? memcpy(ret, text, size) : NULL;
}

int trigger_hit_copy(const struct service_trigger_hit *hit, struct service_trigger_hit *ret)
{
    struct service_trigger_hit copy = *hit;
    copy.name = text_copy(hit->name);
    copy.producer_name = text_copy(hit->producer_name ? hit->producer_name : "");
    if (!copy.name || !copy.producer_name) {
        trigger_hit_done(&copy);
        return -ENOMEM;
    }
    *ret = copy;
    return 0;
}

void trigger_hit_done(struct service_trigger_hit *hit)
{
    free((char *)hit->name);
    free((char *)hit->producer_name);
    *hit = (struct service_trigger_hit){0};
}

// A trigger often comes when memory is short.
static int spare_copy(struct service_packets *packets, const struct service_trigger_hit *hit,
                      struct service_trigger_hit *ret)
{
    if (packets->spare_used)
        return -ENOMEM;
    snprintf(packets->spare_name, sizeof(packets->spare_name), "%s", hit->name);
    snprintf(packets->spare_producer, sizeof(packets->spare_producer), "%s",
             hit->producer_name ? hit->producer_name : "");
    *ret = *hit;
    ret->name = packets->spare_name;
    ret->producer_name = packets->spare_producer;
    packets->spare_used = true;
    return 0;
}

static void pending_done(struct service_packets *packets, struct service_trigger_hit *hit)
{
    if (hit->name != packets->spare_name) {
        trigger_hit_done(hit);
        return;
    }
    packets->spare_used = false;
    *hit = (struct service_trigger_hit){0};
}

int service_packets_trigger(struct service_packets *packets, const struct service_trigger_hit *hit)
{
    struct service_trigger_hit copy;
    if (packets->twin)
        service_packets_trigger(packets->twin, hit);
    int r = trigger_hit_copy(hit, &copy);
    if (r < 0)
        r = spare_copy(packets, hit, &copy);
    if (r < 0)
        return r;
    if (packets->n_triggers == SERVICE_TRIGGERS_MAX) {
        pending_done(packets, &packets->triggers[1]);
        memmove(&packets->triggers[1], &packets->triggers[2],
                (SERVICE_TRIGGERS_MAX - 2) * sizeof(packets->triggers[0]));
        packets->n_triggers--;
    }
    packets->triggers[packets->n_triggers++] = copy;
    return 0;
}

void service_packets_forget_triggers(struct service_packets *packets)
{
    for (size_t i = 0; i < packets->n_triggers; i++)
        pending_done(packets, &packets->triggers[i]);
    packets->n_triggers = 0;
}

int service_packets_copy(struct service_packets *packets, const struct service_packets *from)
{
    memcpy(packets->snapshots, from->snapshots, sizeof(packets->snapshots));
    packets->n_snapshots = from->n_snapshots;
    memcpy(packets->events, from->events, sizeof(packets->events));
    packets->n_events = from->n_events;
    for (size_t i = 0; i < from->n_triggers; i++) {
        int r = service_packets_trigger(packets, &from->triggers[i]);
        if (r < 0)
            return r;
    }
    return 0;
}

void service_packets_done(struct service_packets *packets)
{
    service_packets_forget_triggers(packets);
    trigger_hit_done(&packets->clone_trigger);
}

static void put_snapshots(struct service_packets *packets, struct packet_list *list)
{
    for (size_t i = 0; i < packets->n_snapshots; i++) {
        const struct clock_set *set = &packets->snapshots[i];
        struct wire_writer w = list_begin(list, SNAPSHOT_ROOM);
        size_t snapshot = wire_begin(&w, PB_TracePacket_clock_snapshot);
        for (size_t c = 0; c < set->n; c++) {
            size_t clock = wire_begin(&w, PB_ClockSnapshot_clocks);
            wire_uint(&w, PB_ClockSnapshot_Clock_clock_id, set->clocks[c].id);
            wire_uint(&w, PB_ClockSnapshot_Clock_timestamp, set->clocks[c].timestamp);
            wire_end(&w, clock);
        }
        wire_uint(&w, PB_ClockSnapshot_primary_trace_clock, packets->settings->primary_clock);
        wire_end(&w, snapshot);
        list_end(list, &w);
    }
    packets->n_snapshots = 0;
}

static void put_sync_marker(struct packet_list *list)
{
    struct wire_writer w = list_begin(list, ROOM);
    wire_bytes(&w, PB_TracePacket_synchronization_marker, sync_marker, sizeof(sync_marker));
    list_end(list, &w);
}

static uint64_t flush_period_ms(const struct session_settings *settings)
{
    nsec_t period = settings->flush_on_write && settings->flush_period == 0
                        ? settings->write_period
                        : settings->flush_period;
    return settings->write_into_file ? (uint64_t)(period / NSEC_PER_MSEC) : 0;
}

// Returns the offset for flush_period_ms in the packed config, or -1 if the field is present.
static ssize_t flush_period_place(const struct service_packets *packets)
{
    struct wire_reader reader = wire_reader_over(packets->config, packets->config_size);
    struct wire_field field;
    ssize_t place = (ssize_t)packets->config_size;
    for (const uint8_t *at = reader.pos; wire_next(&reader, &field); at = reader.pos) {
        if (field.number == PB_TraceConfig_flush_period_ms && field.value)
            return -1;
        if (field.number > PB_TraceConfig_flush_period_ms && place == (ssize_t)packets->config_size)
            place = at - packets->config;
    }
    return place;
}

static void put_raw(struct wire_writer *w, const uint8_t *bytes, size_t size)
{
    if (size == 0 || !wire_reserve(w, size))
        return;
    memcpy(w->pos, bytes, size);
    w->pos += size;
}

// Writes the unchanged config, plus the flush period if the service chose it: without the period,
// trace_processor takes a trace that was written during the recording for a trace without flushes.
static void put_config(const struct service_packets *packets, struct packet_list *list)
{
    struct wire_writer w = list_begin(list, packets->config_size + ROOM);
    uint64_t period = flush_period_ms(packets->settings);
    ssize_t place = period ? flush_period_place(packets) : -1;
    if (place < 0) {
        wire_bytes(&w, PB_TracePacket_trace_config, packets->config, packets->config_size);
    } else {
        size_t mark = wire_begin(&w, PB_TracePacket_trace_config);
        put_raw(&w, packets->config, (size_t)place);
        wire_uint(&w, PB_TraceConfig_flush_period_ms, period);
        put_raw(&w, packets->config + place, packets->config_size - (size_t)place);
        wire_end(&w, mark);
    }
    list_end(list, &w);
}

static void put_trigger(uint32_t field, const struct service_trigger_hit *hit,
                        struct packet_list *list)
{
    struct wire_writer w =
        list_begin(list, strlen(hit->name) + strlen(hit->producer_name) + TRIGGER_ROOM);
    wire_uint(&w, PB_TracePacket_timestamp, (uint64_t)hit->time);
    size_t trigger = wire_begin(&w, field);
    wire_bytes(&w, PB_Trigger_trigger_name, hit->name, strlen(hit->name));
    wire_bytes(&w, PB_Trigger_producer_name, hit->producer_name, strlen(hit->producer_name));
    wire_int(&w, PB_Trigger_trusted_producer_uid, (int32_t)hit->producer_uid);
    wire_uint(&w, PB_Trigger_stop_delay_ms, hit->stop_delay_ms);
    wire_end(&w, trigger);
    list_end(list, &w);
}

static void put_triggers(struct service_packets *packets, struct packet_list *list)
{
    for (size_t i = 0; i < packets->n_triggers; i++)
        put_trigger(PB_TracePacket_trigger, &packets->triggers[i], list);
    service_packets_forget_triggers(packets);
}

static void put_uuid(const struct service_packets *packets, struct packet_list *list)
{
    struct wire_writer w = list_begin(list, ROOM);
    size_t uuid = wire_begin(&w, PB_TracePacket_trace_uuid);
    wire_int(&w, PB_TraceUuid_msb, packets->settings->uuid_msb);
    wire_int(&w, PB_TraceUuid_lsb, packets->settings->uuid_lsb);
    wire_end(&w, uuid);
    list_end(list, &w);
}

static int32_t timezone_off_mins(const struct clock_reader *clock)
{
    time_t now = (time_t)(clock_read(clock, CLOCK_REALTIME) / NSEC_PER_SEC);
    struct tm local;
    return localtime_r(&now, &local) ? (int32_t)(local.tm_gmtoff / 60) : 0;
}

static void put_system_info(const struct service_packets *packets, struct packet_list *list)
{
    struct utsname name;
    struct wire_writer w = list_begin(list, SYSTEM_INFO_ROOM);
    size_t info = wire_begin(&w, PB_TracePacket_system_info);
    if (uname(&name) == 0) {
        size_t utsname = wire_begin(&w, PB_SystemInfo_utsname);
        wire_string(&w, PB_Utsname_sysname, name.sysname);
        wire_string(&w, PB_Utsname_version, name.version);
        wire_string(&w, PB_Utsname_release, name.release);
        wire_string(&w, PB_Utsname_machine, name.machine);
        wire_end(&w, utsname);
    }
    wire_int(&w, PB_SystemInfo_hz, sysconf(_SC_CLK_TCK));
    wire_string(&w, PB_SystemInfo_tracing_service_version, "mmtrace " MMTRACE_VERSION);
    wire_uint(&w, PB_SystemInfo_page_size, (uint64_t)sysconf(_SC_PAGESIZE));
    wire_int(&w, PB_SystemInfo_timezone_off_mins, timezone_off_mins(packets->clock));
    wire_uint(&w, PB_SystemInfo_num_cpus, (uint64_t)sysconf(_SC_NPROCESSORS_CONF));
    wire_uint(&w, PB_SystemInfo_system_ram_bytes,
              (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
    wire_end(&w, info);
    list_end(list, &w);
}

static void put_events(struct service_packets *packets, struct packet_list *list)
{
    for (size_t i = 0; i < packets->n_events; i++) {
        struct wire_writer w = list_begin(list, ROOM);
        wire_uint(&w, PB_TracePacket_timestamp, (uint64_t)packets->events[i].time);
        size_t event = wire_begin(&w, PB_TracePacket_service_event);
        wire_uint(&w, packets->events[i].field, packets->events[i].value);
        wire_end(&w, event);
        list_end(list, &w);
    }
    packets->n_events = 0;
}

void service_packets_put_head(struct service_packets *packets, struct packet_list *list)
{
    put_snapshots(packets, list);
    if (packets->sync_due)
        put_sync_marker(list);
    packets->sync_due = false;
    if (!packets->initial_written) {
        if (packets->settings->trace_config)
            put_config(packets, list);
        if (packets->clone_trigger.name)
            put_trigger(PB_TracePacket_clone_snapshot_trigger, &packets->clone_trigger, list);
        put_uuid(packets, list);
        if (packets->settings->system_info)
            put_system_info(packets, list);
        packets->initial_written = true;
    }
    put_triggers(packets, list);
    put_events(packets, list);
}

static void put_buffer_stats(struct wire_writer *w, const struct packet_buffer_stats *stats,
                             uint64_t writer_losses)
{
    // Packets that the buffer refused are in both counts. Readers treat only this field as data
    // loss; overwritten packets of a ring are not a loss unless the ring keeps both ends.
    uint64_t refused =
        writer_losses > stats->packets_discarded ? writer_losses : stats->packets_discarded;
    size_t mark = wire_begin(w, PB_TraceStats_buffer_stats);
    wire_uint(w, PB_TraceStats_BufferStats_bytes_written, stats->bytes_written);
    wire_uint(w, PB_TraceStats_BufferStats_chunks_written, stats->packets_written);
    wire_uint(w, PB_TraceStats_BufferStats_chunks_overwritten, stats->packets_overwritten);
    wire_uint(w, PB_TraceStats_BufferStats_write_wrap_count, stats->wraps);
    wire_uint(w, PB_TraceStats_BufferStats_buffer_size, stats->size_bytes);
    wire_uint(w, PB_TraceStats_BufferStats_bytes_overwritten, stats->bytes_overwritten);
    wire_uint(w, PB_TraceStats_BufferStats_bytes_read, stats->bytes_read);
    wire_uint(w, PB_TraceStats_BufferStats_chunks_read, stats->packets_read);
    wire_uint(w, PB_TraceStats_BufferStats_chunks_discarded, stats->packets_discarded);
    wire_uint(w, PB_TraceStats_BufferStats_trace_writer_packet_loss,
              refused + stats->retained_dropped + stats->packets_lost);
    wire_end(w, mark);
}

static void put_stats(const struct service_stats *stats, struct packet_list *list)
{
    struct wire_writer w = list_begin(list, stats_room(stats->n_buffers));
    size_t mark = wire_begin(&w, PB_TracePacket_trace_stats);
    for (size_t i = 0; i < stats->n_buffers; i++)
        put_buffer_stats(&w, &stats->buffers[i], stats->writer_losses[i]);
    wire_uint(&w, PB_TraceStats_producers_connected, 1);
    wire_uint(&w, PB_TraceStats_producers_seen, 1);
    wire_uint(&w, PB_TraceStats_data_sources_registered, stats->n_classes);
    wire_uint(&w, PB_TraceStats_data_sources_seen, stats->n_sources);
    wire_uint(&w, PB_TraceStats_tracing_sessions, 1);
    wire_uint(&w, PB_TraceStats_total_buffers, stats->n_buffers);
    wire_uint(&w, PB_TraceStats_invalid_packets, 0);
    wire_uint(&w, PB_TraceStats_flushes_requested, stats->n_flushes + stats->n_failed_flushes);
    wire_uint(&w, PB_TraceStats_flushes_succeeded, stats->n_flushes);
    wire_uint(&w, PB_TraceStats_flushes_failed, stats->n_failed_flushes);
    wire_uint(&w, PB_TraceStats_final_flush_outcome,
              stats->final_flush_done ? PB_FINAL_FLUSH_SUCCEEDED : PB_FINAL_FLUSH_UNSPECIFIED);
    wire_end(&w, mark);
    list_end(list, &w);
}

void service_packets_put_tail(struct service_packets *packets, const struct service_stats *stats,
                              struct packet_list *list)
{
    put_events(packets, list);
    put_stats(stats, list);
}

Pb__TraceStats *service_stats_message(const struct service_stats *stats)
{
    struct packet_list list = {0};
    struct packet_view packet;
    Pb__TraceStats *message = NULL;
    put_stats(stats, &list);
    if (packet_list_peek(&list, &packet)) {
        struct wire_reader reader = wire_reader_over(packet.data, packet.size);
        struct wire_field f;
        wire_foreach(&reader, &f)
            if (f.number == PB_TracePacket_trace_stats)
                message = pb__trace_stats__unpack(NULL, f.size, f.data);
    }
    packet_list_done(&list);
    return message;
}
