// SPDX-License-Identifier: Apache-2.0
//
// A machine with many cpus has thousands of idle states, and a process often has only 1024 file
// descriptors. So a limited number of files stays open; the others are opened for each sample. The
// descriptor of a cpu that went offline never works again, so after a failed read the path is
// opened again once.
#include "producer/sources/sys_stats/sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "producer/ground/proc_text.h"
#include "protos/fields.h"

#define N_OPEN_MAX   128
#define N_CPUS_MAX   8192
#define N_VALUES_MAX 16384
#define N_TEXT_MAX   4096

static int add_value(struct sysfs_values *values, const char *name, uint32_t index,
                     const char *format, const char *dir, const char *entry, const char *file)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof(path), format, dir, entry, file);
    if (n < 0 || (size_t)n >= sizeof(path) || values->values.n >= N_VALUES_MAX)
        return 0;
    struct sysfs_value value = {.index = index, .fd = -1};
    value.path = arena_strndup(&values->arena, path, (size_t)n);
    value.name = arena_strndup(&values->arena, name, strlen(name));
    if (!value.path || !value.name)
        return -ENOMEM;
    return sysfs_value_vec_push(&values->values, value);
}

// Matches PREFIX + decimal number and nothing else.
static bool numbered(const char *entry, const char *prefix, uint32_t *ret)
{
    uint32_t number;
    if (!str_starts_with(entry, prefix) || str_parse_u32(entry + strlen(prefix), &number) < 0)
        return false;
    *ret = number;
    return true;
}

static int add_idle_states(struct sysfs_values *values, const char *cpu_dir, uint32_t cpu)
{
    char name[64];
    for (unsigned state = 0; state < 64; state++) {
        ssize_t n = text_file_read_once(name, sizeof(name), cpu_dir, "/cpu%u/cpuidle/state%u/name",
                                        cpu, state);
        if (n < 0)
            break;
        struct span trimmed = span_trim(span_over(name, (size_t)n));
        char text[64], entry[64];
        snprintf(text, sizeof(text), "%.*s", (int)span_size(trimmed), trimmed.pos);
        snprintf(entry, sizeof(entry), "cpu%u/cpuidle/state%u", cpu, state);
        int r = add_value(values, text, cpu, "%s/%s/%s", cpu_dir, entry, "time");
        if (r < 0)
            return r;
    }
    return 0;
}

static int add_cpus(struct sysfs_values *values, const char *sys, const struct dirent *entry)
{
    char cpu_dir[PATH_MAX];
    snprintf(cpu_dir, sizeof(cpu_dir), "%.*s/devices/system/cpu", PATH_MAX - 64, sys);
    uint32_t cpu;
    if (!numbered(entry->d_name, "cpu", &cpu) || cpu >= N_CPUS_MAX)
        return 0;
    if (values->kind == SYSFS_CPUIDLE)
        return add_idle_states(values, cpu_dir, cpu);
    return add_value(values, "", cpu, "%s/%s/%s", cpu_dir, entry->d_name,
                     "cpufreq/scaling_cur_freq");
}

static int add_thermal(struct sysfs_values *values, const char *sys, const struct dirent *entry)
{
    uint32_t number;
    if (!numbered(entry->d_name, "thermal_zone", &number))
        return 0;
    size_t n_before = values->values.n;
    int r = add_value(values, entry->d_name, number, "%s/class/thermal/%s/%s", sys, entry->d_name,
                      "temp");
    if (r < 0 || values->values.n == n_before)
        return r;
    char type[256];
    ssize_t n =
        text_file_read_once(type, sizeof(type), sys, "/class/thermal/%s/type", entry->d_name);
    if (n <= 0)
        return 0;
    struct span trimmed = span_trim(span_over(type, (size_t)n));
    const char *copy = arena_strndup(&values->arena, trimmed.pos, span_size(trimmed));
    values->values.items[n_before].type = copy;
    return copy ? 0 : -ENOMEM;
}

static int add_devfreq(struct sysfs_values *values, const char *sys, const struct dirent *entry)
{
    if (entry->d_name[0] == '.')
        return 0;
    return add_value(values, entry->d_name, 0, "%s/class/devfreq/%s/%s", sys, entry->d_name,
                     "cur_freq");
}

typedef int (*add_entry_fn)(struct sysfs_values *values, const char *sys,
                            const struct dirent *entry);

static int scan_dir(struct sysfs_values *values, const char *sys, const char *path,
                    add_entry_fn add)
{
    char full[PATH_MAX];
    int n = snprintf(full, sizeof(full), "%s/%s", sys, path);
    if (n < 0 || (size_t)n >= sizeof(full))
        return -ENAMETOOLONG;
    DIR *dir = opendir(full);
    if (!dir)
        return errno == ENOMEM ? -ENOMEM : 0;
    int r = 0;
    for (const struct dirent *entry; r == 0 && (entry = readdir(dir));)
        r = add(values, sys, entry);
    closedir(dir);
    return r;
}

struct gpu_file {
    const char *path;
    const char *name; // how its text is read
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
            return add_value(values, gpu_files[i].name, 0, "%s%s/%s", sys, "", gpu_files[i].path);
    return 0;
}

static int compare_values(const void *left, const void *right)
{
    const struct sysfs_value *a = left, *b = right;
    if (a->index != b->index)
        return a->index < b->index ? -1 : 1;
    return strverscmp(a->path, b->path);
}

static int find_values(struct sysfs_values *values, const char *sys)
{
    switch (values->kind) {
    case SYSFS_CPUFREQ:
    case SYSFS_CPUIDLE:
        return scan_dir(values, sys, "devices/system/cpu", add_cpus);
    case SYSFS_THERMAL:
        return scan_dir(values, sys, "class/thermal", add_thermal);
    case SYSFS_DEVFREQ:
        return scan_dir(values, sys, "class/devfreq", add_devfreq);
    case SYSFS_GPUFREQ:
        return add_gpu(values, sys);
    }
    return 0;
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
    *ret = (struct sysfs_values){.kind = kind, .n_open_max = N_OPEN_MAX};
    int r = find_values(ret, sys);
    if (r == 0) {
        if (ret->values.n)
            qsort(ret->values.items, ret->values.n, sizeof(*ret->values.items), compare_values);
        if (open_values(ret) == 0)
            r = -ENOENT;
    }
    if (r < 0)
        sysfs_values_close(ret);
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

static void write_devfreq(const struct sysfs_value *value, const char *text, ssize_t n,
                          struct wire_writer *w)
{
    if (n <= 0)
        return;
    size_t mark = wire_begin(w, PB_SysStats_devfreq);
    wire_string(w, PB_SysStats_DevfreqValue_key, value->name);
    wire_uint(w, PB_SysStats_DevfreqValue_value, number_of(text, n));
    wire_end(w, mark);
}

static void write_idle_state(const struct sysfs_value *value, const char *text, ssize_t n,
                             struct wire_writer *w)
{
    if (n <= 0)
        return;
    size_t mark = wire_begin(w, PB_SysStats_CpuIdleState_cpuidle_state_entry);
    wire_string(w, PB_SysStats_CpuIdleStateEntry_state, value->name);
    wire_uint(w, PB_SysStats_CpuIdleStateEntry_duration_us, number_of(text, n));
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
            write_idle_state(value, text, read_value(value, text, sizeof(text)), w);
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
            write_devfreq(value, text, n, w);
        else
            write_gpu_clock(value, text, n, w);
    }
}
