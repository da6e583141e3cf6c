// SPDX-License-Identifier: Apache-2.0
//
// Storage: requests of block devices and of UFS as slices of the device, counters of f2fs, and
// reads of files. A device has one track, so concurrent requests nest in the order of their begins.
#include "common/elements.h"
#include "converter/import/ftrace/ftrace.h"

struct storage {
    struct map64 reads; // file and offset -> tid
};

#define BLOCK_IO(does)                                                                             \
    (does), .type = "block_io", .key = "block_device=dev", .counts = true, .name = "block_io",     \
            .args = "sector"

// A field of the events of f2fs, and the name of its counter.
struct f2fs_counter {
    const char *field, *name;
};

static const struct f2fs_counter f2fs_bytes[] = {
    {"app_wio", "write_app_total"},
    {"app_dio", "write_app_direct"},
    {"app_bio", "write_app_buffered"},
    {"app_mio", "write_app_mapped"},
    {"fs_dio", "write_fs_data"},
    {"fs_nio", "write_fs_node"},
    {"fs_mio", "write_fs_meta"},
    {"fs_gc_dio", "write_gc_data"},
    {"fs_gc_nio", "write_gc_node"},
    {"fs_cp_dio", "write_cp_data"},
    {"fs_cp_nio", "write_cp_node"},
    {"fs_cp_mio", "write_cp_meta"},
    {"app_rio", "read_app_total"},
    {"app_drio", "read_app_direct"},
    {"app_brio", "read_app_buffered"},
    {"app_mrio", "read_app_mapped"},
    {"fs_drio", "read_fs_data"},
    {"fs_gdrio", "read_fs_gdata"},
    {"fs_cdrio", "read_fs_cdata"},
    {"fs_nrio", "read_fs_node"},
    {"fs_mrio", "read_fs_meta"},
    {"fs_discard", "other_fs_discard"},
    {NULL, NULL},
};

static const struct f2fs_counter f2fs_latencies[] = {
    {"d_rd_peak", "read_data_peak"},
    {"d_rd_avg", "read_data_avg"},
    {"d_rd_cnt", "read_data_cnt"},
    {"n_rd_peak", "read_node_peak"},
    {"n_rd_avg", "read_node_avg"},
    {"n_rd_cnt", "read_node_cnt"},
    {"m_rd_peak", "read_meta_peak"},
    {"m_rd_avg", "read_meta_avg"},
    {"m_rd_cnt", "read_meta_cnt"},
    {"d_wr_s_peak", "write_sync_data_peak"},
    {"d_wr_s_avg", "write_sync_data_avg"},
    {"d_wr_s_cnt", "write_sync_data_cnt"},
    {"n_wr_s_peak", "write_sync_node_peak"},
    {"n_wr_s_avg", "write_sync_node_avg"},
    {"n_wr_s_cnt", "write_sync_node_cnt"},
    {"m_wr_s_peak", "write_sync_meta_peak"},
    {"m_wr_s_avg", "write_sync_meta_avg"},
    {"m_wr_s_cnt", "write_sync_meta_cnt"},
    {"d_wr_as_peak", "write_async_data_peak"},
    {"d_wr_as_avg", "write_async_data_avg"},
    {"d_wr_as_cnt", "write_async_data_cnt"},
    {"n_wr_as_peak", "write_async_node_peak"},
    {"n_wr_as_avg", "write_async_node_avg"},
    {"n_wr_as_cnt", "write_async_node_cnt"},
    {"m_wr_as_peak", "write_async_meta_peak"},
    {"m_wr_as_avg", "write_async_meta_avg"},
    {"m_wr_as_cnt", "write_async_meta_cnt"},
    {NULL, NULL},
};

static void f2fs_counters(struct import *im, const struct ftrace_event *event)
{
    const struct f2fs_counter *counters = event->detail;
    const char *type = event->type->name;
    uint64_t number = (uint64_t)ftrace_int(event, "dev");
    struct slice_name device =
        import_text(im, "%u:%u", (unsigned)(number >> 8 & 0xff), (unsigned)(number & 0xff));
    for (size_t i = 0; counters[i].field; i++) {
        struct track_spec spec = {
            .type = type,
            .counter = true,
            .dimensions = {dimension_text("linux_device", device.text, device.size),
                           dimension_text("counter_key", counters[i].name,
                                          strlen(counters[i].name))},
            .name = import_text(im, "%s.[%s].%s", type, device.text, counters[i].name),
        };
        counter_push(im, event->ts, tracks_get(&im->tracks, &spec),
                     (double)(uint64_t)ftrace_int(event, counters[i].field), ARG_SET_NONE);
    }
}

