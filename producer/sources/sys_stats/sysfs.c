// SPDX-License-Identifier: Apache-2.0
//
// A machine with many cpus has thousands of idle states, and a process often has only 1024 file
// descriptors. Therefore a limited number of files stays open; the others are opened for each
// sample. The descriptor of a cpu that went offline never works again: after a failed read, the
// path is opened again once.
#include "producer/sources/sys_stats/sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/folder.h"
#include "common/str.h"
#include "producer/ground/proc_text.h"
#include "protos/fields.h"

#define N_OPEN_MAX   128
#define N_CPUS_MAX   8192
#define N_VALUES_MAX 16384
#define N_TEXT_MAX   4096

// The files of each kind, below /sys
static const struct {
    const char *folder, *prefix; // a number follows a prefix that is not empty
    const char *file;
} places[] = {
    [SYSFS_CPUFREQ] = {"devices/system/cpu", "cpu", "cpufreq/scaling_cur_freq"},
    [SYSFS_CPUIDLE] = {"devices/system/cpu", "cpu", NULL},
    [SYSFS_THERMAL] = {"class/thermal", "thermal_zone", "temp"},
    [SYSFS_DEVFREQ] = {"class/devfreq", "", "cur_freq"},
};

__attribute__((format(printf, 4, 5))) static int
add_value(struct sysfs_values *values, const char *name, uint32_t index, const char *format, ...)
{
    char path[PATH_MAX];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(path, sizeof(path), format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof(path) || values->values.n >= N_VALUES_MAX)
        return 0;
    struct sysfs_value value = {.index = index, .fd = -1};
    value.path = arena_strndup(&values->arena, path, (size_t)n);
    value.name = arena_strndup(&values->arena, name, strlen(name));
    if (!value.path || !value.name)
        return -ENOMEM;
    return sysfs_value_vec_push(&values->values, value);
}

static int add_idle_states(struct sysfs_values *values, const char *sys, uint32_t cpu)
{
    int r = 0;
    for (unsigned state = 0; r == 0 && state < 64; state++) {
        char folder[64], text[64];
        snprintf(folder, sizeof(folder), "/devices/system/cpu/cpu%u/cpuidle/state%u", cpu, state);
        ssize_t n = text_file_read_once(text, sizeof(text) - 1, sys, "%s/name", folder);
        if (n < 0)
            break;
        text[n] = '\0';
        text[strcspn(text, "\n")] = '\0';
        r = add_value(values, text, cpu, "%s%s/time", sys, folder);
    }
    return r;
}

static int add_type(struct sysfs_values *values, const char *sys, const char *zone)
{
    char text[256];
    struct span type =
        span_trim(text_file_span(text, sizeof(text), sys, "/class/thermal/%s/type", zone));
    if (!span_size(type))
        return 0;
    const char *copy = arena_strndup(&values->arena, type.pos, span_size(type));
    values->values.items[values->values.n - 1].type = copy;
    return copy ? 0 : -ENOMEM;
}

static int add_entry(struct sysfs_values *values, const char *sys, const char *entry)
{
    const char *prefix = places[values->kind].prefix;
    uint32_t number = 0;
    if (entry[0] == '.' || !str_starts_with(entry, prefix) ||
        (*prefix && str_parse_u32(entry + strlen(prefix), &number) < 0) ||
        (str_eq(prefix, "cpu") && number >= N_CPUS_MAX))
        return 0;
    if (values->kind == SYSFS_CPUIDLE)
        return add_idle_states(values, sys, number);
    size_t n_before = values->values.n;
    int r = add_value(values, values->kind == SYSFS_CPUFREQ ? "" : entry, number, "%s/%s/%s/%s",
                      sys, places[values->kind].folder, entry, places[values->kind].file);
    bool is_added = r == 0 && values->values.n > n_before;
    return is_added && values->kind == SYSFS_THERMAL ? add_type(values, sys, entry) : r;
}

struct gpu_file {
    const char *path;
    const char *name; // format of its text
};

