// SPDX-License-Identifier: Apache-2.0
//
// CpuPerUidData: CPU time of every user, by cluster of CPUs. The first value of a user on a
// sequence is the time since boot; later values are increments. Android has many short-lived users
// for isolated and shared processes: each range of such users counts as one user.
#include <errno.h>

#include "common/cleanup.h"
#include "converter/import/importer.h"
#include "converter/import/power/sparse_counters.h"
#include "protos/fields.h"

#define UIDS_PER_USER 100000
#define CLUSTERS_MAX  256
#define FIRST_APP_UID 10000
#define GROUP_UIDS    10000

struct uids {
    struct map64 last_ms;            // by user and cluster, of all sequences
    struct map64 used_ms;            // since the trace began, by group and cluster
    struct map64 system_ms, apps_ms; // since the trace began, sums of all users, by cluster
    struct sparse_counters counters; // sums of a sequence are by user and cluster
};

static uint64_t uid_key(uint32_t uid, uint32_t cluster)
{
    return (uint64_t)uid << 32 | cluster;
}

static bool is_grouped(uint32_t uid)
{
    uint32_t app = uid % UIDS_PER_USER / GROUP_UIDS;
    return app == 5 || app == 9;
}

static uint32_t uid_group(uint32_t uid)
{
    return is_grouped(uid) ? uid - uid % GROUP_UIDS : uid;
}

static void time_add(struct import *im, struct uids *all, struct sequence_sums *of, uint32_t uid,
                     uint32_t cluster, uint64_t ms)
{
    uint64_t key = uid_key(uid, cluster), now = sparse_sum_add(im, &of->sums, key, ms);
    bool is_new;
    uint64_t *last = import_map_get(im, &all->last_ms, key, now, &is_new);
    if (!last)
        return;
    uint64_t more = now > *last ? now - *last : 0;
    *last = now;
    uint32_t group = uid_group(uid);
    bool is_app = group % UIDS_PER_USER >= FIRST_APP_UID;
    sparse_sum_add(im, &all->used_ms, uid_key(group, cluster), more);
    sparse_sum_add(im, is_app ? &all->apps_ms : &all->system_ms, cluster, more);
}

static uint32_t uid_track(struct import *im, uint32_t uid, uint32_t cluster)
{
    struct track_spec spec = {
        .type = "android_cpu_per_uid",
        .unit = "ms",
        .counter = true,
        .dimensions = {dimension_int("uid", uid), dimension_int("cluster", cluster)},
        .name = import_text(im, "CPU for UID %u CL%u", uid, cluster),
    };
    return tracks_get(&im->tracks, &spec);
}

static void uid_push(struct import *im, struct uids *all, const struct sequence_sums *of,
                     uint32_t uid, uint32_t cluster)
{
    const struct map64 *ms = is_grouped(uid) ? &all->used_ms : &of->sums;
    uint32_t shown = uid_group(uid);
    const uint64_t *value = map64_find(ms, uid_key(shown, cluster));
    if (value)
        sparse_counters_push(im, &all->counters, uid_track(im, shown, cluster), (double)*value);
}

static void total_push(struct import *im, struct uids *all, const struct map64 *totals,
                       const char *type, uint32_t cluster)
{
    const uint64_t *value = map64_find(totals, cluster);
    if (!value)
        return;
    struct track_spec spec = {
        .type = "android_cpu_per_uid_totals",
        .unit = "ms",
        .counter = true,
        .dimensions = {dimension_text("type", type, strlen(type)),
                       dimension_int("cluster", cluster)},
        .name = import_text(im, "CPU for %s CL%u", type, cluster),
    };
    sparse_counters_push(im, &all->counters, tracks_get(&im->tracks, &spec), (double)*value);
}

struct uid_values {
    struct values uids, times;
    uint64_t uid, n_clusters;
    uint32_t cluster;
    bool has_uid;
};

static struct uid_values uid_values_of(const struct wire_field *message, uint64_t n_clusters)
{
    struct uid_values values = {
        .uids = values_of(message, PB_CpuPerUidData_uid),
        .times = values_of(message, PB_CpuPerUidData_total_time_ms),
        .n_clusters = n_clusters,
    };
    values.has_uid = values_next(&values.uids, &values.uid);
    return values;
}

// Reads the next value. Each user has a value for each cluster. False at the end.
static bool uid_values_next(struct uid_values *values, uint32_t *ret_uid, uint32_t *ret_cluster,
                            uint64_t *ret_ms)
{
    if (!values->has_uid || !values_next(&values->times, ret_ms))
        return false;
    *ret_uid = (uint32_t)values->uid;
    *ret_cluster = values->cluster++;
    if (values->cluster >= values->n_clusters) {
        values->cluster = 0;
        values->has_uid = values_next(&values->uids, &values->uid);
    }
    return true;
}

static void cpu_per_uid_sorted(struct import *im, const struct packet *packet)
{
    struct uids *all = packet->own;
    struct sequence_sums *of = sparse_counters_sequence(im, &all->counters, packet);
    if (!of)
        return;
    MESSAGE(data, CpuPerUidData, packet->message);
    if (field_present(&data.cluster_count))
        of->n_columns = (uint32_t)field_u64(&data.cluster_count);
    if (of->n_columns > CLUSTERS_MAX) {
        stats_add(&im->stats, STAT_mmsql_packets_damaged, 1);
        of->n_columns = 0;
        return;
    }
    uint32_t uid, cluster;
    uint64_t ms;
    struct uid_values values = uid_values_of(packet->message, of->n_columns);
    while (uid_values_next(&values, &uid, &cluster, &ms))
        time_add(im, all, of, uid, cluster, ms);
    // A second pass writes the values, because several users may be in the same group.
    sparse_counters_round(&all->counters, packet->ts);
    values = uid_values_of(packet->message, of->n_columns);
    while (uid_values_next(&values, &uid, &cluster, &ms)) {
        uid_push(im, all, of, uid, cluster);
        total_push(im, all, &all->system_ms, "System", cluster);
        total_push(im, all, &all->apps_ms, "Apps", cluster);
    }
}

static void cpu_per_uid_finish(struct import *im, void *state)
{
    const struct uids *all = state;
    CLEANUP(freep) struct map64_slot *used = map64_sorted(&all->used_ms);
    if (!used)
        import_fail(im, -ENOMEM);
    for (size_t i = 0; used && i < all->used_ms.n; i++) {
        uint32_t uid = (uint32_t)(used[i].key >> 32), cluster = (uint32_t)used[i].key;
        uint32_t track = uid_track(im, uid, cluster);
        struct cell *row = database_row(im->db, TABLE__android_cpu_per_uid, NULL);
        cell_int(row, COL__android_cpu_per_uid_track_id, track);
        cell_int(row, COL__android_cpu_per_uid_uid, uid);
        cell_int(row, COL__android_cpu_per_uid_cluster, cluster);
        cell_int(row, COL__android_cpu_per_uid_total_cpu_millis, (int64_t)used[i].value);
    }
}

static void cpu_per_uid_done(void *state)
{
    struct uids *all = state;
    map64_done(&all->last_ms);
    map64_done(&all->used_ms);
    map64_done(&all->system_ms);
    map64_done(&all->apps_ms);
    sparse_counters_done(&all->counters);
}

const struct importer importer_cpu_per_uid = {
    .field = PB_TracePacket_cpu_per_uid_data,
    .sorted = cpu_per_uid_sorted,
    .state_size = sizeof(struct uids),
    .finish = cpu_per_uid_finish,
    .done = cpu_per_uid_done,
};