static uint32_t checkpoint_track(struct import *im, const struct ftrace_event *event)
{
    struct track_spec spec = {
        .type = "f2fs_write_checkpoint",
        .dimensions = {dimension_int("upid", processes_process(&im->processes, event->pid))},
        .name = import_text(im, "f2fs_ckpt %u", event->pid),
    };
    return tracks_get(&im->tracks, &spec);
}

static void f2fs_write_checkpoint(struct import *im, const struct ftrace_event *event)
{
    static const char *const reasons[][2] = {
        {"reason_str[0]", "Umount"},   {"reason_str[1]", "Fastboot"}, {"reason_str[2]", "Sync"},
        {"reason_str[3]", "Recovery"}, {"reason_str[4]", "Discard"},  {"reason_str[5]", "Trimmed"},
        {"reason_str[6]", "Pause"},    {"reason_str[7]", "Resize"},
    };
    enum { PHASE_START = 0, PHASE_FINISH = 2 };
    int64_t phase = ftrace_int(event, "phase"), reason = ftrace_int(event, "reason");
    if (phase != PHASE_START && phase != PHASE_FINISH)
        return;
    struct slice_spec spec = {.ts = event->ts, .track = checkpoint_track(im, event)};
    slice_end(&im->slices, &spec);
    if (phase == PHASE_FINISH)
        return;
    struct arg args[2 + ELEMENTS(reasons)] = {
        arg_uint("dev", (uint64_t)ftrace_int(event, "dev")),
        arg_int("reason_int", reason),
    };
    size_t n = 2;
    for (size_t i = 0; i < ELEMENTS(reasons); i++)
        if (reason >> i & 1) {
            args[n] = arg_text(reasons[n - 2][0], reasons[i][1], strlen(reasons[i][1]));
            args[n++].flat_key = "reason_str";
        }
    if (!reason)
        args[n++] = arg_text("reason_str", "Unknown", strlen("Unknown"));
    spec.name = slice_name("F2fs Write Checkpoint");
    spec.args = args;
    spec.n_args = n;
    slice_begin(&im->slices, &spec);
}

static void ufs_counter(struct import *im, const struct ftrace_event *event, const char *type,
                        const char *name, double value)
{
    struct track_spec spec = {.type = type, .counter = true, .name = slice_name(name)};
    counter_push(im, event->ts, tracks_get(&im->tracks, &spec), value, ARG_SET_NONE);
}

static void ufshcd_clk_gating(struct import *im, const struct ftrace_event *event)
{
    static const int levels[] = {0, 3, 1, 2}; // off, on, switching off, switching on
    uint64_t state = (uint64_t)ftrace_int(event, "state");
    ufs_counter(im, event, "ufs_clkgating", "io.ufs.clkgating (OFF:0/REQ_OFF/REQ_ON/ON:3)",
                state < 4 ? levels[state] : 0);
}

static const char *ufs_operation(uint32_t opcode)
{
    static const struct {
        uint8_t opcode;
        const char *name;
    } operations[] = {
        {0, "TEST UNIT READY"},
        {3, "REQUEST SENSE"},
        {4, "FORMAT UNIT"},
        {8, "READ (6)"},
        {10, "WRITE (6)"},
        {18, "INQUIRY"},
        {27, "START STOP UNIT"},
        {29, "SEND DIAGNOSTIC"},
        {37, "READ CAPACITY (10)"},
        {40, "READ (10)"},
        {42, "WRITE (10)"},
        {47, "VERIFY"},
        {52, "PRE-FETCH (10)"},
        {53, "SYNCHRONIZE CACHE (10)"},
        {59, "WRITE BUFFER"},
        {60, "READ BUFFER"},
        {66, "UNMAP"},
        {85, "MODE SELECT (10)"},
        {90, "MODE SENSE (10)"},
        {136, "READ (16)"},
        {138, "WRITE (16)"},
        {144, "PRE-FETCH (16)"},
        {145, "SYNCHRONIZE CACHE (16)"},
        {158, "READ CAPACITY (16)"},
        {160, "REPORT LUNS"},
        {162, "SECURITY PROTOCOL IN"},
        {181, "SECURITY PROTOCOL OUT"},
    };
    for (size_t i = 0; i < ELEMENTS(operations); i++)
        if (operations[i].opcode == opcode)
            return operations[i].name;
    return "UNDEFINED";
}

