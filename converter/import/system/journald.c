// SPDX-License-Identifier: Apache-2.0
//
// SystemdJournaldEvent: entries of systemd's journal, as rows of `logs`.
#include "common/elements.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

static const struct {
    uint32_t field;
    const char *key;
} texts[] = {
    {PB_SystemdJournaldEvent_comm, "comm"},
    {PB_SystemdJournaldEvent_systemd_unit, "systemd_unit"},
    {PB_SystemdJournaldEvent_hostname, "hostname"},
    {PB_SystemdJournaldEvent_transport, "transport"},
};
#define N_TEXTS ELEMENTS(texts)
static int64_t event_args(struct import *im, const union message_SystemdJournaldEvent *event)
{
    struct arg args[N_TEXTS + 1];
    size_t n = 0;
    if (field_present(&event->uid))
        ARG_APPEND(args, n, arg_int("uid", (uint32_t)field_u64(&event->uid)));
    for (size_t i = 0; i < N_TEXTS; i++) {
        const struct wire_field *text = &event->at[texts[i].field];
        if (field_present(text))
            ARG_APPEND(args, n, arg_text(texts[i].key, text->data, text->size));
    }
    return args_add(&im->args, args, n);
}

static void journald_sorted(struct import *im, const struct packet *packet)
{
    MESSAGE(event, SystemdJournaldEvent, packet->message);
    if (field_present(&event.num_failed) || field_present(&event.num_total)) {
        stats_set(&im->stats, STAT_systemd_journal_num_failed, field_i64(&event.num_failed));
        stats_set(&im->stats, STAT_systemd_journal_num_total, field_i64(&event.num_total));
        return;
    }
    uint32_t pid = (uint32_t)field_u64(&event.pid);
    int64_t set = event_args(im, &event);
    struct cell *row = database_row(im->db, TABLE_logs, NULL);
    cell_int(row, COL_logs_ts, packet->ts);
    if (pid)
        cell_int(row, COL_logs_utid,
                 processes_update_thread(
                     &im->processes,
                     field_present(&event.tid) ? (uint32_t)field_u64(&event.tid) : pid, pid));
    cell_int(row, COL_logs_prio, (uint32_t)field_u64(&event.prio));
    cell_text(row, COL_logs_log_source, "systemd_journald");
    cell_field(row, COL_logs_tag, &event.tag);
    cell_field(row, COL_logs_msg, &event.message);
    cell_arg_set(row, COL_logs_arg_set_id, set);
    import_bounds(im, packet->ts);
}

const struct importer importer_journald = {.field = PB_TracePacket_journald_event,
                                           .sorted = journald_sorted};
