// SPDX-License-Identifier: Apache-2.0
//
// ArtProcessMetadata: an Android app whose Java heap was full or is about to be dumped. The heap
// gets a row of heap_graph. A dump of the heap shares this row. The failed allocation and its
// thread have separate tables.
#include <errno.h>

#include "common/cleanup.h"
#include "converter/import/android/packages.h"
#include "converter/import/heap_graph/parts.h"
#include "converter/import/profile/deobfuscation.h"
#include "converter/import/profile/stacks.h"
#include "protos/fields.h"

#define FRAMES_MAX 4096 // of a call chain

VEC_DEFINE(frame_id_vec, int64_t);

static uint32_t text_keep(struct import *im, const void *text, size_t size)
{
    uint32_t id = strset_add(&im->strings, text ? text : "", size);
    if (id == STRSET_NONE)
        import_fail(im, -ENOMEM);
    return id;
}

// Returns the method's name: android.app.Foo.bar for "void android.app.Foo.bar(int)".
static struct slice_name method_name(const struct wire_field *method)
{
    const char *text = field_text(method), *end = text + (method->data ? method->size : 0);
    const char *parenthesis = memchr(text, '(', (size_t)(end - text));
    if (parenthesis)
        end = parenthesis;
    const char *space = memrchr(text, ' ', (size_t)(end - text));
    if (space)
        text = space + 1;
    return (struct slice_name){.text = text, .size = (size_t)(end - text)};
}

static int64_t frame_of(struct import *im, const struct wire_field *method,
                        const struct wire_field *file, const struct wire_field *line)
{
    static const char mapping_name[] = "art_process_metadata";
    const int64_t numbers[5] = {[3] = -1};
    struct slice_name name = method_name(method);
    int64_t mapping = stacks_mapping(im, text_keep(im, mapping_name, sizeof(mapping_name) - 1),
                                     text_keep(im, "", 0), numbers);
    return stacks_frame(im, mapping, 0, text_keep(im, name.text, name.size),
                        file->data ? text_keep(im, file->data, file->size) : STRSET_NONE,
                        (uint32_t)field_u64(line), STRSET_NONE);
}

// Reads a call chain. Frames come innermost first; call sites are added from the outermost frame.
// Returns 0 or -ENOMEM.
static int stack_read(struct import *im, const struct wire_field *message, int64_t *ret_callsite)
{
    CLEANUP(frame_id_vec_done) struct frame_id_vec frames = {0};
    for (struct fields each = fields_of(message, PB_JavaStack_frames);
         frames.n < FRAMES_MAX && fields_next(&each);) {
        MESSAGE(part, JavaFrame, &each.field);
        const struct wire_field *method = &part.method_name;
        if (!field_present(method))
            continue;
        int64_t frame = frame_of(im, method, &part.source_file, &part.line_number);
        if (frame < 0 || frame_id_vec_push(&frames, frame) < 0)
            return -ENOMEM;
    }
    *ret_callsite = CALLSITE_NONE;
    for (size_t i = frames.n, depth = 0; i-- > 0; depth++)
        *ret_callsite = stacks_child(im, *ret_callsite, frames.items[i], (int64_t)depth);
    return 0;
}

static void failure_write(struct import *im, int64_t graph,
                          const union message_ArtProcessMetadata *part)
{
    struct cell *row = database_row(im->db, TABLE_android_heap_graph_java_oome_details, NULL);
    cell_int(row, COL_android_heap_graph_java_oome_details_heap_graph_id, graph);
    cell_int(row, COL_android_heap_graph_java_oome_details_allocation_size_bytes,
             field_i64(&part->oom_allocation_size));
    const struct wire_field *free = &part->oom_total_bytes_free;
    if (field_present(free))
        cell_int(row, COL_android_heap_graph_java_oome_details_total_bytes_free, field_i64(free));
    free = &part->oom_free_bytes_until_oom;
    if (field_present(free))
        cell_int(row, COL_android_heap_graph_java_oome_details_free_bytes_until_oom,
                 field_i64(free));
    cell_field(row, COL_android_heap_graph_java_oome_details_error_msg, &part->oom_error_msg);
}

static int64_t process_read(struct import *im, int64_t pid,
                            const union message_ArtProcessMetadata *part)
{
    const struct wire_field *name = &part->process_name;
    const struct wire_field *uid = &part->uid;
    int64_t upid = processes_process(&im->processes, pid);
    if (field_present(name))
        processes_name(&im->processes, upid, text_keep(im, field_text(name), name->size),
                       PROCESS_NAME_TRACK);
    if (field_present(uid)) {
        struct process *process = processes_at(&im->processes, upid);
        process->uid = (uint32_t)field_u64(uid);
        process->has_uid = true;
    }
    return upid;
}

static void metadata_sorted(struct import *im, const struct packet *packet)
{
    MESSAGE(part, ArtProcessMetadata, packet->message);
    const struct wire_field *package = &part.package_name;
    const struct wire_field *uid = &part.uid;
    const struct wire_field *stack = &part.oom_thread_java_stack;
    bool is_full = field_present(&part.oom_allocation_size), is_new;
    uint32_t pid = (uint32_t)field_u64(&part.pid);
    int64_t upid = process_read(im, pid, &part);
    if (field_present(package) && field_present(uid)) {
        if (!packages_see(im, package, (int32_t)field_u64(uid), &is_new))
            return;
        if (is_new) {
            struct cell *row = database_row(im->db, TABLE_package_list, NULL);
            cell_field(row, COL_package_list_package_name, package);
            cell_int(row, COL_package_list_uid, (int32_t)field_u64(uid));
        }
    }
    int64_t graph = heap_graph_reason(im, upid, packet->ts, is_full ? "OOME" : NULL), callsite;
    if (graph < 0) {
        import_fail(im, (int)graph);
        return;
    }
    import_bounds(im, packet->ts);
    if (!is_full)
        return;
    failure_write(im, graph, &part);
    if (!field_present(stack))
        return;
    int r = stack_read(im, stack, &callsite);
    if (r < 0) {
        import_fail(im, r);
        return;
    }
    struct cell *row = database_row(im->db, TABLE_heap_graph_thread_callsite, NULL);
    cell_int(row, COL_heap_graph_thread_callsite_heap_graph_id, graph);
    cell_int(row, COL_heap_graph_thread_callsite_utid,
             processes_update_thread(&im->processes, pid, pid));
    if (callsite != CALLSITE_NONE)
        cell_int(row, COL_heap_graph_thread_callsite_callsite_id, callsite);
    deobfuscation_user(im, callsite, upid);
}

const struct importer importer_art_process_metadata = {
    .field = PB_TracePacket_art_process_metadata,
    .sorted = metadata_sorted,
};
