// SPDX-License-Identifier: Apache-2.0
//
// A protobuf message is a concatenation of its fields in any order, so each part is compressed as
// soon as it is known. The texts, which all parts refer to by number, come last. The room of a
// message is reserved before it is written.
#include "converter/profile/pprof_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "common/wire.h"
#include "converter/profile/pprof_fields.h"

#define FIELD_MAX (2 * WIRE_VARINT_MAX) // tag and number, at most
#define HEAD_MAX  256                   // a message without its repeated parts

// Begins a message of at most `room` bytes.
static struct wire_writer message_begin(struct pprof *pprof, size_t room)
{
    if (pprof->failure == 0 && room > pprof->capacity) {
        uint8_t *grown = realloc(pprof->memory, room);
        if (grown) {
            pprof->memory = grown;
            pprof->capacity = room;
        } else {
            pprof->failure = -ENOMEM;
        }
    }
    return wire_writer_over(pprof->memory, pprof->failure ? 0 : room);
}

static void message_end(struct pprof *pprof, const struct wire_writer *w)
{
    if (pprof->failure == 0 && w->overflow)
        pprof->failure = -EMSGSIZE;
    if (pprof->failure < 0 || wire_size(w) == 0)
        return;
    errno = 0;
    if (gzwrite(pprof->file, w->start, (unsigned)wire_size(w)) <= 0)
        pprof->failure = errno ? -errno : -EIO;
}

static uint64_t text_id(struct pprof *pprof, const char *text)
{
    uint32_t id = text ? strset_add(&pprof->texts, text, strlen(text)) : 0;
    if (id == STRSET_NONE)
        pprof->failure = -ENOMEM;
    return id == STRSET_NONE ? 0 : id;
}

int pprof_begin(struct pprof *pprof, int fd)
{
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0)
        return -errno;
    *pprof = (struct pprof){.file = gzdopen(own, "wb")};
    if (!pprof->file) {
        close(own);
        return -ENOMEM;
    }
    text_id(pprof, "");
    return pprof->failure;
}

void pprof_sample_type(struct pprof *pprof, const char *type, const char *unit)
{
    struct wire_writer w = message_begin(pprof, HEAD_MAX);
    size_t mark = wire_begin(&w, PPROF_Profile_sample_type);
    wire_uint(&w, PPROF_ValueType_type, text_id(pprof, type));
    wire_uint(&w, PPROF_ValueType_unit, text_id(pprof, unit));
    wire_end(&w, mark);
    message_end(pprof, &w);
}

static void number_write(struct pprof *pprof, uint32_t field, int64_t value)
{
    struct wire_writer w = message_begin(pprof, HEAD_MAX);
    wire_int(&w, field, value);
    message_end(pprof, &w);
}

void pprof_default_sample_type(struct pprof *pprof, const char *type)
{
    number_write(pprof, PPROF_Profile_default_sample_type, (int64_t)text_id(pprof, type));
}

void pprof_time(struct pprof *pprof, int64_t realtime_ns, int64_t duration_ns)
{
    number_write(pprof, PPROF_Profile_time_nanos, realtime_ns);
    number_write(pprof, PPROF_Profile_duration_nanos, duration_ns);
}

static void label_put(struct pprof *pprof, struct wire_writer *w, const struct pprof_label *label)
{
    size_t mark = wire_begin(w, PPROF_Sample_label);
    wire_uint(w, PPROF_Label_key, text_id(pprof, label->key));
    if (label->text)
        wire_uint(w, PPROF_Label_str, text_id(pprof, label->text));
    else
        wire_int(w, PPROF_Label_num, label->number);
    wire_end(w, mark);
}

void pprof_sample(struct pprof *pprof, const int64_t *values, size_t n_values,
                  const uint64_t *locations, size_t n_locations, const struct pprof_label *labels,
                  size_t n_labels)
{
    size_t room = HEAD_MAX + (n_values + n_locations + 4 * n_labels) * FIELD_MAX;
    struct wire_writer w = message_begin(pprof, room);
    size_t mark = wire_begin(&w, PPROF_Profile_sample);
    size_t packed = wire_begin(&w, PPROF_Sample_location_id);
    for (size_t i = 0; i < n_locations; i++)
        wire_varint(&w, locations[i]);
    wire_end(&w, packed);
    packed = wire_begin(&w, PPROF_Sample_value);
    for (size_t i = 0; i < n_values; i++)
        wire_varint(&w, (uint64_t)values[i]);
    wire_end(&w, packed);
    for (size_t i = 0; i < n_labels; i++)
        label_put(pprof, &w, &labels[i]);
    wire_end(&w, mark);
    message_end(pprof, &w);
}

