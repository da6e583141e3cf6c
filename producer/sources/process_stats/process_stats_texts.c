// SPDX-License-Identifier: Apache-2.0
//
// Processes choose their names: the name in stat may contain blanks and parentheses, so fields are
// counted from the last ')'. status escapes newlines and backslashes in names, so its lines are
// reliable; names are returned unescaped.
#include "producer/sources/process_stats/process_stats_texts.h"

#include "protos/fields.h"

const uint8_t process_counter_fields[N_PROCESS_COUNTERS] = {
    [COUNTER_VM_SIZE] = PB_ProcessStats_Process_vm_size_kb,
    [COUNTER_VM_RSS] = PB_ProcessStats_Process_vm_rss_kb,
    [COUNTER_RSS_ANON] = PB_ProcessStats_Process_rss_anon_kb,
    [COUNTER_RSS_FILE] = PB_ProcessStats_Process_rss_file_kb,
    [COUNTER_RSS_SHMEM] = PB_ProcessStats_Process_rss_shmem_kb,
    [COUNTER_VM_SWAP] = PB_ProcessStats_Process_vm_swap_kb,
    [COUNTER_VM_LOCKED] = PB_ProcessStats_Process_vm_locked_kb,
    [COUNTER_VM_HWM] = PB_ProcessStats_Process_vm_hwm_kb,
    [COUNTER_OOM_SCORE_ADJ] = PB_ProcessStats_Process_oom_score_adj,
    [COUNTER_SMR_RSS] = PB_ProcessStats_Process_smr_rss_kb,
    [COUNTER_SMR_PSS] = PB_ProcessStats_Process_smr_pss_kb,
    [COUNTER_SMR_PSS_ANON] = PB_ProcessStats_Process_smr_pss_anon_kb,
    [COUNTER_SMR_PSS_FILE] = PB_ProcessStats_Process_smr_pss_file_kb,
    [COUNTER_SMR_PSS_SHMEM] = PB_ProcessStats_Process_smr_pss_shmem_kb,
    [COUNTER_SMR_SWAP_PSS] = PB_ProcessStats_Process_smr_swap_pss_kb,
    [COUNTER_RUNTIME_USER] = PB_ProcessStats_Process_runtime_user_mode,
    [COUNTER_RUNTIME_KERNEL] = PB_ProcessStats_Process_runtime_kernel_mode,
    [COUNTER_DMABUF_RSS] = PB_ProcessStats_Process_dmabuf_rss_kb,
};

struct counter_key {
    const char *key;
    enum process_counter counter;
};

static const struct counter_key status_keys[] = {
    {"VmSize", COUNTER_VM_SIZE},     {"VmLck", COUNTER_VM_LOCKED},  {"VmHWM", COUNTER_VM_HWM},
    {"VmRSS", COUNTER_VM_RSS},       {"RssAnon", COUNTER_RSS_ANON}, {"RssFile", COUNTER_RSS_FILE},
    {"RssShmem", COUNTER_RSS_SHMEM}, {"VmSwap", COUNTER_VM_SWAP},   {NULL, 0},
};

static const struct counter_key rollup_keys[] = {
    {"Rss", COUNTER_SMR_RSS},
    {"Pss", COUNTER_SMR_PSS},
    {"Pss_Anon", COUNTER_SMR_PSS_ANON},
    {"Pss_File", COUNTER_SMR_PSS_FILE},
    {"Pss_Shmem", COUNTER_SMR_PSS_SHMEM},
    {"SwapPss", COUNTER_SMR_SWAP_PSS},
    {NULL, 0},
};

bool span_take_i64(struct span *rest, int64_t *ret)
{
    struct span after = span_trim(*rest);
    bool negative = span_take_prefix(&after, "-");
    uint64_t magnitude;
    if (!span_take_u64(&after, &magnitude) || magnitude > INT64_MAX)
        return false;
    *ret = negative ? -(int64_t)magnitude : (int64_t)magnitude;
    *rest = after;
    return true;
}

static int32_t number_i32(struct span value)
{
    uint64_t number;
    return span_take_u64(&value, &number) && number <= INT32_MAX ? (int32_t)number : -1;
}

static void take_counter(const struct counter_key *keys, struct span key, struct span value,
                         struct process_counters *counters)
{
    uint64_t number;
    for (; keys->key; keys++) {
        if (!span_eq(key, keys->key))
            continue;
        if (span_take_u64(&value, &number) && number <= INT64_MAX)
            process_counters_set(counters, keys->counter, (int64_t)number);
        return;
    }
}

