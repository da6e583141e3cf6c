// SPDX-License-Identifier: Apache-2.0
//
// Packets of V8: code generated from JavaScript, WebAssembly and regular expressions, V8's own
// code, and moved code. Code at an unknown place is counted, but gets no row, as in Perfetto.
#include "converter/import/importer.h"
#include "converter/import/v8/v8.h"
#include "protos/fields.h"

// A packet whose isolate and thread are known.
struct code_packet {
    struct import *im;
    struct v8 *v8;
    const struct packet *packet;
    int64_t isolate, utid;
    const struct wire_field *start, *size, *bytes; // of native code
};

// Arguments of packet_begin() from a message.
#define CODE_FIELDS(part)                                                                          \
    &(part).v8_isolate_iid, &(part).tid, &(part).instruction_start,                                \
        &(part).instruction_size_bytes, &(part).machine_code

// Finds the thread that generated the code: of the packet, or of the sequence's defaults.
static bool thread_find(struct code_packet *code, const struct wire_field *tid)
{
    struct wire_field defaults;
    struct import *im = code->im;
    if (!field_present(tid)) {
        defaults =
            message_field(code->packet->state->defaults, PB_TracePacketDefaults_v8_code_defaults);
        defaults = message_field(wire_sub(&defaults), PB_V8CodeDefaults_tid);
        tid = &defaults;
    }
    if (!field_present(tid)) {
        stats_add(&im->stats, STAT_v8_no_defaults, 1);
        return false;
    }
    int64_t upid = code->v8->isolates.items[code->isolate].upid;
    code->utid = processes_update_thread(&im->processes, (uint32_t)field_u64(tid),
                                         processes_at(&im->processes, upid)->pid);
    return true;
}

static bool packet_begin(struct code_packet *code, struct import *im, const struct packet *packet,
                         const struct wire_field *isolate_iid, const struct wire_field *tid,
                         const struct wire_field *start, const struct wire_field *size,
                         const struct wire_field *bytes)
{
    *code = (struct code_packet){.im = im,
                                 .v8 = packet->own,
                                 .packet = packet,
                                 .start = start,
                                 .size = size,
                                 .bytes = bytes};
    code->isolate = v8_isolate(im, code->v8, packet, field_u64(isolate_iid));
    return code->isolate != V8_NONE && thread_find(code, tid);
}

static int64_t space_find(const struct code_packet *code)
{
    return code_space_find(code->v8, code->isolate, field_u64(code->start), field_u64(code->size));
}

// Returns the space of code that must be in a space. Counts code that is in no space.
static int64_t space_of(const struct code_packet *code)
{
    int64_t space = field_u64(code->size) ? space_find(code) : V8_NONE;
    if (space == V8_NONE)
        stats_add(&code->im->stats,
                  field_u64(code->size) ? STAT_v8_no_code_range
                                        : STAT_v8_code_load_missing_code_range,
                  1);
    return space;
}

// Adds native code and returns the row of the code; V8_NONE: no space.
static int64_t native_put(const struct code_packet *code, int64_t space, struct slice_name name)
{
    struct new_code made = {
        .ts = code->packet->ts,
        .utid = code->utid,
        .start = field_u64(code->start),
        .size = field_u64(code->size),
        .name = name,
        .bytes = *code->bytes,
    };
    return space == V8_NONE ? V8_NONE : code_put(code->im, code->v8, code->isolate, space, &made);
}

static void js_sorted(struct import *im, const struct packet *packet)
{
    static const char *const tiers[] = {"UNKNOWN", "IGNITION",   "SPARKPLUG",
                                        "MAGLEV",  "TURBOSHAFT", "TURBOFAN"};
    MESSAGE(part, V8JsCode, packet->message);
    uint64_t tier = field_u64(&part.tier);
    struct code_packet code;
    struct slice_name name;
    if (!packet_begin(&code, im, packet, CODE_FIELDS(part)))
        return;
    int64_t function = v8_js_function(im, code.v8, packet, code.isolate,
                                      field_u64(&part.v8_js_function_iid), &name);
    if (function == V8_NONE)
        return;
    if (tier == PB_TIER_UNKNOWN || tier > PB_V8JsCode_TIER_TURBOFAN) {
        stats_add(&im->stats, STAT_v8_unknown_code_type, 1);
        return;
    }
    // The interpreter may have generated native code, and this code appears in native call chains.
    int64_t space =
        tier == PB_TIER_IGNITION && field_u64(code.size) ? space_find(&code) : space_of(&code);
    if (space == V8_NONE && tier != PB_TIER_IGNITION)
        return;
    int64_t row_id = native_put(&code, space, name);
    struct cell *row = database_row(im->db, TABLE_v8_js_code, NULL);
    cell_int(row, COL_v8_js_code_v8_js_function_id, function);
    cell_text(row, COL_v8_js_code_tier, tiers[tier]);
    if (row_id != V8_NONE)
        cell_int(row, COL_v8_js_code_jit_code_id, row_id);
    else
        v8_cell_base64(im, row, COL_v8_js_code_bytecode_base64, &part.bytecode);
}

