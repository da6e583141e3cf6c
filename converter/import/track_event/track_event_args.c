// SPDX-License-Identifier: Apache-2.0
//
// Args of a track event: source locations, log messages, annotations and typed fields. The trace
// describes the typed fields that Perfetto's own readers do not know.
#include "common/cleanup.h"
#include "converter/import/arg_writer.h"
#include "converter/import/descriptors.h"
#include "converter/import/profile/stacks.h"
#include "converter/import/track_event/track_event.h"
#include "protos/fields.h"

static void named_put(struct arg_writer *writer, const char *name, struct arg value)
{
    struct arg_place place;
    if (!arg_enter(writer, text_from(name), &place))
        return;
    arg_put(writer, value);
    arg_leave(writer, place);
}

// Returns a path with slashes in place of Windows' separators.
static struct arg path_arg(struct import *im, const struct wire_field *field)
{
    struct strbuf path = {0};
    strbuf_add(&path, field_text(field), field->size);
    for (size_t i = 0; i < path.size; i++)
        if (path.text[i] == '\\')
            path.text[i] = '/';
    uint32_t id = import_strbuf_keep(im, &path);
    const char *kept = strset_text(&im->strings, id);
    struct arg arg = arg_text(NULL, kept, kept ? path.size : 0);
    strbuf_done(&path);
    return arg;
}

static bool location_find(const struct event *event, uint64_t iid, struct wire_field *ret)
{
    struct wire_field found = interned_message(
        generation_find(event->packet->state, PB_InternedData_source_locations, iid));
    if (field_present(&found))
        *ret = found;
    return field_present(&found);
}

static void location_put(struct arg_writer *writer, const char *prefix,
                         const struct wire_field *message, bool line_is_signed)
{
    MESSAGE(part, SourceLocation, message);
    struct arg_place place;
    if (!arg_enter(writer, text_from(prefix), &place))
        return;
    const struct wire_field *function = &part.function_name;
    uint32_t line = (uint32_t)field_u64(&part.line_number);
    named_put(writer, "file_name", path_arg(writer->im, &part.file_name));
    named_put(writer, "function_name", arg_text(NULL, function->data, function->size));
    named_put(writer, "line_number", line_is_signed ? arg_int(NULL, line) : arg_uint(NULL, line));
    arg_leave(writer, place);
}

static void interned_location(struct event *event, struct arg_writer *writer, const char *prefix,
                              uint64_t iid)
{
    struct wire_field location;
    if (iid && location_find(event, iid, &location))
        location_put(writer, prefix, &location, false);
    else
        writer->failed = true;
}

static void log_row(struct event *event, const struct wire_field *body, const char *tag,
                    size_t tag_size, int priority)
{
    struct import *im = event->im;
    struct cell *row = database_row(im->db, TABLE_logs, NULL);
    cell_int(row, COL_logs_ts, event->packet->ts);
    cell_text(row, COL_logs_log_source, "android_logcat");
    cell_int(row, COL_logs_utid, event->utid);
    cell_int(row, COL_logs_prio, priority);
    if (tag)
        cell_bytes(row, COL_logs_tag, tag, tag_size);
    cell_bytes(row, COL_logs_msg, body->data, body->size);
    import_bounds(im, event->packet->ts);
}

