// SPDX-License-Identifier: Apache-2.0
//
// The packets are written when the session starts, and again when a packet makes readers drop their
// state. They survive the wrap of a ring.
#include "producer/sources/source.h"

#include <errno.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/memory.h"
#include "common/vec.h"
#include "producer/ground/proc_text.h"
#include "producer/sources/system_info/system_info_texts.h"
#include "protos/fields.h"

#define TEXT_BYTES       (1u << 20) // cpuinfo takes 1.5 KB per cpu
#define FREQUENCY_BYTES  4096
#define FREQUENCIES_ROOM (256u << 10) // of all cpus

enum retained_key {
    KEY_CPU_INFO = 1,
    KEY_INTERRUPT_INFO,
};

VEC_DEFINE(frequency_vec, uint32_t);

struct system_info {
    struct source_env env;
    bool with_irq_names;
    uint64_t n_written;
};

static int compare_frequencies(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return a < b ? -1 : a > b;
}

static void read_frequencies(const struct system_info *info, uint32_t cpu, const char *file,
                             struct frequency_vec *ret)
{
    char text[FREQUENCY_BYTES];
    struct span rest = text_file_span(text, sizeof(text), info->env.roots->sys,
                                      "/devices/system/cpu/cpu%u/cpufreq/%s", cpu, file);
    uint64_t khz;
    while (span_take_u64(&rest, &khz))
        if (khz <= UINT32_MAX && frequency_vec_push(ret, (uint32_t)khz) < 0)
            return;
}

static void write_frequencies(const struct system_info *info, uint32_t cpu, struct wire_writer *w)
{
    struct frequency_vec all = {0};
    read_frequencies(info, cpu, "scaling_available_frequencies", &all);
    read_frequencies(info, cpu, "scaling_boost_frequencies", &all);
    if (all.n)
        qsort(all.items, all.n, sizeof(*all.items), compare_frequencies);
    for (size_t i = 0; i < all.n; i++)
        if (i == 0 || all.items[i] != all.items[i - 1])
            wire_uint(w, PB_CpuInfo_Cpu_frequencies, all.items[i]);
    frequency_vec_done(&all);
}

static void write_capacity(const struct system_info *info, uint32_t cpu, struct wire_writer *w)
{
    char text[32];
    struct span rest = text_file_span(text, sizeof(text), info->env.roots->sys,
                                      "/devices/system/cpu/cpu%u/cpu_capacity", cpu);
    uint64_t capacity;
    if (span_take_u64(&rest, &capacity))
        wire_uint(w, PB_CpuInfo_Cpu_capacity, (uint32_t)capacity);
}

static void write_cpu(const struct system_info *info, const struct cpu_info *cpu,
                      struct wire_writer *w)
{
    size_t mark = wire_begin(w, PB_CpuInfo_cpus);
    if (span_size(cpu->processor))
        wire_text(w, PB_CpuInfo_Cpu_processor, cpu->processor.pos, span_size(cpu->processor));
    else
        wire_string(w, PB_CpuInfo_Cpu_processor, "unknown");
    write_frequencies(info, cpu->number, w);
    write_capacity(info, cpu->number, w);
    if (cpu->identifiers == CPU_ALL_IDENTIFIERS) {
        size_t inner = wire_begin(w, PB_CpuInfo_Cpu_arm_identifier);
        wire_uint(w, PB_CpuInfo_ArmCpuIdentifier_implementer, cpu->implementer);
        wire_uint(w, PB_CpuInfo_ArmCpuIdentifier_architecture, cpu->architecture);
        wire_uint(w, PB_CpuInfo_ArmCpuIdentifier_variant, cpu->variant);
        wire_uint(w, PB_CpuInfo_ArmCpuIdentifier_part, cpu->part);
        wire_uint(w, PB_CpuInfo_ArmCpuIdentifier_revision, cpu->revision);
        wire_end(w, inner);
    }
    if (cpu->features)
        wire_uint(w, PB_CpuInfo_Cpu_features, cpu->features);
    wire_end(w, mark);
}

static size_t write_cpu_message(const struct system_info *info, struct span text,
                                struct wire_writer *w)
{
    size_t mark = wire_begin(w, PB_TracePacket_cpu_info), n = 0;
    struct span processor = {NULL, NULL};
    for (struct cpu_info cpu; cpu_info_next(&text, &processor, &cpu); n++)
        write_cpu(info, &cpu, w);
    wire_end(w, mark);
    return n;
}

