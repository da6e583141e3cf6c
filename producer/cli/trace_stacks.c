// SPDX-License-Identifier: Apache-2.0
//
// The trace stays in memory while it is read: messages are found, not copied. A later definition of
// an id replaces the earlier definition.
#include "producer/cli/trace_stacks.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "protos/fields.h"

#define NAME_SHOWN 200
#define TRACE_MAX  ((size_t)1 << 31)

static const struct {
    uint32_t field, iid;
} interned[STACKS_KINDS] = {
    [STACKS_FUNCTIONS] = {PB_InternedData_function_names, PB_InternedString_iid},
    [STACKS_PATHS] = {PB_InternedData_mapping_paths, PB_InternedString_iid},
    [STACKS_BUILD_IDS] = {PB_InternedData_build_ids, PB_InternedString_iid},
    [STACKS_MAPPINGS] = {PB_InternedData_mappings, PB_Mapping_iid},
    [STACKS_FRAMES] = {PB_InternedData_frames, PB_Frame_iid},
    [STACKS_CALLSTACKS] = {PB_InternedData_callstacks, PB_Callstack_iid},
};

void trace_stacks_forget(struct trace_stacks *s)
{
    text_vec_clear(&s->messages);
    for (size_t i = 0; i < STACKS_KINDS; i++)
        map64_clear(&s->index[i]);
}

void trace_stacks_done(struct trace_stacks *s)
{
    text_vec_done(&s->messages);
    for (size_t i = 0; i < STACKS_KINDS; i++)
        map64_done(&s->index[i]);
}

int trace_packets_read(const char *path, struct strbuf *trace,
                       int (*take)(void *userdata, struct wire_reader packet), void *userdata,
                       struct err *err)
{
    int fd CLEANUP(close_fdp) = open(path, O_RDONLY | O_CLOEXEC);
    int r = fd < 0 ? -errno : fd_read_all(fd, TRACE_MAX, trace);
    if (r < 0)
        return err_errno(err, r, "%s", path);
    r = trace_packets_walk(trace, take, userdata);
    return r < 0 ? err_errno(err, r, "%s", path) : 0;
}

int trace_packets_walk(const struct strbuf *trace,
                       int (*take)(void *userdata, struct wire_reader packet), void *userdata)
{
    struct wire_reader reader = wire_reader_over(trace->text, trace->size);
    struct wire_field f;
    int r = 0;
    while (r == 0 && wire_next(&reader, &f))
        if (f.number == PB_Trace_packet)
            r = take(userdata, wire_sub(&f));
    return r;
}

void message_numbers(struct text message, const struct wanted *wanted)
{
    struct wire_reader reader = wire_reader_over(message.at, message.size);
    struct wire_field f;
    wire_foreach(&reader, &f)
        for (const struct wanted *w = wanted; w->number; w++)
            if (w->number == f.number)
                *w->value = f.value;
}

int trace_stacks_read(struct trace_stacks *s, const struct wire_field *data)
{
    struct wire_reader reader = wire_sub(data);
    struct wire_field f;
    int r = 0;
    while (r == 0 && wire_next(&reader, &f)) {
        struct text message = {(const char *)f.data, f.size};
        uint64_t iid = 0;
        size_t kind = 0;
        while (kind < STACKS_KINDS && interned[kind].field != f.number)
            kind++;
        if (kind == STACKS_KINDS)
            continue;
        message_numbers(message, (struct wanted[]){{interned[kind].iid, &iid}, {0}});
        r = map64_set(&s->index[kind], iid, s->messages.n);
        if (r == 0)
            r = text_vec_push(&s->messages, message);
    }
    return r;
}

// Returns the message, or an empty text.
static struct text message_of(const struct trace_stacks *s, unsigned kind, uint64_t iid)
{
    const uint64_t *index = map64_find(&s->index[kind], iid);
    return index ? s->messages.items[*index] : (struct text){0};
}

static struct text string_of(const struct trace_stacks *s, unsigned kind, uint64_t iid)
{
    struct text message = message_of(s, kind, iid), text = {0};
    struct wire_reader reader = wire_reader_over(message.at, message.size);
    struct wire_field f;
    wire_foreach(&reader, &f)
        if (f.number == PB_InternedString_str)
            text = (struct text){(const char *)f.data, f.size};
    return text;
}

bool trace_stacks_has_file(const struct trace_stacks *s, const char *name)
{
    size_t cursor = 0, size = strlen(name);
    for (const struct map64_slot *slot; (slot = map64_next(&s->index[STACKS_PATHS], &cursor));) {
        struct text path = string_of(s, STACKS_PATHS, slot->key);
        if (path.size >= size && memcmp(path.at + path.size - size, name, size) == 0)
            return true;
    }
    return false;
}

// Returns the path of the file of a mapping, as far as it is kept: the last of its strings.
static struct text path_of(const struct trace_stacks *s, uint64_t mapping)
{
    uint64_t path = 0;
    message_numbers(message_of(s, STACKS_MAPPINGS, mapping),
                    (struct wanted[]){{PB_Mapping_path_string_ids, &path}, {0}});
    return string_of(s, STACKS_PATHS, path);
}