static void log_message(struct event *event, struct arg_writer *writer)
{
    struct import *im = event->im;
    MESSAGE(part, LogMessage, &event->fields.log_message);
    struct wire_field body, location;
    if (event->utid == UTID_NONE ||
        !interned_text(event->packet->state, PB_InternedData_log_message_body,
                       field_u64(&part.body_iid), &body)) {
        writer->failed = true;
        return;
    }
    const struct wire_field *priority = &part.prio;
    const struct wire_field *iid = &part.source_location_iid;
    struct arg_place track_event, message;
    uint32_t tag = STRSET_NONE;
    if (!arg_enter(writer, TEXT("track_event"), &track_event))
        return;
    if (arg_enter(writer, TEXT("log_message"), &message)) {
        named_put(writer, "message", arg_text(NULL, body.data, body.size));
        arg_leave(writer, message);
    }
    if (field_present(iid) && location_find(event, field_u64(iid), &location)) {
        CLEANUP(strbuf_done) struct strbuf text = {0};
        MESSAGE(place, SourceLocation, &location);
        strbuf_add(&text, field_text(&place.file_name), place.file_name.size);
        strbuf_addf(&text, ":%u", (uint32_t)field_u64(&place.line_number));
        tag = import_strbuf_keep(im, &text);
        location_put(writer, "log_message", &location, true);
    }
    uint64_t level = field_u64(priority);
    level = level <= PB_PRIO_FATAL ? level : 0;
    if (field_present(priority))
        named_put(writer, "priority", arg_int(NULL, (int64_t)level));
    arg_leave(writer, track_event);
    log_row(event, &body, strset_text(&im->strings, tag),
            tag == STRSET_NONE ? 0 : im->strings.entries[tag].size,
            field_present(priority) ? (int)level : PB_PRIO_INFO);
}

// Writes the name of a histogram, if the name is interned.
static void histogram_name(struct event *event, struct arg_writer *writer)
{
    MESSAGE(sample, ChromeHistogramSample, &event->fields.chrome_histogram_sample);
    struct wire_field name;
    struct arg_place place;
    if (!field_present(&event->fields.chrome_histogram_sample) || !field_present(&sample.name_iid))
        return;
    if (field_present(&sample.name) ||
        !interned_text(event->packet->state, PB_InternedData_histogram_names,
                       field_u64(&sample.name_iid), &name))
        writer->failed = true;
    else if (arg_enter(writer, TEXT("chrome_histogram_sample"), &place)) {
        named_put(writer, "name", arg_text(NULL, name.data, name.size));
        arg_leave(writer, place);
    }
}

static void correlation_id(struct event *event, struct arg_writer *writer)
{
    const struct wire_field *number = &event->fields.correlation_id;
    struct wire_field text = event->fields.correlation_id_str;
    const struct wire_field *iid = &event->fields.correlation_id_str_iid;
    if (field_present(number)) {
        struct slice_name name =
            import_text(event->im, "tp:#%llu", (unsigned long long)field_u64(number));
        named_put(writer, "correlation_id", arg_text(NULL, name.text, name.size));
    }
    if (field_present(iid) &&
        !interned_text(event->packet->state, PB_InternedData_correlation_id_str, field_u64(iid),
                       &text))
        text.number = 0; // an unknown iid also hides the event's own text
    if (field_present(&text))
        named_put(writer, "correlation_id", arg_text(NULL, text.data, text.size));
}

static void callstack_read(struct event *event, struct arg_writer *writer)
{
    struct import *im = event->im;
    const struct wire_field *iid = &event->fields.callstack_iid;
    const struct wire_field *own = &event->fields.callstack;
    struct stack_source source = stack_source_interned(event->packet->state);
    if (field_present(iid)) {
        event->callsite = stacks_callsite(im, &source, field_u64(iid));
        writer->failed |= event->callsite == CALLSITE_NONE;
    } else if (field_present(own)) {
        event->callsite = stacks_inline(im, own, "track_event_inline");
    }
}

void event_callstack_row(const struct event *event, int64_t slice, uint32_t track)
{
    const struct wire_field *weight = &event->fields.callstack_weight;
    if (event->callsite == CALLSITE_NONE)
        return;
    bool ends = field_u64(&event->fields.type) == PB_TYPE_SLICE_END;
    struct cell *row = database_row(event->im->db, TABLE__track_event_callstacks, NULL);
    cell_int(row, COL__track_event_callstacks_slice_id, slice);
    cell_int(row, COL__track_event_callstacks_track_id, track);
    cell_int(row,
             ends ? COL__track_event_callstacks_end_callsite_id
                  : COL__track_event_callstacks_callsite_id,
             event->callsite);
    if (field_present(weight))
        cell_real(row, COL__track_event_callstacks_weight, field_double(weight));
}

