// SPDX-License-Identifier: Apache-2.0
//
// SysStats: counters of the whole machine, from /proc and /sys. Every value becomes a row of
// counter; names, types and units of the tracks are Perfetto's. Disk statistics are recorded as
// totals and shown as differences to the previous sample.
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/elements.h"
#include "common/map.h"
#include "common/memory.h"
#include "converter/import/gpu/gpu.h"
#include "converter/import/importer.h"
#include "protos/config/sys_stats_config.pb-c.h"
#include "protos/fields.h"

#define NAME_MAX_SIZE   1024
#define VMSTAT_PREFIX   "VMSTAT_"
#define VMSTAT_MAX      512 // larger enum values are not known
#define MB_SECTORS      2048.0
#define SEC_MSEC        1000.0
#define BUDDY_ORDER_MAX 40

#define N_TRANSFERS 3 // reads, writes, discards

struct disk {
    int64_t sectors[N_TRANSFERS], ms[N_TRANSFERS];
    int64_t flushes, flush_ms;
};
VEC_DEFINE(disk_vec, struct disk);

struct sys_stats {
    struct strset disk_names;
    struct disk_vec disks;          // last totals, by number in disk_names
    char *vmstat_names[VMSTAT_MAX]; // owned, made when first seen
};

static const char *const meminfo_names[] = {
    [PB_MEMINFO_UNSPECIFIED] = "MemUnspecified",
    [PB_MEMINFO_MEM_TOTAL] = "MemTotal",
    [PB_MEMINFO_MEM_FREE] = "MemFree",
    [PB_MEMINFO_MEM_AVAILABLE] = "MemAvailable",
    [PB_MEMINFO_BUFFERS] = "Buffers",
    [PB_MEMINFO_CACHED] = "Cached",
    [PB_MEMINFO_SWAP_CACHED] = "SwapCached",
    [PB_MEMINFO_ACTIVE] = "Active",
    [PB_MEMINFO_INACTIVE] = "Inactive",
    [PB_MEMINFO_ACTIVE_ANON] = "Active(anon)",
    [PB_MEMINFO_INACTIVE_ANON] = "Inactive(anon)",
    [PB_MEMINFO_ACTIVE_FILE] = "Active(file)",
    [PB_MEMINFO_INACTIVE_FILE] = "Inactive(file)",
    [PB_MEMINFO_UNEVICTABLE] = "Unevictable",
    [PB_MEMINFO_MLOCKED] = "Mlocked",
    [PB_MEMINFO_SWAP_TOTAL] = "SwapTotal",
    [PB_MEMINFO_SWAP_FREE] = "SwapFree",
    [PB_MEMINFO_DIRTY] = "Dirty",
    [PB_MEMINFO_WRITEBACK] = "Writeback",
    [PB_MEMINFO_ANON_PAGES] = "AnonPages",
    [PB_MEMINFO_MAPPED] = "Mapped",
    [PB_MEMINFO_SHMEM] = "Shmem",
    [PB_MEMINFO_SLAB] = "Slab",
    [PB_MEMINFO_SLAB_RECLAIMABLE] = "SReclaimable",
    [PB_MEMINFO_SLAB_UNRECLAIMABLE] = "SUnreclaim",
    [PB_MEMINFO_KERNEL_STACK] = "KernelStack",
    [PB_MEMINFO_PAGE_TABLES] = "PageTables",
    [PB_MEMINFO_COMMIT_LIMIT] = "CommitLimit",
    [PB_MEMINFO_COMMITED_AS] = "Committed_AS",
    [PB_MEMINFO_VMALLOC_TOTAL] = "VmallocTotal",
    [PB_MEMINFO_VMALLOC_USED] = "VmallocUsed",
    [PB_MEMINFO_VMALLOC_CHUNK] = "VmallocChunk",
    [PB_MEMINFO_CMA_TOTAL] = "CmaTotal",
    [PB_MEMINFO_CMA_FREE] = "CmaFree",
    [PB_MEMINFO_GPU] = "Gpu",
    [PB_MEMINFO_ZRAM] = "Zram",
    [PB_MEMINFO_MISC] = "Misc",
    [PB_MEMINFO_ION_HEAP] = "ION_heap",
    [PB_MEMINFO_ION_HEAP_POOL] = "ION_heap_pool",
};