static const struct gpu_file gpu_files[] = {
    {"class/kgsl/kgsl-3d0/devfreq/cur_freq", "hz"},
    {"class/drm/card0/gt_act_freq_mhz", "mhz"},
    {"class/drm/card0/device/pp_dpm_sclk", "table"},
};

static int add_gpu(struct sysfs_values *values, const char *sys)
{
    char text[N_TEXT_MAX];
    for (size_t i = 0; i < ELEMENTS(gpu_files); i++)
        if (text_file_read_once(text, sizeof(text), sys, "/%s", gpu_files[i].path) > 0)
            return add_value(values, gpu_files[i].name, 0, "%s/%s", sys, gpu_files[i].path);
    return 0;
}

static int find_values(struct sysfs_values *values, const char *sys)
{
    char path[PATH_MAX];
    if (values->kind == SYSFS_GPUFREQ)
        return add_gpu(values, sys);
    int n = snprintf(path, sizeof(path), "%s/%s", sys, places[values->kind].folder);
    if (n < 0 || (size_t)n >= sizeof(path))
        return -ENAMETOOLONG;
    DIR *dir CLEANUP(closedirp) = opendir(path);
    if (!dir)
        return errno == ENOMEM ? -ENOMEM : 0;
    int r = 0;
    for (const struct dirent *entry; r == 0 && (entry = readdir(dir));)
        r = add_entry(values, sys, entry->d_name);
    return r;
}

static int compare_values(const void *left, const void *right)
{
    const struct sysfs_value *a = left, *b = right;
    if (a->index != b->index)
        return a->index < b->index ? -1 : 1;
    return strverscmp(a->path, b->path);
}

// Opens the files that may stay open. Returns how many files there are in all.
static size_t open_values(struct sysfs_values *values)
{
    size_t n_readable = 0, n_open = 0;
    vec_foreach(&values->values, value) {
        int fd = open(value->path, O_RDONLY | O_CLOEXEC);
        n_readable += fd >= 0;
        if (fd >= 0 && n_open < values->n_open_max) {
            value->fd = fd;
            n_open++;
        } else {
            close_fd(fd);
        }
    }
    return n_readable;
}

int sysfs_values_open(struct sysfs_values *ret, enum sysfs_kind kind, const char *sys)
{
    struct sysfs_values values = {.kind = kind, .n_open_max = N_OPEN_MAX};
    int r = find_values(&values, sys);
    if (r == 0 && values.values.n)
        qsort(values.values.items, values.values.n, sizeof(*values.values.items), compare_values);
    if (r == 0 && open_values(&values) == 0)
        r = -ENOENT;
    if (r < 0)
        sysfs_values_close(&values);
    else
        *ret = values;
    return r;
}

void sysfs_values_close(struct sysfs_values *values)
{
    vec_foreach(&values->values, value)
        close_fd(value->fd);
    sysfs_value_vec_done(&values->values);
    arena_done(&values->arena);
}