// The address of the function that represents a message.
struct mojo_place {
    int64_t mapping; // STACK_NONE: not known
    uint64_t rel_pc;
};

static struct mojo_place mojo_place(const struct event *event)
{
    struct mojo_place none = {.mapping = STACK_NONE};
    if (!field_present(&event->fields.chrome_mojo_event_info))
        return none;
    MESSAGE(mojo, ChromeMojoEventInfo, &event->fields.chrome_mojo_event_info);
    if (!field_present(&mojo.mojo_interface_method_iid))
        return none;
    struct wire_field found = interned_message(
        generation_find(event->packet->state, PB_InternedData_unsymbolized_source_locations,
                        field_u64(&mojo.mojo_interface_method_iid)));
    if (!field_present(&found))
        return none;
    MESSAGE(location, UnsymbolizedSourceLocation, &found);
    struct stack_source source = stack_source_interned(event->packet->state);
    return (struct mojo_place){
        stacks_interned_mapping(event->im, &source, field_u64(&location.mapping_id)),
        field_u64(&location.rel_pc)};
}

// Returns the size of the text's first part, which ends with the text or before "::".
static size_t part_size(struct text text)
{
    size_t size = 0;
    while (size < text.size &&
           !text_starts_with((struct text){text.at + size, text.size - size}, TEXT("::")))
        size++;
    return size;
}

// Returns the parts of a symbol like a::Interface::Method_Sym::IPCStableHash, joined by dots,
// without the last two parts. A symbol of one or two parts stays unchanged.
static struct slice_name mojo_interface(struct import *im, struct slice_name symbol)
{
    CLEANUP(strbuf_done) struct strbuf joined = {0};
    size_t ends[2] = {0}; // of the text without its last part, and without its last two parts
    size_t n_parts = 0;
    for (size_t at = 0, size; at < symbol.size; at += size + strlen("::")) {
        size = part_size((struct text){symbol.text + at, symbol.size - at});
        if (!size)
            continue;
        ends[1] = ends[0];
        ends[0] = joined.size;
        if (n_parts++)
            strbuf_add_char(&joined, '.');
        strbuf_add(&joined, symbol.text + at, size);
    }
    if (n_parts <= 2 || joined.failed)
        return symbol;
    return import_text_keep(im, joined.text, ends[1]);
}

static struct slice_name mojo_method(struct slice_name symbol)
{
    static const char *const endings[] = {"()", "_Sym::IPCStableHash"};
    for (size_t i = 0; i < ELEMENTS(endings); i++)
        if (text_ends_with((struct text){symbol.text, symbol.size}, text_from(endings[i])))
            symbol.size -= strlen(endings[i]);
    return symbol;
}

// Writes the interface and method of a message, from the symbol of the function that represents the
// message. The event's own name of the interface has priority.
static void mojo_names(struct event *event, struct arg_writer *writer, struct mojo_place at)
{
    struct import *im = event->im;
    struct arg_place info, place, symbol_place;
    if (at.mapping == STACK_NONE || !arg_enter(writer, TEXT("chrome_mojo_event_info"), &info))
        return;
    uint32_t function = symbols_function(im, at.mapping, at.rel_pc);
    struct slice_name symbol = slice_name_of(&im->strings, function);
    if (symbol.text) {
        struct arg interface = arg_name(NULL, mojo_interface(im, symbol));
        interface.is_fallback = true;
        named_put(writer, "mojo_method_name", arg_name(NULL, mojo_method(symbol)));
        named_put(writer, "mojo_interface_tag", interface);
    } else if (arg_enter(writer, TEXT("mojo_interface_method"), &place)) {
        if (arg_enter(writer, TEXT("native_symbol"), &symbol_place)) {
            named_put(writer, "mapping_id", arg_uint(NULL, (uint64_t)at.mapping));
            named_put(writer, "rel_pc", arg_uint(NULL, at.rel_pc));
            arg_leave(writer, symbol_place);
        }
        arg_leave(writer, place);
    }
    arg_leave(writer, info);
}

