// SPDX-License-Identifier: Apache-2.0
//
// CpuInfo: the CPUs. CPUs of the same kind are a cluster. CPUs of a cluster have the same capacity
// or, if the kernel has no capacities, the same highest frequency.
#include <errno.h>
#include <stdlib.h>

#include "common/elements.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

struct cpu_facts {
    struct wire_field processor;
    uint32_t max_khz, capacity, cluster;
    bool has_capacity, is_known;
    int64_t arg_set;
};

struct cpus {
    struct cpu_facts items[CPUS_MAX];
    size_t n;
};

static int64_t cpu_args(struct import *im, const union message_CpuInfo_Cpu *part)
{
    static const char *const keys[] = {
        NULL,           "arm_cpu_implementer", "arm_cpu_architecture", "arm_cpu_variant",
        "arm_cpu_part", "arm_cpu_revision",
    };
    // Names of features, by bit. Later versions only add bits.
    static const char *const features[] = {"cpu_features.mte", "cpu_features.mte3"};
    uint64_t bits = field_u64(&part->features);
    struct arg args[ELEMENTS(keys) + ELEMENTS(features) + 1];
    size_t n = 0;
    if (field_present(&part->arm_identifier)) {
        MESSAGE(arm, CpuInfo_ArmCpuIdentifier, &part->arm_identifier);
        for (uint32_t i = 1; i < ELEMENTS(keys); i++)
            ARG_APPEND(args, n, arg_uint(keys[i], (uint32_t)field_u64(&arm.at[i])));
    }
    for (size_t i = 0; i < ELEMENTS(features); i++)
        if (bits >> i & 1)
            ARG_APPEND(args, n, arg_bool(features[i], true));
    if (bits)
        ARG_APPEND(args, n, arg_uint("cpu_features.raw_bitmap", bits));
    if (bits >> ELEMENTS(features))
        import_log(im, STAT_cpu_info_unknown_cpu_features, NULL, NULL, 0);
    return args_add(&im->args, args, n);
}

static void frequency_add(struct import *im, uint32_t number, uint32_t khz)
{
    struct cell *row = database_row(im->db, TABLE__cpu_freq, NULL);
    cell_int(row, COL__cpu_freq_ucpu, ucpu_of(im, number));
    cell_int(row, COL__cpu_freq_freq, khz);
}

static void cpu_read(struct import *im, uint32_t number, struct cpu_facts *cpu,
                     const struct wire_field *message)
{
    MESSAGE(part, CpuInfo_Cpu, message);
    *cpu = (struct cpu_facts){
        .processor = part.processor,
        .capacity = (uint32_t)field_u64(&part.capacity),
        .has_capacity = field_present(&part.capacity),
        .is_known = true,
        .arg_set = cpu_args(im, &part),
    };
    struct values values = values_of(message, PB_CpuInfo_Cpu_frequencies);
    uint64_t khz;
    while (values_next(&values, &khz)) {
        frequency_add(im, number, (uint32_t)khz);
        if ((uint32_t)khz > cpu->max_khz)
            cpu->max_khz = (uint32_t)khz;
    }
}

static int number_compare(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return left < right ? -1 : left > right;
}

// Numbers the clusters from 0, the weakest first.
static void clusters_find(struct cpus *cpus)
{
    uint32_t powers[CPUS_MAX];
    bool by_capacity = true, by_frequency = true;
    for (size_t i = 0; i < cpus->n; i++) {
        by_capacity &= cpus->items[i].has_capacity;
        by_frequency &= cpus->items[i].max_khz != 0;
    }
    if (!by_capacity && !by_frequency)
        return;
    for (size_t i = 0; i < cpus->n; i++)
        powers[i] = by_capacity ? cpus->items[i].capacity : cpus->items[i].max_khz;
    qsort(powers, cpus->n, sizeof(*powers), number_compare);
    for (size_t i = 0; i < cpus->n; i++) {
        uint32_t power = by_capacity ? cpus->items[i].capacity : cpus->items[i].max_khz;
        uint32_t cluster = 0;
        for (size_t k = 1; k < cpus->n && powers[k - 1] < power; k++)
            cluster += powers[k] != powers[k - 1];
        cpus->items[i].cluster = cluster;
    }
}

static void cpu_info_now(struct import *im, const struct packet *packet)
{
    struct cpus *cpus = packet->own;
    struct fields each = fields_of(packet->message, PB_CpuInfo_cpus);
    size_t n = 0;
    for (; n < CPUS_MAX && fields_next(&each); n++)
        cpu_read(im, (uint32_t)n, &cpus->items[n], &each.field);
    if (!n) {
        import_log(im, STAT_cpu_info_empty, NULL, NULL, 0);
        return;
    }
    cpus->n = n;
    clusters_find(cpus);
}

static void cpu_info_finish(struct import *im, void *state)
{
    const struct cpus *cpus = state;
    vec_foreach(&im->tracks.items, track)
        if (track->machine == im->machine->number && track->cpu >= 0 && track->cpu < CPUS_MAX)
            cpus_see(im, (uint32_t)track->cpu);
    for (uint32_t i = 0; i < CPUS_MAX; i++) {
        const struct cpu_facts *cpu = &cpus->items[i];
        bool is_known = i < cpus->n && cpu->is_known;
        if (!is_known && !im->machine->cpus[i])
            continue;
        struct cell *row = database_row_with_id(im->db, TABLE_cpu, ucpu_of(im, i));
        cell_int(row, COL_cpu_cpu, i);
        cell_int(row, COL_cpu_machine_id, im->machine->number);
        cell_int(row, COL_cpu_cluster_id, is_known ? cpu->cluster : 0);
        if (!is_known)
            continue;
        cell_bytes(row, COL_cpu_processor, cpu->processor.data, cpu->processor.size);
        if (cpu->has_capacity)
            cell_int(row, COL_cpu_capacity, cpu->capacity);
        cell_arg_set(row, COL_cpu_arg_set_id, cpu->arg_set);
    }
}

const struct importer importer_cpu_info = {
    .field = PB_TracePacket_cpu_info,
    .now = cpu_info_now,
    .state_size = sizeof(struct cpus),
    .write = cpu_info_finish,
};
