// SPDX-License-Identifier: Apache-2.0
//
// Names of the kernel's numbers: InterruptInfo (interrupts) and InodeFileMap (files). A recorder
// may repeat the names. The first name of an interrupt stays, and a known name of a file gets no
// further row.
#include "common/elements.h"
#include "common/map.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

struct interrupts {
    struct map64 seen;
};

static void interrupts_now(struct import *im, const struct packet *packet)
{
    struct interrupts *state = packet->own;
    for (struct fields each = fields_of(packet->message, PB_InterruptInfo_irq_mapping);
         fields_next(&each);) {
        MESSAGE(part, InterruptInfo_InterruptMapping, &each.field);
        const struct wire_field *irq = &part.irq_id;
        const struct wire_field *name = &part.name;
        if (!field_present(irq) || !field_present(name))
            continue;
        bool is_new;
        if (!import_map_get(im, &state->seen, (uint32_t)field_u64(irq), 0, &is_new) || !is_new)
            continue;
        struct cell *row = database_row(im->db, TABLE_linux_interrupt_mapping, NULL);
        cell_int(row, COL_linux_interrupt_mapping_irq_id, (uint32_t)field_u64(irq));
        cell_field(row, COL_linux_interrupt_mapping_name, name);
        cell_int(row, COL_linux_interrupt_mapping_machine_id, im->machine->number);
    }
}

static void interrupts_done(void *state)
{
    map64_done(&((struct interrupts *)state)->seen);
}

struct inodes {
    struct strset mounts; // device and path
    struct strset paths;  // device, inode and path
    struct strbuf key;    // buffer for the current key
};

// Adds numbers and path to the set. False: the set has the numbers and path already, or memory ran
// out.
static bool name_add(struct import *im, struct strset *set, struct strbuf *key,
                     const uint64_t numbers[2], const struct wire_field *path)
{
    bool is_new;
    strbuf_clear(key);
    strbuf_add(key, numbers, 2 * sizeof(numbers[0]));
    strbuf_add_char(key, path->data ? 'p' : '-');
    strbuf_add(key, field_text(path), path->size);
    return import_strbuf_whole(im, key) &&
           import_set_add(im, set, key->text, key->size, &is_new) >= 0 && is_new;
}

static void mount_add(struct import *im, struct inodes *state, uint64_t device,
                      const struct wire_field *path)
{
    if (!name_add(im, &state->mounts, &state->key, (uint64_t[]){device, 0}, path))
        return;
    struct cell *row = database_row(im->db, TABLE_inode_mount, NULL);
    cell_int(row, COL_inode_mount_device, (int64_t)device);
    cell_field(row, COL_inode_mount_path, path);
    cell_int(row, COL_inode_mount_machine_id, im->machine->number);
}

static void path_add(struct import *im, struct inodes *state, uint64_t device,
                     const union message_InodeFileMap_Entry *entry, const struct wire_field *path)
{
    static const char *const types[] = {[PB_FILE] = "FILE", [PB_DIRECTORY] = "DIRECTORY"};
    uint64_t inode = field_u64(&entry->inode_number);
    uint64_t type = field_u64(&entry->type);
    if (!name_add(im, &state->paths, &state->key, (uint64_t[]){device, inode}, path))
        return;
    struct cell *row = database_row(im->db, TABLE_inode_path, NULL);
    cell_int(row, COL_inode_path_device, (int64_t)device);
    cell_int(row, COL_inode_path_inode, (int64_t)inode);
    if (type < ELEMENTS(types))
        cell_text(row, COL_inode_path_type, types[type]);
    cell_field(row, COL_inode_path_path, path);
    cell_int(row, COL_inode_path_machine_id, im->machine->number);
}

static void entry_read(struct import *im, struct inodes *state, uint64_t device,
                       const struct wire_field *message)
{
    MESSAGE(entry, InodeFileMap_Entry, message);
    struct fields each = fields_of(message, PB_InodeFileMap_Entry_paths);
    size_t n_paths = 0;
    while (!import_failed(im) && fields_next(&each))
        if (each.field.type == WIRE_BYTES) {
            path_add(im, state, device, &entry, &each.field);
            n_paths++;
        }
    if (!n_paths)
        path_add(im, state, device, &entry, &(struct wire_field){0});
}

static void inodes_now(struct import *im, const struct packet *packet)
{
    struct inodes *state = packet->own;
    MESSAGE(map, InodeFileMap, packet->message);
    uint64_t device = field_u64(&map.block_device_id);
    struct wire_reader reader = wire_sub(packet->message);
    struct wire_field field;
    while (!import_failed(im) && wire_next(&reader, &field)) {
        if (field.type != WIRE_BYTES)
            continue;
        if (field.number == PB_InodeFileMap_mount_points)
            mount_add(im, state, device, &field);
        else if (field.number == PB_InodeFileMap_entries)
            entry_read(im, state, device, &field);
    }
}

static void inodes_done(void *userdata)
{
    struct inodes *state = userdata;
    strset_done(&state->mounts);
    strset_done(&state->paths);
    strbuf_done(&state->key);
}

const struct importer importer_interrupts = {
    .field = PB_TracePacket_interrupt_info,
    .now = interrupts_now,
    .state_size = sizeof(struct interrupts),
    .done = interrupts_done,
};
const struct importer importer_inodes = {
    .field = PB_TracePacket_inode_file_map,
    .now = inodes_now,
    .state_size = sizeof(struct inodes),
    .done = inodes_done,
};
