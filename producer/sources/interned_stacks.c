// SPDX-License-Identifier: Apache-2.0
//
// A ring keeps interned data beside itself, so that every sample that is still in the ring can be
// read. The data may outgrow its part of the room beside the ring: it would displace the process
// names of other sources, and its own beginning. Packets beyond this part are not kept.
#include "producer/sources/interned_stacks.h"

#include <string.h>

#include "protos/fields.h"

#define PACKET_ROOM     (64u << 10)
#define PACKET_ROOM_MIN 16384 // for one callstack or one path
#define KEY_INTERNED    1     // key of the data that survive the ring
#define PART_OF_STORE   2     // interned data take at most 1 / 2 of the room beside the ring
#define PARTS_MAX       128   // of a path

static const uint32_t text_fields[INTERNED_TEXT_KINDS] = {
    [INTERNED_BUILD_ID] = PB_InternedData_build_ids,
    [INTERNED_PATH] = PB_InternedData_mapping_paths,
    [INTERNED_FUNCTION] = PB_InternedData_function_names,
};

uint64_t interned_stacks_retainable(const struct packet_writer *writer)
{
    return packet_buffer_retainable_bytes(writer->buffer) / PART_OF_STORE;
}

static bool packet_begin(struct interned_stacks *interned)
{
    interned->w =
        packet_writer_begin_range(interned->writer, interned->now, PACKET_ROOM_MIN, PACKET_ROOM);
    if (!interned->w) {
        interned->failed = true;
        return false;
    }
    interned->mark = wire_begin(interned->w, PB_TracePacket_interned_data);
    return true;
}

// Counts the bytes of the open packet. Returns its rule.
static enum packet_retain retain_rule(struct interned_stacks *interned)
{
    bool is_first = interned->bytes == 0;
    interned->bytes += wire_size(interned->w);
    if (interned->bytes > interned->retain_max)
        return PACKET_PLAIN;
    return is_first ? PACKET_RETAIN_REPLACE : PACKET_RETAIN_APPEND;
}

void interned_stacks_end(struct interned_stacks *interned)
{
    if (!interned->w)
        return;
    wire_end(interned->w, interned->mark);
    enum packet_retain rule = retain_rule(interned);
    interned->failed |= rule == PACKET_PLAIN
                            ? !packet_writer_end(interned->writer)
                            : !packet_writer_end_retained(interned->writer, rule, KEY_INTERNED);
    interned->w = NULL;
}

// Runs a statement that writes into the open packet. If the packet has no room, runs the statement
// again in a new packet.
#define WRITE_INTERNED(interned, ...)                                                              \
    for (int try_ = 0; try_ < 2 && ((interned)->w || packet_begin(interned)); try_++) {            \
        size_t checkpoint_ = wire_checkpoint((interned)->w);                                       \
        __VA_ARGS__;                                                                               \
        if (!(interned)->w->overflow && wire_room((interned)->w) >= 8)                             \
            break;                                                                                 \
        wire_rollback((interned)->w, checkpoint_);                                                 \
        interned_stacks_end(interned);                                                             \
        (interned)->failed |= try_ == 1;                                                           \
    }

static void put_text(struct wire_writer *w, uint32_t field, uint64_t iid, const char *text,
                     size_t size)
{
    size_t mark = wire_begin(w, field);
    wire_uint(w, PB_InternedString_iid, iid);
    wire_bytes(w, PB_InternedString_str, text, size);
    wire_end(w, mark);
}

uint64_t interned_iid_of_text(struct interned_stacks *interned, enum interned_text kind,
                              const char *text, size_t size)
{
    struct strset *texts = &interned->texts[kind];
    size_t n = texts->n;
    uint32_t id = strset_add(texts, text, size);
    if (id == STRSET_NONE) {
        interned->failed = true;
        return 0;
    }
    uint64_t iid = interned->first_text[kind] + id + 1;
    if (texts->n > n)
        WRITE_INTERNED(interned, put_text(interned->w, text_fields[kind], iid, text, size));
    return iid;
}

