// SPDX-License-Identifier: Apache-2.0
//
// An address belongs to the nearest symbol below it, but not beyond 1 MiB: an address in a heap or
// an unloaded module has no name.
#include "producer/sources/ftrace/kernel_strings.h"

#include <errno.h>
#include <string.h>

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

struct span kernel_symbols_name(const struct kernel_symbols *symbols, uint64_t address)
{
    uint32_t number = kernel_functions_find(symbols->functions, address);
    if (number == KERNEL_NONE ||
        address - symbols->functions->functions.items[number].start >= FUNCTION_SIZE_MAX)
        return (struct span){0};
    const char *name = kernel_functions_name(symbols->functions, number);
    return span_over(name, strcspn(name, " "));
}

void kernel_symbols_done(struct kernel_symbols *symbols)
{
    map64_done(&symbols->numbers);
    kernel_addresses_done(&symbols->in_order);
    symbols->functions = kernel_functions_put(symbols->functions);
}
