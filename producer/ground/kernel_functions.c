// SPDX-License-Identifier: Apache-2.0
//
// /proc/kallsyms has a line for each symbol: address, type, name, and perhaps a module in brackets.
// Types t and w are functions. A user without rights sees all addresses as 0.
//
// The file is read as a whole: a look-up in it would read about 100,000 lines.
#include "producer/ground/kernel_functions.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/memory.h"
#include "common/text.h"
#include "producer/ground/proc_text.h"

#define PIECE     (256u << 10)
#define NAMES_MAX (UINT32_C(64) << 20)

static struct kernel_functions *newest; // borrowed; NULL: nobody has a table

// A service manager may pass the file as standard input (StandardInput=file:/proc/kallsyms). The
// kernel checks rights when the file is opened, so this process needs none.
static int open_kallsyms(const char *path)
{
    char input[64];
    ssize_t n = readlink("/proc/self/fd/0", input, sizeof(input) - 1);
    input[n > 0 ? n : 0] = '\0';
    int fd = str_eq(input, path) ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : -1;
    if (fd >= 0)
        lseek(fd, 0, SEEK_SET);
    else
        fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static bool take_address(struct span *line, uint64_t *ret)
{
    char *end;
    struct span word;
    if (!span_take_word(line, &word) || span_size(word) > 16)
        return false;
    *ret = strtoull(word.pos, &end, 16);
    return end == word.end;
}

static int take_line(struct kernel_functions *kernel, struct span line)
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

static int read_table(struct kernel_functions *kernel)
{
    char *piece CLEANUP(freep) = malloc(PIECE + 1);
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/kallsyms", kernel->proc);
    int fd CLEANUP(close_fdp) = open_kallsyms(path);
    int r = fd < 0 ? fd : piece ? 0 : -ENOMEM;
    size_t kept = 0;
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
    if (r == 0 && kernel->functions.n == 0)
        r = kernel->is_hidden ? -EPERM : -ENODATA;
    if (r == 0)
        qsort(kernel->functions.items, kernel->functions.n, sizeof(kernel->functions.items[0]),
              compare);
    return r;
}

int kernel_functions_get(const char *proc, nsec_t max_age, struct kernel_functions **ret)
{
    nsec_t now = nsec_now(CLOCK_MONOTONIC);
    if (newest && str_eq(newest->proc, proc) && now - newest->read_at <= max_age) {
        newest->n_users++;
        *ret = newest;
        return 0;
    }
    struct kernel_functions *kernel = memory_calloc(1, sizeof(*kernel));
    if (!kernel)
        return -ENOMEM;
    kernel->n_users = 1;
    kernel->read_at = now;
    kernel->proc = strdup(proc);
    int r = kernel->proc ? read_table(kernel) : -ENOMEM;
    if (r < 0) {
        kernel_functions_put(kernel);
        return r;
    }
    *ret = newest = kernel;
    return 0;
}

struct kernel_functions *kernel_functions_put(struct kernel_functions *kernel)
{
    if (!kernel || --kernel->n_users > 0)
        return NULL;
    if (newest == kernel)
        newest = NULL;
    kernel_function_vec_done(&kernel->functions);
    strbuf_done(&kernel->names);
    free(kernel->proc);
    free(kernel);
    return NULL;
}

uint32_t kernel_functions_find(const struct kernel_functions *kernel, uint64_t address)
{
    size_t low = 0, high = kernel ? kernel->functions.n : 0;
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

const char *kernel_functions_name(const struct kernel_functions *kernel, uint32_t function)
{
    return kernel->names.text + kernel->functions.items[function].name;
}

size_t kernel_functions_bytes(const struct kernel_functions *kernel)
{
    return kernel ? kernel->names.capacity +
                        kernel->functions.capacity * sizeof(kernel->functions.items[0])
                  : 0;
}
