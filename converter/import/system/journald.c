// SPDX-License-Identifier: Apache-2.0
//
// SystemdJournaldEvent: entries of systemd's journal, lines of `logs`.
#include "common/elements.h"
#include "converter/import/importer.h"

enum { PACKET_JOURNALD = 132 };
enum {
    EVENT_PID = 1,
    EVENT_TID,
    EVENT_UID,
    EVENT_PRIO = 5,
    EVENT_TAG,
    EVENT_MESSAGE,
    EVENT_COMM,
    EVENT_UNIT = 10,
    EVENT_HOSTNAME,
    EVENT_TRANSPORT,
    EVENT_N_TOTAL = 20,
    EVENT_N_FAILED
};

static const struct {
    uint32_t field;
    const char *key;
} texts[] = {
    {EVENT_COMM, "comm"},
    {EVENT_UNIT, "systemd_unit"},
    {EVENT_HOSTNAME, "hostname"},
    {EVENT_TRANSPORT, "transport"},
};
#define N_TEXTS ELEMENTS(texts)
static int64_t event_args(struct import *im, const struct wire_field *event)
{
    struct arg args[N_TEXTS + 1];
    size_t n = 0;
    if (field_present(&event[EVENT_UID]))
        args[n++] = arg_int("uid", (uint32_t)field_u64(&event[EVENT_UID]));
    for (size_t i = 0; i < N_TEXTS; i++) {
        const struct wire_field *text = &event[texts[i].field];
        if (field_present(text))
            args[n++] = arg_text(texts[i].key, text->data, text->size);
    }
    return args_add(&im->args, args, n);
}

static int journald_sorted(struct import *im, void *state, const struct packet *packet,
                           const struct wire_field *message)
{
    (void)state;
    MESSAGE(event, EVENT_N_FAILED, message);
    if (field_present(&event[EVENT_N_FAILED]) || field_present(&event[EVENT_N_TOTAL])) {
        stats_set(&im->stats, STAT_systemd_journal_num_failed, field_i64(&event[EVENT_N_FAILED]));
        stats_set(&im->stats, STAT_systemd_journal_num_total, field_i64(&event[EVENT_N_TOTAL]));
        return 0;
    }
    uint32_t pid = (uint32_t)field_u64(&event[EVENT_PID]);
    const struct wire_field *tid = &event[EVENT_TID];
    int64_t set = event_args(im, event);
    struct cell *row = database_row(im->db, TABLE_logs, NULL);
    cell_int(row, COL_logs_ts, packet->ts);
    if (pid)
        cell_int(row, COL_logs_utid,
                 processes_update_thread(&im->processes,
                                         field_present(tid) ? (uint32_t)field_u64(tid) : pid, pid));
    cell_int(row, COL_logs_prio, (uint32_t)field_u64(&event[EVENT_PRIO]));
    cell_text(row, COL_logs_log_source, "systemd_journald");
    cell_field(row, COL_logs_tag, &event[EVENT_TAG]);
    cell_field(row, COL_logs_msg, &event[EVENT_MESSAGE]);
    cell_arg_set(row, COL_logs_arg_set_id, set);
    import_bounds(im, packet->ts);
    return 0;
}

const struct importer importer_journald = {.field = PACKET_JOURNALD, .sorted = journald_sorted};