static uint32_t number_u32(struct span value)
{
    uint64_t number;
    return span_take_u64(&value, &number) ? (uint32_t)number : 0;
}

// An escaped backslash or n stands for a backslash or a newline.
static void take_name(struct span value, char ret[COMM_BYTES_MAX])
{
    size_t n = 0;
    span_take_prefix(&value, "\t");
    while (value.pos < value.end && n < COMM_BYTES_MAX - 1) {
        char c = *value.pos++;
        if (c == '\\' && (span_take_prefix(&value, "n") || span_take_prefix(&value, "\\")))
            c = value.pos[-1] == 'n' ? '\n' : '\\';
        ret[n++] = c;
    }
    ret[n] = '\0';
}

// Handles one line, selected by its first letter before names are compared. Returns false if no
// interesting line follows, on any kernel.
static bool take_status_line(struct span key, struct span value, struct process_status *status,
                             struct process_counters *counters)
{
    struct span root_id;
    switch (*key.pos) {
    case 'N':
        if (span_eq(key, "Name"))
            take_name(value, status->name);
        else if (span_eq(key, "NSpid") && span_take_word(&value, &root_id))
            status->nspid = value;
        break;
    case 'P':
        if (span_eq(key, "Pid"))
            status->pid = number_i32(value);
        else if (span_eq(key, "PPid"))
            status->ppid = number_i32(value);
        break;
    case 'U':
        if (span_eq(key, "Uid"))
            status->uid = number_u32(value);
        break;
    case 'K':
        if (span_eq(key, "Kthread"))
            status->kthread = number_i32(value);
        break;
    case 'V':
    case 'R':
        status->has_memory |= span_eq(key, "VmSize");
        if (counters)
            take_counter(status_keys, key, value, counters);
        break;
    case 'T':
        if (span_eq(key, "Tgid")) {
            status->tgid = number_i32(value);
        } else if (span_eq(key, "Threads")) {
            status->n_threads = number_u32(value);
            return false;
        }
        break;
    }
    return true;
}

bool process_status_parse(struct span text, struct process_status *ret,
                          struct process_counters *counters)
{
    *ret = (struct process_status){.pid = -1, .tgid = -1, .ppid = 0, .kthread = -1};
    struct span line, key;
    while (span_take_line(&text, &line))
        if (span_take_key(&line, &key) && !take_status_line(key, line, ret, counters))
            break;
    return ret->pid > 0 && ret->tgid > 0;
}

void smaps_rollup_parse(struct span text, struct process_counters *counters)
{
    struct span line, key;
    while (span_take_line(&text, &line))
        if (span_take_key(&line, &key))
            take_counter(rollup_keys, key, line, counters);
}

// Numbered from 1 in proc(5): the state is field 3.
#define STAT_FIELD_BEHIND_NAME 3
#define STAT_FIELD_UTIME       14
#define STAT_FIELD_STIME       15
#define STAT_FIELD_STARTTIME   22

bool process_stat_parse(struct span text, struct process_times *ret)
{
    const char *name_end = memrchr(text.pos, ')', span_size(text));
    if (!name_end)
        return false;
    struct span rest = {name_end + 1, text.end}, word;
    for (unsigned field = STAT_FIELD_BEHIND_NAME; span_take_word(&rest, &word); field++) {
        uint64_t *target = field == STAT_FIELD_UTIME       ? &ret->user_ticks
                           : field == STAT_FIELD_STIME     ? &ret->kernel_ticks
                           : field == STAT_FIELD_STARTTIME ? &ret->start_ticks
                                                           : NULL;
        if (target && !span_take_u64(&word, target))
            return false;
        if (field == STAT_FIELD_STARTTIME)
            return true;
    }
    return false;
}

unsigned cmdline_write(struct span text, struct wire_writer *w, uint32_t field)
{
    unsigned n = 0;
    while (text.pos < text.end) {
        const char *end = memchr(text.pos, '\0', span_size(text));
        if (!end)
            end = text.end;
        if (end > text.pos) {
            wire_text(w, field, text.pos, (size_t)(end - text.pos));
            n++;
        }
        text.pos = end < text.end ? end + 1 : end;
    }
    return n;
}

bool nspid_write(struct span nspid, struct wire_writer *w, uint32_t field)
{
    uint64_t id;
    bool any = false;
    while (nspid.pos && span_take_u64(&nspid, &id)) {
        wire_uint(w, field, id & INT32_MAX);
        any = true;
    }
    return any;
}