// Adds a value to the counter track of `spec`. The format and its values give the track's name.
__attribute__((format(printf, 6, 7))) static void push(struct import *im, int64_t ts, double value,
                                                       struct track_spec spec, int64_t arg_set,
                                                       const char *format, ...)
{
    char name[NAME_MAX_SIZE];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(name, sizeof(name), format, args);
    va_end(args);
    spec.counter = true;
    spec.name = (struct slice_name){name, n < 0                   ? 0
                                          : n < (int)sizeof(name) ? (size_t)n
                                                                  : sizeof(name) - 1};
    counter_push(im, ts, tracks_get(&im->tracks, &spec), value, arg_set);
}

static struct track_dimension text_dimension(const char *name, const struct wire_field *field)
{
    return dimension_name(name, field_name(field));
}

static struct track_spec keyed(const char *type, const char *unit, struct track_dimension key)
{
    return (struct track_spec){.type = type, .unit = unit, .dimensions = {key}};
}

static int text_width(const struct wire_field *field)
{
    return field->size < NAME_MAX_SIZE ? (int)field->size : NAME_MAX_SIZE;
}

static void meminfo(struct import *im, int64_t ts, const struct wire_field *field)
{
    MESSAGE(value, SysStats_MeminfoValue, field);
    uint64_t key = field_u64(&value.key);
    if (key >= ELEMENTS(meminfo_names) || !meminfo_names[key]) {
        stats_add(&im->stats, STAT_meminfo_unknown_keys, 1);
        return;
    }
    const char *name = meminfo_names[key];
    push(im, ts, (double)field_u64(&value.value) * 1024,
         keyed("meminfo", "bytes", dimension_name("meminfo_key", slice_name(name))), ARG_SET_NONE,
         "%s", name);
}

