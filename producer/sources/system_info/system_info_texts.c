// SPDX-License-Identifier: Apache-2.0
//
// /proc/cpuinfo differs by architecture. x86 has a `model name` per cpu. arm64 has identifiers per
// cpu and, on older kernels, one `Processor` line for all. Blocks end with an empty line, but on
// some kernels the common lines follow a block directly.
//
// A line of /proc/interrupts has no fixed columns after the counts: the chip's name may contain
// blanks. The names of the handlers follow the word for the trigger.
#include "producer/sources/system_info/system_info_texts.h"

#include <stdio.h>

#include "common/elements.h"
#include "common/str.h"

// Bits of CpuInfo.Cpu.features, by the kernel's words.
static const char *const feature_words[] = {"mte", "mte3"};

// Decimal, or hexadecimal after "0x".
static bool take_identifier(struct span value, uint32_t *ret)
{
    char text[24];
    snprintf(text, sizeof(text), "%.*s", (int)(span_size(value) < 20 ? span_size(value) : 20),
             value.pos);
    return str_parse_u32(text, ret) == 0;
}

static uint64_t feature_bits(struct span words)
{
    uint64_t bits = 0;
    struct span word;
    while (span_take_word(&words, &word))
        for (size_t i = 0; i < ELEMENTS(feature_words); i++)
            if (span_eq(word, feature_words[i]))
                bits |= UINT64_C(1) << i;
    return bits;
}

struct identifier_key {
    const char *key;
    enum cpu_identifier identifier;
    size_t offset;
};

static const struct identifier_key identifier_keys[] = {
    {"CPU implementer", CPU_IMPLEMENTER, offsetof(struct cpu_info, implementer)},
    {"CPU architecture", CPU_ARCHITECTURE, offsetof(struct cpu_info, architecture)},
    {"CPU variant", CPU_VARIANT, offsetof(struct cpu_info, variant)},
    {"CPU part", CPU_PART, offsetof(struct cpu_info, part)},
    {"CPU revision", CPU_REVISION, offsetof(struct cpu_info, revision)},
};

static void take_line(struct span key, struct span value, struct cpu_info *cpu)
{
    for (size_t i = 0; i < ELEMENTS(identifier_keys); i++) {
        uint32_t number;
        if (!span_eq(key, identifier_keys[i].key) || !take_identifier(value, &number))
            continue;
        memcpy((char *)cpu + identifier_keys[i].offset, &number, sizeof(number));
        cpu->identifiers |= identifier_keys[i].identifier;
    }
    if (span_eq(key, "Features") || span_eq(key, "flags"))
        cpu->features = feature_bits(value);
    else if (span_eq(key, "model name"))
        cpu->processor = value;
}

bool cpu_info_next(struct span *rest, struct span *processor, struct cpu_info *ret)
{
    *ret = (struct cpu_info){.processor = *processor};
    bool found = false;
    struct span line, key;
    while (span_take_line(rest, &line)) {
        if (found && span_size(span_trim(line)) == 0)
            break;
        if (!span_take_key(&line, &key))
            continue;
        key = span_trim(key);
        line = span_trim(line);
        if (span_eq(key, "Processor"))
            ret->processor = *processor = line;
        else if (span_eq(key, "processor"))
            found |= take_identifier(line, &ret->number);
        else
            take_line(key, line, ret);
    }
    return found;
}

unsigned interrupts_take_header(struct span *rest)
{
    struct span line, word;
    unsigned n = 0;
    if (span_take_line(rest, &line))
        while (span_take_word(&line, &word))
            n += span_take_prefix(&word, "CPU");
    return n;
}

static bool span_ends_with(struct span span, const char *suffix)
{
    size_t size = strlen(suffix);
    return span_size(span) >= size && memcmp(span.end - size, suffix, size) == 0;
}

static bool is_trigger(struct span word)
{
    return span_eq(word, "Level") || span_eq(word, "Edge") || span_ends_with(word, "-edge") ||
           span_ends_with(word, "-level") || span_ends_with(word, "-fasteoi");
}

// Takes the name at the end of a line; `line` begins after the interrupt's number.
static bool take_irq_name(struct span line, unsigned n_cpus, struct span *ret)
{
    struct span word;
    const char *end = span_trim(line).end;
    const char *after_trigger = NULL, *last = NULL;
    for (unsigned i = 0; span_take_word(&line, &word); i++) {
        if (i < n_cpus)
            continue; // counts
        if (is_trigger(word))
            after_trigger = word.end;
        last = i > n_cpus ? word.pos : NULL; // a single word is the chip
    }
    const char *start = after_trigger ? after_trigger : last;
    if (!start)
        return false;
    *ret = span_trim((struct span){start, end});
    return span_size(*ret) > 0;
}

bool irq_name_next(struct span *rest, unsigned n_cpus, struct irq_name *ret)
{
    struct span line, number;
    while (span_take_line(rest, &line)) {
        uint64_t irq;
        if (!span_take_word(&line, &number) || number.end[-1] != ':')
            continue;
        number.end--;
        if (!span_take_u64(&number, &irq) || irq > UINT32_MAX ||
            !take_irq_name(line, n_cpus, &ret->name))
            continue;
        ret->irq = (uint32_t)irq;
        return true;
    }
    return false;
}