static void ufshcd_command(struct import *im, const struct ftrace_event *event)
{
    uint32_t doorbell = (uint32_t)ftrace_int(event, "doorbell"), tag;
    int64_t step = ftrace_int(event, "str_t"); // 0: sent, 1: complete
    ufs_counter(im, event, "ufs_command_count", "io.ufs.command.count",
                doorbell ? __builtin_popcount(doorbell) : step != 1);
    tag = (uint32_t)ftrace_int(event, "tag");
    struct track_spec track = {
        .type = "ufs_command_tag",
        .dimensions = {dimension_int("ufs_tag", tag)},
        .name = import_text(im, "io.ufs.command.tag[%03u]", tag),
    };
    struct slice_spec spec = {.ts = event->ts, .track = tracks_get(&im->tracks, &track)};
    if (step) {
        slice_end(&im->slices, &spec);
        return;
    }
    const char *operation = ufs_operation((uint32_t)ftrace_int(event, "opcode"));
    uint32_t group = (uint32_t)ftrace_int(event, "group_id");
    spec.name = group ? import_text(im, "%s (GID=0x%x)", operation, group) : slice_name(operation);
    slice_begin(&im->slices, &spec);
}

// Returns the key of a read: a hash of the file and the offset. Only concurrent reads with the same
// hash can end on each other's track.
static uint64_t read_key(const struct ftrace_event *event)
{
    return hash_u64((uint64_t)ftrace_int(event, "ino")) ^ (uint64_t)ftrace_int(event, "offset");
}

static const struct track_spec read_tracks = {.type = "android_fs",
                                              .name = SLICE_NAME("android_fs")};

static void dataread_start(struct import *im, const struct ftrace_event *event)
{
    struct storage *storage = event->own;
    uint64_t key = read_key(event);
    // As in Perfetto, the first thread that reads at the offset counts.
    bool is_new;
    import_map_get(im, &storage->reads, key, event->pid, &is_new);
    struct slice_name path = ftrace_text(event, "pathbuf");
    struct arg args[] = {
        arg_text("file_path", path.text, path.size),
        arg_int("offset_start", ftrace_int(event, "offset")),
        arg_int("bytes_read_start", ftrace_int(event, "bytes")),
    };
    struct slice_spec spec = {
        .ts = event->ts,
        .track = async_track_begin(&im->async_tracks, &read_tracks, event->pid, false),
        .name = slice_name("android_fs_data_read"),
        .args = args,
        .n_args = 3,
    };
    slice_begin(&im->slices, &spec);
}

static void dataread_end(struct import *im, const struct ftrace_event *event)
{
    struct storage *storage = event->own;
    uint64_t key = read_key(event);
    const uint64_t *reader = map64_find(&storage->reads, key);
    if (!reader)
        return;
    int64_t cookie = (int64_t)*reader;
    map64_remove(&storage->reads, key);
    struct arg args[] = {
        arg_int("offset_end", ftrace_int(event, "offset")),
        arg_int("bytes_read_end", ftrace_int(event, "bytes")),
    };
    struct slice_spec spec = {
        .ts = event->ts,
        .track = async_track_end(&im->async_tracks, &read_tracks, cookie),
        .args = args,
        .n_args = 2,
    };
    slice_end(&im->slices, &spec);
}

static const struct ftrace_form forms[] = {
    {"block_io_start", BLOCK_IO(FORM_BEGIN)},
    {"block_io_done", BLOCK_IO(FORM_END)},
    {"f2fs_iostat", FORM_CALL(f2fs_counters), .detail = f2fs_bytes},
    {"f2fs_iostat_latency", FORM_CALL(f2fs_counters), .detail = f2fs_latencies},
    {"f2fs_write_checkpoint", FORM_CALL(f2fs_write_checkpoint)},
    {"ufshcd_clk_gating", FORM_CALL(ufshcd_clk_gating)},
    {"ufshcd_command", FORM_CALL(ufshcd_command)},
    {"android_fs_dataread_start", FORM_CALL(dataread_start)},
    {"android_fs_dataread_end", FORM_CALL(dataread_end)},
    {0},
};

const struct ftrace_subject ftrace_storage = {
    .forms = forms,
    .state_size = sizeof(struct storage),
    .n_maps = 1,
};
