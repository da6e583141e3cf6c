// SPDX-License-Identifier: Apache-2.0
//
// Symbols that simpleperf wrote into its perf.data. When all frames are known, a frame without a
// name gets the name of the symbol that covers the frame's address.
#include "common/text.h"
#include "converter/import/foreign/address_map.h"
#include "converter/import/importer.h"
#include "converter/import/profile/stacks.h"
#include "protos/fields.h"

struct symbol_file {
    struct address_map symbols; // -> name in strings
    uint64_t load_bias;
    bool is_absolute; // symbols have addresses of memory, not of the file
};
VEC_DEFINE(symbol_file_vec, struct symbol_file);

struct simpleperf_files {
    struct address_map kernel; // -> name in strings
    struct symbol_file_vec files;
    struct map64 by_path; // path in strings -> index in files
};

static bool contains(struct text text, struct text needle)
{
    return text.size && memmem(text.at, text.size, needle.at, needle.size) != NULL;
}

static void symbols_read(struct import *im, const struct wire_field *message,
                         struct address_map *map)
{
    for (struct fields each = fields_of(message, PB_SimpleperfFile_symbol);
         fields_next(&each) && !import_failed(im);) {
        MESSAGE(symbol, SimpleperfFile_Symbol, &each.field);
        import_fail(im,
                    address_map_put(map, field_u64(&symbol.vaddr), (uint32_t)field_u64(&symbol.len),
                                    import_keep(im, &symbol.name)));
    }
}

// Returns the address of the file's first byte of code, less the byte's offset in the file or in
// memory.
static uint64_t load_bias_of(const union message_SimpleperfFile *part)
{
    MESSAGE(elf, SimpleperfFile_ElfFile, &part->elf_file);
    MESSAGE(module, SimpleperfFile_KernelModule, &part->kernel_module);
    switch (field_u64(&part->type)) {
    case PB_DSO_ELF_FILE:
        return field_u64(&part->min_vaddr) - field_u64(&elf.file_offset_of_min_vaddr);
    case PB_DSO_KERNEL_MODULE:
        return field_u64(&part->min_vaddr) - field_u64(&module.memory_offset_of_min_vaddr);
    default:
        return 0;
    }
}

static void simpleperf_file_now(struct import *im, const struct packet *packet)
{
    struct simpleperf_files *state = packet->own;
    MESSAGE(part, SimpleperfFile, packet->message);
    uint64_t type = field_u64(&part.type);
    struct text path = field_words(&part.path);
    bool is_new;
    if (type == PB_DSO_KERNEL) {
        symbols_read(im, packet->message, &state->kernel);
        return;
    }
    if (type != PB_DSO_ELF_FILE && type != PB_DSO_KERNEL_MODULE && type != PB_DSO_DEX_FILE)
        return;
    const uint64_t *index =
        import_map_get(im, &state->by_path, import_keep(im, &part.path), state->files.n, &is_new);
    if (!index || !is_new)
        return;
    struct symbol_file file = {
        .load_bias = load_bias_of(&part),
        .is_absolute =
            contains(path, TEXT("jit_app_cache")) || contains(path, TEXT("jit_zygote_cache")),
    };
    import_fail(im, symbol_file_vec_push(&state->files, file));
    if (!import_failed(im))
        symbols_read(im, packet->message, &state->files.items[state->files.n - 1].symbols);
}

static int64_t symbol_find(const struct simpleperf_files *state, const struct stack_frame *frame,
                           const struct stack_mapping *mapping)
{
    const uint64_t *index = map64_find(&state->by_path, mapping->name);
    uint64_t rel_pc = (uint64_t)frame->rel_pc, start = (uint64_t)mapping->start;
    int64_t symbol = ADDRESS_NONE;
    if (index && *index < state->files.n) {
        const struct symbol_file *file = &state->files.items[*index];
        uint64_t pc = rel_pc + file->load_bias;
        if (file->is_absolute)
            pc += start - (uint64_t)mapping->exact_offset;
        symbol = address_map_find(&file->symbols, pc);
    }
    return symbol == ADDRESS_NONE ? address_map_find(&state->kernel, rel_pc + start) : symbol;
}

static void frames_name(struct import *im, void *own)
{
    const struct simpleperf_files *state = own;
    const struct stacks *stacks = stacks_of(im);
    if (!state->files.n && !state->kernel.blocks.n)
        return;
    vec_foreach(&stacks->frame_rows, frame) {
        bool has_name = frame->name != STRSET_NONE && im->strings.entries[frame->name].size;
        int64_t symbol =
            has_name ? ADDRESS_NONE
                     : symbol_find(state, frame, &stacks->mapping_rows.items[frame->mapping]);
        if (symbol != ADDRESS_NONE)
            frame->name = (uint32_t)symbol;
    }
}

static void simpleperf_files_done(void *own)
{
    struct simpleperf_files *state = own;
    address_map_done(&state->kernel);
    vec_foreach(&state->files, file)
        address_map_done(&file->symbols);
    symbol_file_vec_done(&state->files);
    map64_done(&state->by_path);
}

const struct importer importer_simpleperf_file = {
    .field = PB_TracePacket_simpleperf_file,
    .now = simpleperf_file_now,
    .state_size = sizeof(struct simpleperf_files),
    .of_all_machines = true,
    .finish = frames_name,
    .done = simpleperf_files_done,
};