// Returns true for typed fields that are read by their description. This file reads the other
// fields.
static bool is_reflected(uint32_t number)
{
    return number == PB_TrackEvent_chrome_mojo_event_info ||
           number == PB_TrackEvent_source_location || number == PB_TrackEvent_source_location_iid ||
           number == PB_TrackEvent_chrome_user_event ||
           number == PB_TrackEvent_chrome_histogram_sample;
}

static void annotations(struct event *event, struct arg_writer *writer)
{
    struct arg_place place;
    if (!arg_enter(writer, TEXT("debug"), &place))
        return;
    struct fields each = fields_of(&event->message, PB_TrackEvent_debug_annotations);
    while (!writer->is_cut && fields_next(&each))
        if (each.field.type == WIRE_BYTES)
            debug_annotation_read(writer, &each.field);
    arg_leave(writer, place);
}

// Fields that make no args.
#define PLAIN_FIELDS                                                                               \
    (FIELD_BIT(PB_TrackEvent_type) | FIELD_BIT(PB_TrackEvent_track_uuid) |                         \
     FIELD_BIT(PB_TrackEvent_counter_value) | FIELD_BIT(PB_TrackEvent_double_counter_value) |      \
     FIELD_BIT(PB_TrackEvent_name) | FIELD_BIT(PB_TrackEvent_name_iid) |                           \
     FIELD_BIT(PB_TrackEvent_categories) | FIELD_BIT(PB_TrackEvent_category_iids) |                \
     FIELD_BIT(PB_TrackEvent_timestamp_delta_us) | FIELD_BIT(PB_TrackEvent_timestamp_absolute_us))

static bool has_args(const struct event *event)
{
    return event_has(event, ~PLAIN_FIELDS) || event->has_source_id ||
           event->passthrough_utid != UTID_NONE;
}

void event_args(struct event *event, const struct arg_vec *before, struct arg_vec *ret)
{
    if (!has_args(event))
        return;
    struct import *im = event->im;
    struct arg passthrough = arg_uint(NULL, (uint64_t)event->passthrough_utid);
    passthrough.is_fallback = true;
    struct arg_writer writer = {.im = im, .state = event->packet->state, .args = ret};
    const union message_TrackEvent *fields = &event->fields;
    if (before)
        arg_lists_continue(&writer, before);
    if (field_present(&fields->source_location_iid))
        interned_location(event, &writer, "source", field_u64(&fields->source_location_iid));
    if (field_present(&fields->task_execution)) {
        MESSAGE(task, TaskExecution, &fields->task_execution);
        interned_location(event, &writer, "task.posted_from", field_u64(&task.posted_from_iid));
    }
    if (field_present(&fields->log_message))
        log_message(event, &writer);
    histogram_name(event, &writer);
    correlation_id(event, &writer);
    if (event->has_source_id)
        named_put(&writer, "legacy_trace_source_id", arg_int(NULL, event->source_id));
    callstack_read(event, &writer);
    struct mojo_place mojo = mojo_place(event);
    if (mojo.mapping != STACK_NONE)
        writer.left_out = "chrome_mojo_event_info.mojo_interface_method_iid";
    static const char type_name[] = ".perfetto.protos.TrackEvent";
    message_args_read(&writer, descriptors_find(im, type_name, sizeof(type_name) - 1),
                      wire_sub(&event->message), is_reflected);
    annotations(event, &writer);
    if (event->passthrough_utid != UTID_NONE)
        named_put(&writer, "legacy_event.passthrough_utid", passthrough);
    mojo_names(event, &writer, mojo);
    if (writer.is_cut)
        stats_add(&im->stats, STAT_mmsql_debug_annotations_cut, 1);
    if (writer.failed)
        stats_add(&im->stats, STAT_track_event_parser_errors, 1);
    arg_writer_done(&writer);
}