bool trace_stacks_is_made_code(const struct trace_stacks *s, uint64_t callstack)
{
    struct text stack = message_of(s, STACKS_CALLSTACKS, callstack), innermost = {0};
    struct wire_reader reader = wire_reader_over(stack.at, stack.size);
    struct wire_field f;
    wire_foreach(&reader, &f) {
        uint64_t mapping = 0;
        if (f.number != PB_Callstack_frame_ids)
            continue;
        message_numbers(message_of(s, STACKS_FRAMES, f.value),
                        (struct wanted[]){{PB_Frame_mapping_id, &mapping}, {0}});
        struct text path = path_of(s, mapping);
        innermost = text_eq(path, TEXT("kernel")) ? innermost : path;
    }
    return text_starts_with(innermost, TEXT("[anon"));
}

bool trace_stacks_name(const struct trace_stacks *s, const struct stack_place *place,
                       struct strbuf *ret)
{
    struct text frame = message_of(s, STACKS_FRAMES, place->frame);
    uint64_t function_id = 0, mapping = 0, rel_pc = 0;
    if (!frame.at)
        return false;
    message_numbers(frame, (struct wanted[]){{PB_Frame_function_name_id, &function_id},
                                             {PB_Frame_mapping_id, &mapping},
                                             {PB_Frame_rel_pc, &rel_pc},
                                             {0}});
    struct text function = place->line.function.size ? place->line.function
                                                     : string_of(s, STACKS_FUNCTIONS, function_id);
    struct text path = path_of(s, mapping);
    if (function.size > 0)
        strbuf_addf(ret, "%.*s (%.*s)", (int)function.size, function.at, (int)path.size,
                    path.size ? path.at : "");
    else
        strbuf_addf(ret, "%.*s+0x%" PRIx64, (int)path.size, path.size ? path.at : "", rel_pc);
    return !ret->failed;
}

typedef int (*take_fn)(void *userdata, const struct stack_place *place, bool is_leaf);

static size_t lines_of(const struct trace_stacks *s, uint64_t frame_id,
                       struct symbol_line ret[SYMBOL_LINES_MAX])
{
    uint64_t mapping = 0, rel_pc = 0, build_id = 0;
    if (!s->symbols || !s->symbols->addresses.n)
        return 0;
    message_numbers(
        message_of(s, STACKS_FRAMES, frame_id),
        (struct wanted[]){{PB_Frame_mapping_id, &mapping}, {PB_Frame_rel_pc, &rel_pc}, {0}});
    message_numbers(message_of(s, STACKS_MAPPINGS, mapping),
                    (struct wanted[]){{PB_Mapping_build_id, &build_id}, {0}});
    return trace_symbols_find(s->symbols, string_of(s, STACKS_BUILD_IDS, build_id), rel_pc, ret);
}

static int frame_take(const struct trace_stacks *s, uint64_t frame_id, bool is_leaf, take_fn take,
                      void *userdata)
{
    struct symbol_line lines[SYMBOL_LINES_MAX];
    size_t n = lines_of(s, frame_id, lines);
    if (n == 0)
        return take(userdata, &(struct stack_place){.frame = frame_id}, is_leaf);
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        const struct stack_place place = {frame_id, (unsigned)i, lines[i]};
        r = take(userdata, &place, is_leaf && i + 1 == n);
    }
    return r;
}

int trace_stacks_walk(const struct trace_stacks *s, uint64_t callstack, take_fn take,
                      void *userdata)
{
    struct text stack = message_of(s, STACKS_CALLSTACKS, callstack);
    struct wire_reader reader = wire_reader_over(stack.at, stack.size);
    struct wire_field f;
    uint64_t outer = 0;
    bool has_outer = false;
    int r = 0;
    while (r == 0 && wire_next(&reader, &f)) {
        if (f.number != PB_Callstack_frame_ids)
            continue;
        if (has_outer)
            r = frame_take(s, outer, false, take, userdata);
        outer = f.value;
        has_outer = true;
    }
    return r == 0 && has_outer ? frame_take(s, outer, true, take, userdata) : r;
}

// Prints the rest of a name, and the last part of the source file with the line.
static void end_print(const char *text, size_t text_size, const struct symbol_line *line, FILE *out)
{
    char printable[NAME_SHOWN];
    fputs(str_printable(printable, sizeof(printable), text, text_size), out);
    if (line->file.size) {
        const char *slash = memrchr(line->file.at, '/', line->file.size);
        const char *from = slash ? slash + 1 : line->file.at;
        str_printable(printable, sizeof(printable), from,
                      (size_t)(line->file.at + line->file.size - from));
        fprintf(out, " %s:%" PRIu64, printable, line->line);
    }
    fputc('\n', out);
}

void trace_stacks_print(const char *text, size_t text_size, const struct symbol_line *line,
                        FILE *out)
{
    char printable[NAME_SHOWN];
    struct strbuf name CLEANUP(strbuf_done) = {0};
    strbuf_add(&name, text, text_size);
    size_t size = name.failed ? 0 : strcspn(name.text, " ");
    if (name.failed || name.text[size] != ' ') {
        end_print(text, text_size, line, out);
        return;
    }
    name.text[size] = '\0';
    char *readable CLEANUP(freep) = mangled_read(name.text);
    const char *shown = readable ? readable : name.text;
    str_printable(printable, sizeof(printable), shown, strlen(shown));
    fprintf(out, "%s", printable);
    end_print(text + size, text_size - size, line, out);
}