// Returns the kernel's name of a counter: the enum's name in lower case.
static const char *vmstat_name(struct sys_stats *state, uint64_t key)
{
    if (key >= VMSTAT_MAX)
        return NULL;
    if (state->vmstat_names[key])
        return state->vmstat_names[key];
    const ProtobufCEnumValue *value =
        protobuf_c_enum_descriptor_get_value(&pb__vmstat_counters__descriptor, (int)key);
    char *name = value && key ? strdup(value->name + sizeof(VMSTAT_PREFIX) - 1) : NULL;
    if (value && key && !name)
        memory_refused();
    for (char *c = name; c && *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return state->vmstat_names[key] = name;
}

static void vmstat(struct import *im, struct sys_stats *state, int64_t ts,
                   const struct wire_field *field)
{
    MESSAGE(value, SysStats_VmstatValue, field);
    const char *name = vmstat_name(state, field_u64(&value.key));
    if (!name) {
        stats_add(&im->stats, STAT_vmstat_unknown_keys, 1);
        return;
    }
    push(im, ts, (double)field_u64(&value.value),
         keyed("vmstat", NULL, dimension_name("vmstat_key", slice_name(name))), ARG_SET_NONE, "%s",
         name);
}

static void cpu_times(struct import *im, int64_t ts, const struct wire_field *field)
{
    static const struct {
        uint32_t field;
        const char *key;
    } times[] = {
        {PB_SysStats_CpuTimes_user_ns, "user_ns"},
        {PB_SysStats_CpuTimes_user_nice_ns, "user_nice_ns"},
        {PB_SysStats_CpuTimes_system_mode_ns, "system_mode_ns"},
        {PB_SysStats_CpuTimes_idle_ns, "idle_ns"},
        {PB_SysStats_CpuTimes_io_wait_ns, "io_wait_ns"},
        {PB_SysStats_CpuTimes_irq_ns, "irq_ns"},
        {PB_SysStats_CpuTimes_softirq_ns, "softirq_ns"},
        {PB_SysStats_CpuTimes_steal_ns, "steal_ns"},
    };
    MESSAGE(value, SysStats_CpuTimes, field);
    if (!field_present(&value.cpu_id)) {
        stats_add(&im->stats, STAT_invalid_cpu_times, 1);
        return;
    }
    uint32_t cpu = (uint32_t)field_u64(&value.cpu_id);
    for (size_t i = 0; i < ELEMENTS(times); i++) {
        struct track_spec spec = {
            .type = "cpustat",
            .dimensions = {dimension_int("cpu", cpu),
                           dimension_text("cpustat_key", times[i].key, strlen(times[i].key))},
        };
        push(im, ts, (double)field_u64(&value.at[times[i].field]), spec, ARG_SET_NONE,
             "cpu.times.%s", times[i].key);
    }
}

static void interrupts(struct import *im, int64_t ts, const struct wire_field *field,
                       const char *type)
{
    MESSAGE(value, SysStats_InterruptCount, field);
    uint32_t irq = (uint32_t)field_u64(&value.irq);
    push(im, ts, (double)field_u64(&value.count), keyed(type, NULL, dimension_int("irq", irq)),
         ARG_SET_NONE, "%s (id: %u)", type, irq);
}

static void total(struct import *im, int64_t ts, const struct wire_field *field, const char *type)
{
    push(im, ts, (double)field_u64(field), (struct track_spec){.type = type}, ARG_SET_NONE, "%s",
         type);
}

static void devfreq(struct import *im, int64_t ts, const struct wire_field *field)
{
    MESSAGE(value, SysStats_DevfreqValue, field);
    push(im, ts, (double)field_u64(&value.value),
         keyed("clock_frequency", NULL, text_dimension("linux_device", &value.key)), ARG_SET_NONE,
         "%.*s Frequency", text_width(&value.key), field_text(&value.key));
}

static void cpufreq(struct import *im, int64_t ts, const struct wire_field *field, uint32_t *cpu)
{
    struct wire_packed values = {0};
    uint64_t khz;
    while (wire_packed_next(&values, field, WIRE_VARINT, &khz))
        push(im, ts, (double)khz, keyed("cpu_frequency", NULL, dimension_int("cpu", (*cpu)++)),
             ARG_SET_NONE, "cpufreq");
}

static void gpufreq(struct import *im, int64_t ts, const struct wire_field *field)
{
    struct wire_packed values = {0};
    uint64_t mhz;
    while (wire_packed_next(&values, field, WIRE_VARINT, &mhz)) {
        struct track_spec spec = {
            .type = "gpu_frequency",
            .unit = "kHz",
            .dimensions = {dimension_int("ugpu", gpus_get(im, 0)), dimension_int("gpu", 0)},
        };
        push(im, ts, (double)mhz, spec, ARG_SET_NONE, "gpufreq");
    }
}

static void buddyinfo(struct import *im, int64_t ts, const struct wire_field *field)
{
    MESSAGE(zone, SysStats_BuddyInfo, field);
    struct values values = values_of(field, PB_SysStats_BuddyInfo_order_pages);
    uint64_t n_free;
    for (unsigned order = 0; order < BUDDY_ORDER_MAX && values_next(&values, &n_free); order++) {
        uint32_t chunk_kb = (uint32_t)(((uint64_t)im->machine->page_size << order) / 1024);
        struct track_spec spec = {
            .type = "buddyinfo",
            .dimensions = {text_dimension("buddyinfo_node", &zone.node),
                           text_dimension("buddyinfo_zone", &zone.zone),
                           dimension_int("buddyinfo_chunk_size_kb", chunk_kb)},
        };
        push(im, ts, (double)n_free, spec, ARG_SET_NONE, "mem.buddyinfo[%.*s][%.*s][%u kB]",
             text_width(&zone.node), field_text(&zone.node), text_width(&zone.zone),
             field_text(&zone.zone), chunk_kb);
    }
}

static void disk_push(struct import *im, int64_t ts, const struct wire_field *device,
                      const char *what, const char *unit, double value)
{
    struct track_spec spec = {
        .type = "diskstat",
        .unit = unit,
        .dimensions = {text_dimension("device_name", device),
                       dimension_text("counter_name", what, strlen(what))},
    };
    push(im, ts, value, spec, ARG_SET_NONE, "diskstat.[%.*s].%s", text_width(device),
         field_text(device), what);
}

static double since(int64_t now, int64_t before)
{
    return (double)(int64_t)((uint64_t)now - (uint64_t)before);
}

static double per_second(double amount, double msec)
{
    return msec == 0 ? 0 : amount * SEC_MSEC / msec;
}

static void disk_differences(struct import *im, int64_t ts, const struct wire_field *device,
                             const struct disk *now, const struct disk *before)
{
    static const char *const names[N_TRANSFERS][2] = {
        {"read_amount", "read_throughput"},
        {"write_amount", "write_throughput"},
        {"discard_amount", "discard_throughput"},
    };
    for (size_t i = 0; i < N_TRANSFERS; i++) {
        double mb = since(now->sectors[i], before->sectors[i]) / MB_SECTORS;
        disk_push(im, ts, device, names[i][0], "MB", mb);
        disk_push(im, ts, device, names[i][1], "MB/s",
                  per_second(mb, since(now->ms[i], before->ms[i])));
    }
    disk_push(im, ts, device, "flush_amount", "count", since(now->flushes, before->flushes));
    disk_push(im, ts, device, "flush_time", "ms", since(now->flush_ms, before->flush_ms));
}

static void diskstat(struct import *im, struct sys_stats *state, int64_t ts,
                     const struct wire_field *field)
{
    MESSAGE(value, SysStats_DiskStat, field);
    const struct wire_field *device = &value.device_name;
    struct disk now = {
        .sectors = {field_i64(&value.read_sectors), field_i64(&value.write_sectors),
                    field_i64(&value.discard_sectors)},
        .ms = {field_i64(&value.read_time_ms), field_i64(&value.write_time_ms),
               field_i64(&value.discard_time_ms)},
        .flushes = field_i64(&value.flush_count),
        .flush_ms = field_i64(&value.flush_time_ms),
    };
    uint32_t id = strset_add(&state->disk_names, field_text(device), device->size);
    if (id == STRSET_NONE) {
        import_fail(im, -ENOMEM);
        return;
    }
    if (id == state->disks.n) {
        import_fail(im, disk_vec_push(&state->disks, now));
        return;
    }
    disk_differences(im, ts, device, &now, &state->disks.items[id]);
    state->disks.items[id] = now;
}

static void psi(struct import *im, int64_t ts, const struct wire_field *field)
{
    static const char *const resources[] = {
        "resource.unspecified",
        "cpu.some",
        "cpu.full",
        "io.some",
        "io.full",
        "mem.some",
        "mem.full",
    };
    MESSAGE(sample, SysStats_PsiSample, field);
    uint64_t resource = field_u64(&sample.resource);
    if (resource >= ELEMENTS(resources)) {
        stats_add(&im->stats, STAT_psi_unknown_resource, 1);
        return;
    }
    const char *key = resources[resource];
    push(im, ts, (double)field_u64(&sample.total_ns),
         keyed("psi", NULL, dimension_name("psi_resource", slice_name(key))), ARG_SET_NONE,
         "psi.%s", key);
}

static void thermal(struct import *im, int64_t ts, const struct wire_field *field)
{
    MESSAGE(zone, SysStats_ThermalZone, field);
    push(im, ts, (double)field_u64(&zone.temp),
         keyed("thermal_temperature_sys", "C", text_dimension("thermal_zone", &zone.type)),
         ARG_SET_NONE, "%.*s", text_width(&zone.type), field_text(&zone.type));
}

static void cpuidle(struct import *im, int64_t ts, const struct wire_field *field)
{
    MESSAGE(states, SysStats_CpuIdleState, field);
    uint32_t cpu = (uint32_t)field_u64(&states.cpu_id);
    for (struct fields each = fields_of(field, PB_SysStats_CpuIdleState_cpuidle_state_entry);
         fields_next(&each);) {
        MESSAGE(entry, SysStats_CpuIdleStateEntry, &each.field);
        const struct wire_field *name = &entry.state;
        struct track_spec spec = {
            .type = "cpu_idle_state",
            .unit = "us",
            .dimensions = {dimension_int("cpu", cpu), text_dimension("state", name)},
        };
        push(im, ts, (double)field_u64(&entry.duration_us), spec, ARG_SET_NONE, "cpuidle%u.%.*s",
             cpu, text_width(name), field_text(name));
    }
}

static void slab(struct import *im, int64_t ts, const struct wire_field *field)
{
    MESSAGE(value, SysStats_SlabInfo, field);
    uint64_t n_pages = field_u64(&value.pages_per_slab);
    uint64_t n_slabs = field_u64(&value.num_slabs);
    struct arg set[] = {arg_uint("pages_per_slab", n_pages), arg_uint("num_slabs", n_slabs)};
    push(im, ts, (double)n_pages * (double)n_slabs * im->machine->page_size,
         keyed("slabinfo", "bytes", text_dimension("slab_name", &value.name)),
         args_add(&im->args, set, 2), "mem.slab.%.*s", text_width(&value.name),
         field_text(&value.name));
}

static void sys_stats_sorted(struct import *im, const struct packet *packet)
{
    struct sys_stats *state = packet->own;
    int64_t ts = packet->ts;
    uint32_t cpu = 0;
    struct wire_reader reader = wire_sub(packet->message);
    struct wire_field field;
    while (!import_failed(im) && wire_next(&reader, &field)) {
        switch (field.number) {
        case PB_SysStats_meminfo:
            meminfo(im, ts, &field);
            break;
        case PB_SysStats_vmstat:
            vmstat(im, state, ts, &field);
            break;
        case PB_SysStats_cpu_stat:
            cpu_times(im, ts, &field);
            break;
        case PB_SysStats_num_irq:
            interrupts(im, ts, &field, "num_irq");
            break;
        case PB_SysStats_num_softirq:
            interrupts(im, ts, &field, "num_softirq");
            break;
        case PB_SysStats_num_forks:
            total(im, ts, &field, "num_forks");
            break;
        case PB_SysStats_num_irq_total:
            total(im, ts, &field, "num_irq_total");
            break;
        case PB_SysStats_num_softirq_total:
            total(im, ts, &field, "num_softirq_total");
            break;
        case PB_SysStats_devfreq:
            devfreq(im, ts, &field);
            break;
        case PB_SysStats_cpufreq_khz:
            cpufreq(im, ts, &field, &cpu);
            break;
        case PB_SysStats_gpufreq_mhz:
            gpufreq(im, ts, &field);
            break;
        case PB_SysStats_buddy_info:
            buddyinfo(im, ts, &field);
            break;
        case PB_SysStats_disk_stat:
            diskstat(im, state, ts, &field);
            break;
        case PB_SysStats_psi:
            psi(im, ts, &field);
            break;
        case PB_SysStats_thermal_zone:
            thermal(im, ts, &field);
            break;
        case PB_SysStats_cpuidle_state:
            cpuidle(im, ts, &field);
            break;
        case PB_SysStats_slab_info:
            slab(im, ts, &field);
            break;
        }
    }
}

static void sys_stats_done(void *userdata)
{
    struct sys_stats *state = userdata;
    for (size_t i = 0; i < VMSTAT_MAX; i++)
        free(state->vmstat_names[i]);
    strset_done(&state->disk_names);
    disk_vec_done(&state->disks);
}

const struct importer importer_sys_stats = {
    .field = PB_TracePacket_sys_stats,
    .sorted = sys_stats_sorted,
    .state_size = sizeof(struct sys_stats),
    .done = sys_stats_done,
};
