// SPDX-License-Identifier: Apache-2.0
//
// /proc/kallsyms has a line for each symbol: address, type, name, and perhaps a module in brackets.
// Types t and w are functions. A user without rights sees all addresses as 0.
#include "producer/sources/perf/perf_kernel.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/text.h"
#include "producer/ground/proc_text.h"
#include "producer/sources/ftrace/kernel_strings.h"

#define PIECE     (256u << 10)
#define NAMES_MAX (UINT32_C(64) << 20)

static bool take_address(struct span *line, uint64_t *ret)
{
    char *end;
    struct span word;
    if (!span_take_word(line, &word) || span_size(word) > 16)
        return false;
    *ret = strtoull(word.pos, &end, 16);
    return end == word.end;
}

static int take_line(struct perf_kernel *kernel, struct span line)
{
    uint64_t address;
    struct span type, name, module;
    if (!take_address(&line, &address) || !span_take_word(&line, &type) || span_size(type) != 1 ||
        !strchr("tTwW", type.pos[0]) || !span_take_word(&line, &name))
        return 0;
    if (address == 0) {
        kernel->is_hidden = true;
        return 0;
    }
    struct kernel_function function = {address, (uint32_t)kernel->names.size};
    if (kernel->names.size > NAMES_MAX)
        return -EFBIG;
    strbuf_add(&kernel->names, name.pos, span_size(name));
    if (span_take_word(&line, &module))
        strbuf_addf(&kernel->names, " %.*s", (int)span_size(module), module.pos);
    strbuf_add(&kernel->names, "", 1);
    return kernel->names.failed ? -ENOMEM : kernel_function_vec_push(&kernel->functions, function);
}

static int compare(const void *left, const void *right)
{
    const struct kernel_function *a = left, *b = right;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return a->name < b->name ? -1 : a->name > b->name;
}

int perf_kernel_read(struct perf_kernel *kernel, const char *proc)
{
    char *piece CLEANUP(freep) = malloc(PIECE + 1);
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/kallsyms", proc);
    int fd CLEANUP(close_fdp) = kernel_symbols_open(path);
    int r = fd < 0 ? fd : piece ? 0 : -ENOMEM;
    size_t kept = 0;
    perf_kernel_done(kernel);
    for (ssize_t n = 1; r == 0 && n > 0;) {
        n = read(fd, piece + kept, PIECE - kept);
        if (n < 0)
            r = -errno;
        if (n <= 0)
            break;
        struct span whole = span_whole_lines(span_over(piece, kept + (size_t)n));
        struct span rest = whole, line;
        size_t size = kept + (size_t)n;
        while (r == 0 && span_take_line(&rest, &line))
            r = take_line(kernel, line);
        kept = size - span_size(whole);
        memmove(piece, piece + span_size(whole), kept);
    }
    if (r < 0) {
        perf_kernel_done(kernel);
        return r;
    }
    if (kernel->functions.n > 0)
        qsort(kernel->functions.items, kernel->functions.n, sizeof(kernel->functions.items[0]),
              compare);
    return 0;
}

void perf_kernel_done(struct perf_kernel *kernel)
{
    kernel_function_vec_done(&kernel->functions);
    strbuf_done(&kernel->names);
    *kernel = (struct perf_kernel){0};
}

uint32_t perf_kernel_find(const struct perf_kernel *kernel, uint64_t address)
{
    size_t low = 0, high = kernel->functions.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (kernel->functions.items[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    // If an address has several names, the first name counts.
    while (low > 1 &&
           kernel->functions.items[low - 2].start == kernel->functions.items[low - 1].start)
        low--;
    return low ? (uint32_t)(low - 1) : KERNEL_NONE;
}

const char *perf_kernel_name(const struct perf_kernel *kernel, uint32_t function)
{
    return kernel->names.text + kernel->functions.items[function].name;
}
