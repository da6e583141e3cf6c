// SPDX-License-Identifier: Apache-2.0
#include "producer/cli/trace_symbols.h"

#include <errno.h>

#include "protos/fields.h"

static uint64_t key_of(struct text build_id, uint64_t address)
{
    return hash_u64(hash_bytes(build_id.at ? build_id.at : "", build_id.size) ^ hash_u64(address));
}

static struct text text_of(const struct wire_field *field)
{
    return (struct text){(const char *)field->data, field->size};
}

static uint64_t address_of(const struct wire_field *message)
{
    struct wire_reader reader = wire_sub(message);
    struct wire_field f;
    uint64_t address = 0;
    wire_foreach(&reader, &f)
        if (f.number == PB_AddressSymbols_address)
            address = f.value;
    return address;
}

static int module_read(struct trace_symbols *symbols, const struct wire_field *module)
{
    struct wire_reader head = wire_sub(module), reader = head;
    struct wire_field f;
    struct text build_id = {0};
    int r = 0;
    wire_foreach(&head, &f)
        if (f.number == PB_ModuleSymbols_build_id)
            build_id = text_of(&f);
    while (r == 0 && wire_next(&reader, &f)) {
        if (f.number != PB_ModuleSymbols_address_symbols)
            continue;
        r = map64_set(&symbols->index, key_of(build_id, address_of(&f)), symbols->addresses.n);
        if (r == 0)
            r = text_vec_push(&symbols->addresses, text_of(&f));
    }
    return r;
}

int trace_symbols_take(void *symbols, struct wire_reader packet)
{
    struct wire_field f;
    int r = 0;
    while (r == 0 && wire_next(&packet, &f))
        if (f.number == PB_TracePacket_module_symbols)
            r = module_read(symbols, &f);
    return r;
}

static struct symbol_line line_of(const struct wire_field *message)
{
    struct symbol_line line = {0};
    struct wire_reader reader = wire_sub(message);
    struct wire_field f;
    wire_foreach(&reader, &f) {
        if (f.number == PB_Line_function_name)
            line.function = text_of(&f);
        else if (f.number == PB_Line_source_file_name)
            line.file = text_of(&f);
        else if (f.number == PB_Line_line_number)
            line.line = f.value;
    }
    return line;
}

size_t trace_symbols_find(const struct trace_symbols *symbols, struct text build_id,
                          uint64_t address, struct symbol_line ret[SYMBOL_LINES_MAX])
{
    const uint64_t *index = map64_find(&symbols->index, key_of(build_id, address));
    if (!index)
        return 0;
    struct text message = symbols->addresses.items[*index];
    struct wire_reader reader = wire_reader_over(message.at, message.size);
    struct wire_field f;
    size_t n = 0;
    while (n < SYMBOL_LINES_MAX && wire_next(&reader, &f)) {
        if (f.number != PB_AddressSymbols_lines)
            continue;
        ret[n] = line_of(&f);
        n += ret[n].function.size > 0;
    }
    for (size_t i = 0; i < n / 2; i++) { // the message has the innermost function first
        struct symbol_line line = ret[i];
        ret[i] = ret[n - 1 - i];
        ret[n - 1 - i] = line;
    }
    return n;
}

void trace_symbols_done(struct trace_symbols *symbols)
{
    text_vec_done(&symbols->addresses);
    map64_done(&symbols->index);
}