uint64_t pprof_function(struct pprof *pprof, const char *name, const char *file)
{
    bool is_new = false;
    uint64_t name_id = text_id(pprof, name), file_id = text_id(pprof, file);
    uint64_t *id = map64_get_or_add(&pprof->functions, name_id << 32 | file_id,
                                    pprof->functions.n + 1, &is_new);
    if (!id)
        pprof->failure = -ENOMEM;
    if (!id || !is_new)
        return id ? *id : 0;
    uint64_t found = *id;
    struct wire_writer w = message_begin(pprof, HEAD_MAX);
    size_t mark = wire_begin(&w, PPROF_Profile_function);
    wire_uint(&w, PPROF_Function_id, found);
    wire_uint(&w, PPROF_Function_name, name_id);
    wire_uint(&w, PPROF_Function_system_name, name_id);
    wire_uint(&w, PPROF_Function_filename, file_id);
    wire_end(&w, mark);
    message_end(pprof, &w);
    return found;
}

void pprof_location(struct pprof *pprof, uint64_t id, uint64_t mapping, uint64_t address,
                    const struct pprof_line *lines, size_t n_lines)
{
    struct wire_writer w = message_begin(pprof, HEAD_MAX + n_lines * 3 * FIELD_MAX);
    size_t mark = wire_begin(&w, PPROF_Profile_location);
    wire_uint(&w, PPROF_Location_id, id);
    wire_uint(&w, PPROF_Location_mapping_id, mapping);
    wire_uint(&w, PPROF_Location_address, address);
    for (size_t i = 0; i < n_lines; i++) {
        size_t line = wire_begin(&w, PPROF_Location_line);
        wire_uint(&w, PPROF_Line_function_id, lines[i].function);
        wire_int(&w, PPROF_Line_line, lines[i].line);
        wire_end(&w, line);
    }
    wire_end(&w, mark);
    message_end(pprof, &w);
}

void pprof_mapping(struct pprof *pprof, const struct pprof_mapping *mapping)
{
    struct wire_writer w = message_begin(pprof, HEAD_MAX);
    size_t mark = wire_begin(&w, PPROF_Profile_mapping);
    wire_uint(&w, PPROF_Mapping_id, mapping->id);
    wire_uint(&w, PPROF_Mapping_memory_start, mapping->start);
    wire_uint(&w, PPROF_Mapping_memory_limit, mapping->limit);
    wire_uint(&w, PPROF_Mapping_file_offset, mapping->file_offset);
    wire_uint(&w, PPROF_Mapping_filename, text_id(pprof, mapping->path));
    wire_uint(&w, PPROF_Mapping_build_id, text_id(pprof, mapping->build_id));
    wire_uint(&w, PPROF_Mapping_has_functions, mapping->has_functions);
    wire_uint(&w, PPROF_Mapping_has_filenames, mapping->has_files);
    wire_uint(&w, PPROF_Mapping_has_line_numbers, mapping->has_lines);
    wire_uint(&w, PPROF_Mapping_has_inline_frames, mapping->has_inlined);
    wire_end(&w, mark);
    message_end(pprof, &w);
}

int pprof_end(struct pprof *pprof)
{
    for (uint32_t i = 0; i < pprof->texts.n; i++) {
        const struct strset_entry *text = &pprof->texts.entries[i];
        struct wire_writer w = message_begin(pprof, HEAD_MAX + text->size);
        wire_text(&w, PPROF_Profile_string_table, text->text, text->size);
        message_end(pprof, &w);
    }
    errno = 0;
    int code = pprof->file ? gzclose(pprof->file) : Z_OK, r = pprof->failure;
    if (r == 0 && code != Z_OK)
        r = code == Z_ERRNO && errno ? -errno : -EIO;
    strset_done(&pprof->texts);
    map64_done(&pprof->functions);
    free(pprof->memory);
    *pprof = (struct pprof){0};
    return r;
}
