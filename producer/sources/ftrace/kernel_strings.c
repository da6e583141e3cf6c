// SPDX-License-Identifier: Apache-2.0
//
// kallsyms is read once, at setup: a look-up in the file would read about 100,000 lines, and the
// reader cannot wait for that. Names are in one block without padding, so that the table of a
// common kernel takes about 3 MB. An address belongs to the nearest symbol below it, but not beyond
// 1 MiB: an address in a heap or an unloaded module has no name.
#include "producer/sources/ftrace/kernel_strings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "producer/ground/proc_text.h"

#define FUNCTION_SIZE_MAX (UINT64_C(1) << 20)

static int parse_string_line(struct kernel_strings *strings, const char *line, const char *end)
{
    uint64_t address;
    if (end - line < 2 || line[0] != '0' || line[1] != 'x')
        return 0;
    line += 2;
    if (!str_scan_hex(&line, end, &address))
        return 0;
    const char *open = memchr(line, '"', (size_t)(end - line));
    const char *close = open ? memrchr(open + 1, '"', (size_t)(end - open - 1)) : NULL;
    if (!close)
        return 0;
    size_t at = strings->text.size;
    strbuf_add(&strings->text, open + 1, (size_t)(close - open - 1));
    strbuf_add_char(&strings->text, '\0');
    if (strings->text.failed)
        return -ENOMEM;
    return map64_set(&strings->by_address, address, at);
}

int kernel_strings_parse(struct kernel_strings *strings, const char *text, size_t size)
{
    struct span rest = span_over(text, size), line;
    int r = 0;
    while (r == 0 && span_take_line(&rest, &line))
        r = parse_string_line(strings, line.pos, line.end);
    return r;
}

void kernel_strings_done(struct kernel_strings *strings)
{
    map64_done(&strings->by_address);
    strbuf_done(&strings->text);
}

uint32_t kernel_symbols_number(struct kernel_symbols *symbols, uint64_t address)
{
    if (!address)
        return 0;
    bool is_new;
    uint64_t *number =
        map64_get_or_add(&symbols->numbers, address, symbols->in_order.n + 1, &is_new);
    if (!number)
        return 0;
    if (is_new && kernel_addresses_push(&symbols->in_order, address) < 0) {
        map64_remove(&symbols->numbers, address);
        return 0;
    }
    return (uint32_t)*number;
}

void kernel_symbols_forget_numbers(struct kernel_symbols *symbols)
{
    map64_clear(&symbols->numbers);
    symbols->in_order.n = 0;
}

static int by_address(const void *a, const void *b)
{
    uint64_t left = ((const struct kernel_symbol *)a)->address;
    uint64_t right = ((const struct kernel_symbol *)b)->address;
    return left < right ? -1 : left > right;
}

// Parses "ffffffff81000000 T _text" with an optional "\t[module]".
static int parse_symbol_line(struct kernel_symbols *symbols, const char *line, size_t size)
{
    const char *end = line + size;
    uint64_t address;
    if (!str_scan_hex(&line, end, &address) || end - line < 4 || !address)
        return 0;
    if (!strchr("tTwW", line[1]) || !line[1])
        return 0;
    line += 3;
    size_t name_size = strcspn(line, "\t\n ");
    struct kernel_symbol symbol = {.address = address, .name = (uint32_t)symbols->names.size};
    if (symbols->names.size > UINT32_MAX - 1024)
        return -ENOMEM;
    strbuf_add(&symbols->names, line, name_size);
    strbuf_add_char(&symbols->names, '\0');
    return symbols->names.failed ? -ENOMEM : kernel_symbol_list_push(&symbols->list, symbol);
}

// A service manager may pass the file as standard input (StandardInput=file:/proc/kallsyms). The
// kernel checks rights when the file is opened, so this process needs none.
int kernel_symbols_open(const char *path)
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

static FILE *open_symbols(const char *path)
{
    int fd = kernel_symbols_open(path);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    if (!file)
        close_fd(fd);
    return file;
}

int kernel_symbols_load(struct kernel_symbols *symbols, const char *path, struct err *err)
{
    CLEANUP(fclosep) FILE *file = open_symbols(path);
    if (!file)
        return err_errno(err, -errno, "%s", path);
    CLEANUP(freep) char *line = NULL;
    size_t capacity = 0;
    ssize_t size;
    while ((size = getline(&line, &capacity, file)) > 0) {
        int r = parse_symbol_line(symbols, line, (size_t)size);
        if (r < 0)
            return err_errno(err, r, "%s", path);
    }
    if (!symbols->list.n)
        return err_set(err, -EPERM, "%s shows no addresses", path);
    qsort(symbols->list.items, symbols->list.n, sizeof(struct kernel_symbol), by_address);
    return 0;
}

const char *kernel_symbols_name(const struct kernel_symbols *symbols, uint64_t address)
{
    size_t low = 0, high = symbols->list.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (symbols->list.items[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low)
        return NULL;
    const struct kernel_symbol *symbol = &symbols->list.items[low - 1];
    return address - symbol->address < FUNCTION_SIZE_MAX ? symbols->names.text + symbol->name
                                                         : NULL;
}

void kernel_symbols_done(struct kernel_symbols *symbols)
{
    map64_done(&symbols->numbers);
    kernel_addresses_done(&symbols->in_order);
    kernel_symbol_list_done(&symbols->list);
    strbuf_done(&symbols->names);
}