static void internal_sorted(struct import *im, const struct packet *packet)
{
    static const char *const types[] = {
        "UNKNOWN",           "BYTECODE_HANDLER",      "FOR_TESTING",         "BUILTIN",
        "WASM_FUNCTION",     "WASM_TO_CAPI_FUNCTION", "WASM_TO_JS_FUNCTION", "JS_TO_WASM_FUNCTION",
        "JS_TO_JS_FUNCTION", "C_WASM_ENTRY",
    };
    MESSAGE(part, V8InternalCode, packet->message);
    struct slice_name name = field_name(&part.name);
    uint64_t type = field_u64(&part.type);
    struct code_packet code;
    if (!packet_begin(&code, im, packet, CODE_FIELDS(part)))
        return;
    int64_t id = native_put(&code, space_of(&code), name);
    if (id == V8_NONE)
        return;
    struct cell *row = database_row(im->db, TABLE_v8_internal_code, NULL);
    cell_int(row, COL_v8_internal_code_jit_code_id, id);
    cell_int(row, COL_v8_internal_code_v8_isolate_id, code.v8->isolates.items[code.isolate].id);
    cell_bytes(row, COL_v8_internal_code_function_name, name.text, name.size);
    cell_text(row, COL_v8_internal_code_code_type, NAMED(types, type));
}

static void wasm_sorted(struct import *im, const struct packet *packet)
{
    static const char *const tiers[] = {"UNKNOWN", "LIFTOFF", "TURBOFAN"};
    MESSAGE(part, V8WasmCode, packet->message);
    const struct wire_field *offset = &part.code_offset_in_module;
    struct slice_name name = field_name(&part.function_name);
    uint64_t tier = field_u64(&part.tier);
    struct code_packet code;
    if (!packet_begin(&code, im, packet, CODE_FIELDS(part)))
        return;
    int64_t script =
        v8_wasm_script(im, code.v8, packet, code.isolate, field_u64(&part.v8_wasm_script_iid));
    int64_t id = script == V8_NONE ? V8_NONE : native_put(&code, space_of(&code), name);
    if (id == V8_NONE)
        return;
    struct cell *row = database_row(im->db, TABLE_v8_wasm_code, NULL);
    cell_int(row, COL_v8_wasm_code_jit_code_id, id);
    cell_int(row, COL_v8_wasm_code_v8_isolate_id, code.v8->isolates.items[code.isolate].id);
    cell_int(row, COL_v8_wasm_code_v8_wasm_script_id, script);
    cell_bytes(row, COL_v8_wasm_code_function_name, name.text, name.size);
    cell_text(row, COL_v8_wasm_code_tier, NAMED(tiers, tier));
    if (field_present(offset))
        cell_int(row, COL_v8_wasm_code_code_offset_in_module, (int32_t)field_u64(offset));
}

static void regexp_sorted(struct import *im, const struct packet *packet)
{
    MESSAGE(part, V8RegExpCode, packet->message);
    struct code_packet code;
    if (!packet_begin(&code, im, packet, CODE_FIELDS(part)))
        return;
    int64_t id = native_put(&code, space_of(&code), slice_name("[RegExp]"));
    if (id == V8_NONE)
        return;
    struct cell *row = database_row(im->db, TABLE_v8_regexp_code, NULL);
    cell_int(row, COL_v8_regexp_code_jit_code_id, id);
    cell_int(row, COL_v8_regexp_code_v8_isolate_id, code.v8->isolates.items[code.isolate].id);
    v8_cell_text(im, row, COL_v8_regexp_code_pattern, &part.pattern);
}

static void move_sorted(struct import *im, const struct packet *packet)
{
    MESSAGE(part, V8CodeMove, packet->message);
    const struct wire_field *from = &part.from_instruction_start_address;
    struct code_packet code;
    if (!packet_begin(&code, im, packet, &part.isolate_iid, &part.tid, from,
                      &part.instruction_size_bytes, NULL) ||
        !field_present(from))
        return;
    int64_t space = space_of(&code);
    if (space != V8_NONE)
        code_move(im, code.v8, space, packet->ts, field_u64(from),
                  field_u64(&part.to_instruction_start_address));
}

static void v8_finish(struct import *im, void *state)
{
    codes_finish(im, state);
}

const struct importer importer_v8_js_code = {
    .field = PB_TracePacket_v8_js_code,
    .sorted = js_sorted,
    .state_size = sizeof(struct v8),
    .finish = v8_finish,
    .done = v8_done,
};
const struct importer importer_v8_internal_code = {
    .field = PB_TracePacket_v8_internal_code,
    .sorted = internal_sorted,
    .shares = &importer_v8_js_code,
};
const struct importer importer_v8_wasm_code = {
    .field = PB_TracePacket_v8_wasm_code,
    .sorted = wasm_sorted,
    .shares = &importer_v8_js_code,
};
const struct importer importer_v8_regexp_code = {
    .field = PB_TracePacket_v8_reg_exp_code,
    .sorted = regexp_sorted,
    .shares = &importer_v8_js_code,
};
const struct importer importer_v8_code_move = {
    .field = PB_TracePacket_v8_code_move,
    .sorted = move_sorted,
    .shares = &importer_v8_js_code,
};