static size_t write_interrupt_message(const struct system_info *info, struct span text,
                                      struct wire_writer *w)
{
    (void)info;
    size_t mark = wire_begin(w, PB_TracePacket_interrupt_info), n = 0;
    unsigned n_cpus = interrupts_take_header(&text);
    for (struct irq_name irq; n_cpus && irq_name_next(&text, n_cpus, &irq); n++) {
        size_t inner = wire_begin(w, PB_InterruptInfo_irq_mapping);
        wire_uint(w, PB_InterruptInfo_InterruptMapping_irq_id, irq.irq);
        wire_text(w, PB_InterruptInfo_InterruptMapping_name, irq.name.pos, span_size(irq.name));
        wire_end(w, inner);
    }
    wire_end(w, mark);
    return n;
}

typedef size_t (*write_message_fn)(const struct system_info *info, struct span text,
                                   struct wire_writer *w);

// Encodes the message before it reserves a packet: the text does not tell the encoded size, and a
// small ring has no room to spare. Returns 0 or -ENOMEM.
static int write_message(struct system_info *info, struct span text, write_message_fn write,
                         enum retained_key key)
{
    size_t room = 2 * span_size(text) + FREQUENCIES_ROOM;
    CLEANUP(freep) uint8_t *bytes = memory_malloc(room);
    if (!bytes)
        return -ENOMEM;
    struct wire_writer message = wire_writer_over(bytes, room);
    if (write(info, text, &message) == 0 || message.overflow)
        return 0;
    struct packet_writer *writer = info->env.writer;
    struct wire_writer *w =
        packet_writer_begin(writer, nsec_now(CLOCK_BOOTTIME), wire_size(&message));
    if (!w)
        return 0;
    if (wire_reserve(w, wire_size(&message))) {
        memcpy(w->pos, bytes, wire_size(&message));
        w->pos += wire_size(&message);
    }
    info->n_written += packet_writer_end_retained(writer, PACKET_RETAIN_REPLACE, key);
    return 0;
}

// Writes one packet from one file of /proc. Returns 0, also if the file cannot be read, or -ENOMEM.
static int write_packet(struct system_info *info, const char *path, write_message_fn write,
                        enum retained_key key)
{
    CLEANUP(freep) char *text = memory_malloc(TEXT_BYTES);
    if (!text)
        return -ENOMEM;
    ssize_t n = text_file_read_once(text, TEXT_BYTES, info->env.roots->proc, "%s", path);
    if (n < 0)
        log_warning(info->env.log, "linux.system_info: %s%s: %s", info->env.roots->proc, path,
                    strerror((int)-n));
    return n > 0 ? write_message(info, span_over(text, (size_t)n), write, key) : 0;
}

static int write_all(struct system_info *info)
{
    int r = write_packet(info, "/cpuinfo", write_cpu_message, KEY_CPU_INFO);
    if (r == 0 && info->with_irq_names)
        r = write_packet(info, "/interrupts", write_interrupt_message, KEY_INTERRUPT_INFO);
    return r;
}

static int system_info_open(const struct source_env *env, const Pb__DataSourceConfig *config,
                            struct source **ret, struct err *err)
{
    struct system_info *info = memory_calloc(1, sizeof(*info));
    if (!info)
        return err_errno(err, -ENOMEM, "linux.system_info");
    info->env = *env;
    info->with_irq_names = config->system_info_config && config->system_info_config->irq_names;
    *ret = (struct source *)info;
    return 0;
}

static int system_info_start(struct source *source, struct err *err)
{
    int r = write_all((struct system_info *)source);
    return r < 0 ? err_errno(err, r, "linux.system_info") : 0;
}

static void system_info_stop(struct source *source)
{
    (void)source;
}

static struct source *system_info_close(struct source *source)
{
    free(source);
    return NULL;
}

static void system_info_counts(const struct source *source, struct source_counts *ret)
{
    ret->events = ((const struct system_info *)source)->n_written;
    ret->events_lost = 0;
}

static void system_info_clear_state(struct source *source)
{
    struct system_info *info = (struct system_info *)source;
    int r = write_all(info);
    if (r < 0)
        log_warning(info->env.log, "linux.system_info: %s", strerror(-r));
}

const struct source_class system_info_class = {
    .name = "linux.system_info",
    .summary = "what the cpus are, and what the interrupts are called",
    .config = SOURCE_CONFIG(system_info_config),
    .open = system_info_open,
    .start = system_info_start,
    .stop = system_info_stop,
    .close = system_info_close,
    .counts = system_info_counts,
    .clear_state = system_info_clear_state,
};