static ssize_t read_value(struct sysfs_value *value, char *text, size_t size)
{
    if (value->fd >= 0) {
        ssize_t n = pread(value->fd, text, size, 0);
        if (n >= 0)
            return n;
    }
    int fd = open(value->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t n = pread(fd, text, size, 0);
    if (value->fd >= 0) {
        close_fd(value->fd);
        value->fd = steal_fd(&fd);
    }
    close_fd(fd);
    return n;
}

uint64_t amd_clock_mhz(const char *text, size_t size)
{
    struct span rest = span_over(text, size), line, level;
    while (span_take_line(&rest, &line)) {
        uint64_t mhz;
        line = span_trim(line);
        if (span_size(line) && line.end[-1] == '*' && span_take_word(&line, &level) &&
            span_take_u64(&line, &mhz))
            return mhz;
    }
    return 0;
}

static uint64_t number_of(const char *text, ssize_t n)
{
    struct span span = span_over(text, n > 0 ? (size_t)n : 0);
    uint64_t number;
    return span_take_u64(&span, &number) ? number : 0;
}

static void write_gpu_clock(const struct sysfs_value *value, const char *text, ssize_t n,
                            struct wire_writer *w)
{
    if (n <= 0)
        return;
    uint64_t mhz = str_eq(value->name, "table") ? amd_clock_mhz(text, (size_t)n)
                   : str_eq(value->name, "hz")  ? number_of(text, n) / 1000000
                                                : number_of(text, n);
    wire_uint(w, PB_SysStats_gpufreq_mhz, mhz);
}

static void write_thermal(const struct sysfs_value *value, const char *text, ssize_t n,
                          struct wire_writer *w)
{
    size_t mark = wire_begin(w, PB_SysStats_thermal_zone);
    wire_string(w, PB_SysStats_ThermalZone_name, value->name);
    struct span span = span_over(text, n > 0 ? (size_t)n : 0);
    uint64_t millidegrees;
    if (span_take_u64(&span,
                      &millidegrees)) // the field has no sign: negative temperatures are left out
        wire_uint(w, PB_SysStats_ThermalZone_temp, millidegrees / 1000);
    if (value->type)
        wire_string(w, PB_SysStats_ThermalZone_type, value->type);
    wire_end(w, mark);
}

// Writes a message of a name and a number.
static void write_named(struct wire_writer *w, uint32_t field, uint32_t name, uint32_t number,
                        const struct sysfs_value *value, const char *text, ssize_t n)
{
    if (n <= 0)
        return;
    size_t mark = wire_begin(w, field);
    wire_string(w, name, value->name);
    wire_uint(w, number, number_of(text, n));
    wire_end(w, mark);
}

// Values are sorted by cpu, so that the states of one cpu are adjacent.
static void write_cpuidle(struct sysfs_values *values, struct wire_writer *w)
{
    char text[N_TEXT_MAX];
    struct sysfs_value *value = values->values.items, *end = value + values->values.n;
    while (value < end) {
        size_t mark = wire_begin(w, PB_SysStats_cpuidle_state);
        uint32_t cpu = value->index;
        wire_uint(w, PB_SysStats_CpuIdleState_cpu_id, cpu);
        for (; value < end && value->index == cpu; value++)
            write_named(w, PB_SysStats_CpuIdleState_cpuidle_state_entry,
                        PB_SysStats_CpuIdleStateEntry_state,
                        PB_SysStats_CpuIdleStateEntry_duration_us, value, text,
                        read_value(value, text, sizeof(text)));
        wire_end(w, mark);
    }
}

// The position in the list is the cpu's number. Missing cpus count 0.
static void write_cpufreq(struct sysfs_values *values, struct wire_writer *w)
{
    char text[N_TEXT_MAX];
    uint32_t next = 0;
    vec_foreach(&values->values, value) {
        for (; next < value->index; next++)
            wire_uint(w, PB_SysStats_cpufreq_khz, 0);
        ssize_t n = read_value(value, text, sizeof(text));
        wire_uint(w, PB_SysStats_cpufreq_khz, number_of(text, n));
        next = value->index + 1;
    }
}

void sysfs_values_write(struct sysfs_values *values, struct wire_writer *w)
{
    if (values->kind == SYSFS_CPUIDLE) {
        write_cpuidle(values, w);
        return;
    }
    if (values->kind == SYSFS_CPUFREQ) {
        write_cpufreq(values, w);
        return;
    }
    char text[N_TEXT_MAX];
    vec_foreach(&values->values, value) {
        ssize_t n = read_value(value, text, sizeof(text));
        if (values->kind == SYSFS_THERMAL)
            write_thermal(value, text, n, w);
        else if (values->kind == SYSFS_DEVFREQ)
            write_named(w, PB_SysStats_devfreq, PB_SysStats_DevfreqValue_key,
                        PB_SysStats_DevfreqValue_value, value, text, n);
        else
            write_gpu_clock(value, text, n, w);
    }
}