static size_t path_parts(struct interned_stacks *interned, const char *path, uint64_t *parts)
{
    size_t n = 0;
    while (*path && n < PARTS_MAX) {
        size_t size = strcspn(path, "/");
        if (size > 0)
            parts[n++] = interned_iid_of_text(interned, INTERNED_PATH, path, size);
        path += size + (path[size] == '/');
    }
    return n;
}

static void put_mapping(struct wire_writer *w, uint64_t iid, const struct interned_mapping *mapping,
                        uint64_t build_id, const uint64_t *parts, size_t n_parts)
{
    size_t mark = wire_begin(w, PB_InternedData_mappings);
    wire_uint(w, PB_Mapping_iid, iid);
    wire_uint(w, PB_Mapping_build_id, build_id);
    wire_uint(w, PB_Mapping_start_offset, 0);
    wire_uint(w, PB_Mapping_start, mapping->start);
    wire_uint(w, PB_Mapping_end, mapping->end);
    wire_uint(w, PB_Mapping_load_bias, mapping->load_bias);
    for (size_t i = 0; i < n_parts; i++)
        wire_uint(w, PB_Mapping_path_string_ids, parts[i]);
    wire_uint(w, PB_Mapping_exact_offset, mapping->file_offset);
    wire_end(w, mark);
}

void interned_mapping(struct interned_stacks *interned, uint64_t iid,
                      const struct interned_mapping *mapping, const char *path,
                      const char *build_id, size_t build_id_size)
{
    uint64_t parts[PARTS_MAX];
    uint64_t id = interned_iid_of_text(interned, INTERNED_BUILD_ID, build_id, build_id_size);
    size_t n = path_parts(interned, path, parts);
    WRITE_INTERNED(interned, put_mapping(interned->w, iid, mapping, id, parts, n));
}

static void put_frame(struct wire_writer *w, uint64_t iid, uint64_t mapping, uint64_t rel_pc,
                      uint64_t function)
{
    size_t mark = wire_begin(w, PB_InternedData_frames);
    wire_uint(w, PB_Frame_iid, iid);
    wire_uint(w, PB_Frame_function_name_id, function);
    wire_uint(w, PB_Frame_mapping_id, mapping);
    wire_uint(w, PB_Frame_rel_pc, rel_pc);
    wire_end(w, mark);
}

void interned_frame(struct interned_stacks *interned, uint64_t iid, uint64_t mapping_iid,
                    uint64_t rel_pc, const char *function)
{
    uint64_t name = interned_iid_of_text(interned, INTERNED_FUNCTION, function ? function : "",
                                         function ? strlen(function) : 0);
    WRITE_INTERNED(interned, put_frame(interned->w, iid, mapping_iid, rel_pc, name));
}

static void put_callstack(struct wire_writer *w, uint64_t iid, size_t n,
                          uint64_t (*next)(const void *userdata, size_t i), const void *userdata)
{
    size_t mark = wire_begin(w, PB_InternedData_callstacks);
    wire_uint(w, PB_Callstack_iid, iid);
    for (size_t i = 0; i < n; i++)
        wire_uint(w, PB_Callstack_frame_ids, next(userdata, i));
    wire_end(w, mark);
}

void interned_callstack(struct interned_stacks *interned, uint64_t iid, size_t n,
                        uint64_t (*next)(const void *userdata, size_t i), const void *userdata)
{
    WRITE_INTERNED(interned, put_callstack(interned->w, iid, n, next, userdata));
}

void interned_stacks_done(struct interned_stacks *interned)
{
    for (int i = 0; i < INTERNED_TEXT_KINDS; i++) {
        strset_done(&interned->texts[i]);
        interned->texts[i] = (struct strset){0};
    }
}

void interned_stacks_renew(struct interned_stacks *interned)
{
    for (int i = 0; i < INTERNED_TEXT_KINDS; i++)
        interned->first_text[i] += interned->texts[i].n;
    interned_stacks_done(interned);
}

void interned_stacks_begin(struct interned_stacks *interned)
{
    interned_stacks_renew(interned);
    interned->bytes = 0;
    interned->failed = false;
    interned->n_dropped = interned->writer->packets_dropped;
    packet_writer_clear_state(interned->writer);
}

bool interned_stacks_is_whole(const struct interned_stacks *interned)
{
    return !interned->failed && interned->n_dropped == interned->writer->packets_dropped;
}
