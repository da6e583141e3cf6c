// SPDX-License-Identifier: Apache-2.0
//
// Events are data: names and kinds of their fields come from the schema's table or, for other
// events, from the trace's descriptors. Only events with effects beyond their row have forms. One
// array maps the numbers of events to forms.
#include "converter/import/ftrace/ftrace.h"

#include <errno.h>
#include <stdlib.h>

#include "common/memory.h"
#include "common/str.h"
#include "converter/import/arg_writer.h"
#include "converter/import/ftrace/ftrace_rows.h"
#include "protos/fields.h"

#define ARGS_MAX           64   // fields of one event
#define TYPES_MAX          1024 // numbers of events that the schema may know
#define GENERIC_FIELDS_MAX 32   // as in Perfetto
#define GENERIC_EVENTS_MAX 65536

// The effects of an event beyond its row: the first form, and the following forms with an empty
// `event`.
struct bound {
    uint32_t first_form; // index + 1; 0: none
    uint8_t subject;     // index in ftrace_subjects
    bool before_row;
};

struct generic_field {
    const char *name; // in strings; NULL: no such field
    uint8_t type;
    uint8_t slot;
};

struct generic_event {
    const char *name; // in strings
    size_t name_size;
    uint32_t kind; // + 1; 0: no row yet
    struct generic_field fields[GENERIC_FIELDS_MAX];
};
VEC_DEFINE(generic_event_vec, struct generic_event);

struct ftrace {
    const struct ftrace_event_type *types[TYPES_MAX]; // by number
    uint32_t kinds[TYPES_MAX];                        // by number, + 1; 0: no row yet
    struct event_layout *layouts[TYPES_MAX];          // owned, by number; NULL: none
    struct bound bound[TYPES_MAX];                    // by number
    struct forms forms;                               // of all subjects
    struct ftrace_values values;                      // of the current event
    struct map64 generic_by_number;
    struct generic_event_vec generic;
    struct map64 legacy_kinds; // of events that contain their names, by name
    struct ftrace_rows rows;
};

static struct ftrace_machine *machine_of(const struct import *im)
{
    return importer_state(im, &importer_ftrace);
}

// Subjects have names of events and the schema has their numbers, so names are looked up once, at
// the start. A name that the schema lacks, or an event of two subjects, is an error in the tables
// and ends the conversion.
static int event_bind(struct ftrace *all, size_t subject, const struct ftrace_form *row,
                      const struct ftrace_event_type *type, struct err *err)
{
    if (!type || type->number >= TYPES_MAX || type->n_fields > FTRACE_FIELDS_MAX)
        return err_set(err, -EINVAL, "ftrace event %s is not in protos/ftrace_events.csv",
                       row->event);
    struct bound *bound = &all->bound[type->number];
    if (bound->first_form)
        return err_set(err, -EINVAL, "ftrace event %s stands in two tables", type->name);
    *bound = (struct bound){.first_form = (uint32_t)all->forms.items.n + 1,
                            .subject = (uint8_t)subject,
                            .before_row = row->before_row};
    return 0;
}

// Binds the forms of a subject to events. A name that ends with a star matches all events with that
// prefix. Only a row that calls a function may have a star.
static int forms_bind(struct ftrace *all, size_t subject, struct strset *strings, struct err *err)
{
    const struct ftrace_event_type *type = NULL;
    int r = 0;
    for (const struct ftrace_form *row = ftrace_subjects[subject]->forms; row->event; row++) {
        size_t size = strlen(row->event), prefix = size ? size - 1 : 0;
        bool is_prefix = row->handle && row->event[prefix] == '*';
        if (size && !is_prefix)
            r = event_bind(all, subject, row, type = ftrace_event_type_by_name(row->event), err);
        if (is_prefix)
            type = NULL;
        for (size_t i = 0; is_prefix && r == 0 && i < n_ftrace_event_types; i++)
            if (strncmp(ftrace_event_types[i].name, row->event, prefix) == 0)
                r = event_bind(all, subject, row, &ftrace_event_types[i], err);
        if (!size && !type)
            r = err_set(err, -EINVAL, "the first form of a table has no ftrace event");
        if (r == 0)
            r = forms_add(&all->forms, row, type, strings, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int all_init(struct import *im, struct ftrace *all)
{
    all->rows.db = im->db;
    all->rows.failure = im->failure;
    for (size_t i = 0; i < n_ftrace_event_types; i++)
        if (ftrace_event_types[i].number < TYPES_MAX)
            all->types[ftrace_event_types[i].number] = &ftrace_event_types[i];
    int r = 0;
    for (size_t i = 0; ftrace_subjects[i] && r == 0; i++)
        r = forms_bind(all, i, &im->strings, &im->failure->err);
    return r;
}

static void own_free(void **states)
{
    for (size_t i = 0; states && ftrace_subjects[i]; i++) {
        struct map64 *maps = states[i];
        for (size_t k = 0; maps && k < ftrace_subjects[i]->n_maps; k++)
            map64_done(&maps[k]);
        if (maps && ftrace_subjects[i]->done)
            ftrace_subjects[i]->done(maps);
        free(maps);
    }
    free(states);
}

// Makes the states of all subjects for one machine. NULL: memory ran out.
static void **own_make(void)
{
    size_t n = 0;
    while (ftrace_subjects[n])
        n++;
    void **states = memory_calloc(n, sizeof(*states));
    for (size_t i = 0; states && i < n; i++) {
        states[i] = memory_calloc(1, ftrace_subjects[i]->state_size + 1);
        if (!states[i]) {
            own_free(states);
            return NULL;
        }
    }
    return states;
}

static void ftrace_start(struct import *im, void *state)
{
    struct ftrace_machine *machine = state;
    struct ftrace_machine *host =
        im->machines.items[0]->states[importer_index(im, &importer_ftrace)];
    int r = 0;
    machine->own = own_make();
    if (!machine->own) {
        import_fail(im, -ENOMEM);
        return;
    }
    if (machine == host) {
        machine->owns_all = true;
        machine->all = memory_calloc(1, sizeof(*machine->all));
        r = machine->all ? all_init(im, machine->all) : -ENOMEM;
    }
    machine->all = host->all;
    import_fail(im, r);
}

static void ftrace_complete(struct import *im, void *state, int64_t ts)
{
    // Before all CPUs have data, a begin on one CPU may have its end in the missing data of another
    // CPU.
    ((struct ftrace_machine *)state)->rows_before = ts;
    metadata_set_int(&im->metadata, "ftrace_latest_data_start_ns", ts);
}

static void ftrace_indexed(struct import *im, void *state)
{
    struct ftrace_machine *machine = state;
    int64_t started;
    if (!machine->keeps_old && metadata_get_int(&im->metadata, "tracing_started_ns", &started))
        machine->drop_before = started;
}

void *ftrace_state(const struct import *im, const struct ftrace_subject *subject)
{
    size_t i = 0;
    while (ftrace_subjects[i] != subject)
        i++;
    return machine_of(im)->own[i];
}

static const char *string_keep(struct import *im, const struct wire_field *text)
{
    uint32_t id = strset_add(&im->strings, field_text(text), text->size);
    return strset_text(&im->strings, id);
}

static bool descriptor_read(struct import *im, const struct wire_field *message,
                            struct generic_event *event)
{
    struct wire_reader reader = wire_sub(message);
    struct wire_field field;
    wire_foreach(&reader, &field) {
        if (field.number == PB_DescriptorProto_name) {
            event->name = string_keep(im, &field);
            event->name_size = field.size;
        }
        if (field.number != PB_DescriptorProto_field)
            continue;
        MESSAGE(part, FieldDescriptorProto, &field);
        uint64_t number = field_u64(&part.number), type = field_u64(&part.type);
        if (number >= GENERIC_FIELDS_MAX || type > PB_TYPE_SINT64)
            return false;
        event->fields[number].name = string_keep(im, &part.name);
        event->fields[number].type = (uint8_t)type;
    }
    return !reader.error && event->name;
}

// Returns a number that is unique across machines. A number in the trace is unique within its
// machine only.
static uint64_t generic_number(const struct import *im, uint64_t number)
{
    return number ^ (uint64_t)im->machine->number << 40;
}

static void ftrace_describe(struct import *im, void *state, const struct wire_field *descriptor)
{
    struct ftrace *ftrace = ((struct ftrace_machine *)state)->all;
    MESSAGE(part, FtraceEventBundle_GenericEventDescriptor, descriptor);
    uint64_t number = generic_number(im, field_u64(&part.field_id));
    struct generic_event event = {0};
    if (map64_find(&ftrace->generic_by_number, number))
        return;
    if (ftrace->generic.n >= GENERIC_EVENTS_MAX ||
        !descriptor_read(im, &part.event_descriptor, &event)) {
        stats_add(&im->stats, STAT_ftrace_generic_descriptor_errors, 1);
        return;
    }
    int r = generic_event_vec_push(&ftrace->generic, event);
    import_fail(im,
                r < 0 ? r : map64_set(&ftrace->generic_by_number, number, ftrace->generic.n - 1));
}

static void row_note(struct import *im, int64_t ts, uint32_t cpu)
{
    import_bounds(im, ts);
    cpus_see(im, cpu);
}

static struct cell *row_add(struct import *im, struct ftrace *ftrace, uint32_t kind, int64_t ts,
                            uint32_t cpu, int64_t utid)
{
    row_note(im, ts, cpu);
    return ftrace_row_add(&ftrace->rows, kind, ts, ucpu_of(im, cpu), utid);
}

static uint8_t slot_type(const struct ftrace_field_type *field)
{
    if (field->kind == FTRACE_KIND_STRING || field->kind == FTRACE_KIND_BYTES)
        return ARG_TEXT;
    return field->kind == FTRACE_KIND_UINT && field->bits != 1 ? ARG_UINT : ARG_INT;
}

// Returns the layout with which the writer makes rows of this type. NULL: the writer cannot make
// rows of this type, or memory is out.
static struct event_layout *layout_make(const struct ftrace_rows *rows,
                                        const struct ftrace_event_type *type, uint32_t kind)
{
    const struct selection *selection = database_selection(rows->db);
    if (rows->failure->code < 0 || selection->no_events || selection->no_event_fields)
        return NULL;
    struct event_layout *layout = memory_calloc(1, sizeof(*layout));
    for (size_t i = 0; layout && i < type->n_fields; i++) {
        const struct ftrace_field_type *field = &type->fields[i];
        if (field->is_symbol || field->kind == FTRACE_KIND_MESSAGE ||
            field->number >= EVENT_FIELDS_MAX || i >= ARG_SLOTS_MAX) {
            free(layout);
            return NULL;
        }
        layout->fields[field->number] = (struct event_field){
            .slot = (uint8_t)(i + 1),
            .is_text = field->kind == FTRACE_KIND_STRING || field->kind == FTRACE_KIND_BYTES,
        };
    }
    if (layout) {
        layout->kind = rows->kinds.items[kind].id;
        layout->n_slots = (uint8_t)type->n_fields;
    }
    return layout;
}

// Returns the kind of a type of the schema. The slots of the kind are the type's fields in the
// order of their numbers.
static uint32_t typed_kind(struct ftrace *ftrace, const struct ftrace_event_type *type)
{
    uint32_t *known = &ftrace->kinds[type->number];
    if (!*known) {
        uint32_t kind = ftrace_kind_add(&ftrace->rows, type->name, strlen(type->name));
        for (size_t i = 0; i < type->n_fields; i++)
            ftrace_slot_of(&ftrace->rows, kind, type->fields[i].name, slot_type(&type->fields[i]));
        *known = kind + 1;
        ftrace->layouts[type->number] = layout_make(&ftrace->rows, type, kind);
    }
    return *known - 1;
}

struct cell *ftrace_event_write(struct import *im, int64_t ts, uint32_t cpu, int64_t utid,
                                const struct ftrace_event_type *type, const struct arg *args,
                                size_t n_args)
{
    struct ftrace *ftrace = machine_of(im)->all;
    struct cell *row = row_add(im, ftrace, typed_kind(ftrace, type), ts, cpu, utid);
    for (size_t i = 0, slot = 0; i < n_args; i++, slot++) {
        while (slot < type->n_fields && type->fields[slot].name != args[i].key &&
               !str_eq(type->fields[slot].name, args[i].key))
            slot++;
        ftrace_row_set(&ftrace->rows, row, slot, &args[i]);
    }
    return row;
}

static bool typed_arg(const struct ftrace_event *event, const struct ftrace_field_type *type,
                      const struct wire_field *field, struct arg *ret)
{
    bool is_text = type->kind == FTRACE_KIND_STRING || type->kind == FTRACE_KIND_BYTES;
    if (is_text != (field->type == WIRE_BYTES)) // as in protobuf, the type decides: not this field
        return false;
    switch ((enum ftrace_kind)type->kind) {
    case FTRACE_KIND_UINT:
        *ret = type->bits == 1 ? arg_int(type->name, field_i64(field))
                               : arg_uint(type->name, field_u64(field));
        if (type->is_symbol) {
            struct slice_name symbol = ftrace_symbol(event, field_u64(field));
            if (symbol.text)
                *ret = arg_name(type->name, symbol);
        }
        return true;
    case FTRACE_KIND_INT:
        *ret = arg_int(type->name, field_i64(field));
        return true;
    case FTRACE_KIND_STRING:
    case FTRACE_KIND_BYTES:
        *ret = arg_text(type->name, field->data, field->size);
        return true;
    case FTRACE_KIND_MESSAGE:
        break;
    }
    return false;
}

static void typed_write(struct import *im, struct ftrace *ftrace, const struct ftrace_event *event,
                        int64_t utid)
{
    const struct ftrace_event_type *type = event->type;
    uint32_t kind = typed_kind(ftrace, type);
    const struct event_layout *layout = ftrace->layouts[type->number];
    if (layout && event->message.size <= EVENT_MESSAGE_MAX) {
        struct event_row made = {
            .ts = event->ts,
            .message = event->message.data,
            .layout = layout,
            .size = (uint32_t)event->message.size,
            .utid = (uint32_t)utid,
            .ucpu = ucpu_of(im, event->cpu),
        };
        row_note(im, event->ts, event->cpu);
        database_event(im->db, &made);
        return;
    }
    struct cell *row = row_add(im, ftrace, kind, event->ts, event->cpu, utid);
    struct wire_reader reader = wire_sub(&event->message);
    struct wire_field field;
    struct arg arg;
    size_t hint = 0;
    while (wire_next_hot(&reader, &field)) {
        size_t slot = ftrace_slot(type, field.number, hint);
        if (slot == SIZE_MAX)
            continue;
        hint = slot + 1;
        if (typed_arg(event, &type->fields[slot], &field, &arg))
            ftrace_row_set(&ftrace->rows, row, slot, &arg);
    }
}

static struct arg generic_arg(const struct generic_field *type, const struct wire_field *field)
{
    switch (type->type) {
    case PB_TYPE_DOUBLE:
        return (struct arg){.key = type->name, .real = field_double(field), .type = ARG_REAL};
    case PB_TYPE_FLOAT:
        return (struct arg){
            .key = type->name, .real = (double)wire_to_float(field->value), .type = ARG_REAL};
    case PB_TYPE_STRING:
    case PB_TYPE_BYTES:
        return arg_text(type->name, field->data, field->size);
    case PB_TYPE_UINT32:
    case PB_TYPE_UINT64:
    case PB_TYPE_FIXED32:
    case PB_TYPE_FIXED64:
        return arg_uint(type->name, field_u64(field));
    case PB_TYPE_SINT32:
    case PB_TYPE_SINT64:
        return arg_int(type->name, wire_unzigzag(field->value));
    default:
        return arg_int(type->name, field_i64(field));
    }
}

static uint8_t generic_slot_type(const struct generic_field *type)
{
    struct wire_field none = {0};
    return generic_arg(type, &none).type;
}

static uint32_t generic_kind(struct ftrace *ftrace, struct generic_event *event)
{
    if (event->kind)
        return event->kind - 1;
    uint32_t kind = ftrace_kind_add(&ftrace->rows, event->name, event->name_size);
    for (size_t i = 0; i < GENERIC_FIELDS_MAX; i++) {
        struct generic_field *field = &event->fields[i];
        if (field->name)
            field->slot =
                (uint8_t)ftrace_slot_of(&ftrace->rows, kind, field->name, generic_slot_type(field));
    }
    event->kind = kind + 1;
    return kind;
}

static void generic_write(struct import *im, struct ftrace *ftrace,
                          const struct ftrace_event *event, int64_t utid)
{
    const uint64_t *index =
        map64_find(&ftrace->generic_by_number, generic_number(im, event->message.number));
    if (!index) {
        stats_add(&im->stats, STAT_ftrace_generic_descriptor_errors, 1);
        return;
    }
    struct generic_event *type = &ftrace->generic.items[*index];
    struct cell *row = row_add(im, ftrace, generic_kind(ftrace, type), event->ts, event->cpu, utid);
    struct wire_reader reader = wire_sub(&event->message);
    struct wire_field field;
    wire_foreach(&reader, &field) {
        if (field.number >= GENERIC_FIELDS_MAX || !type->fields[field.number].name)
            continue;
        struct arg arg = generic_arg(&type->fields[field.number], &field);
        ftrace_row_set(&ftrace->rows, row, type->fields[field.number].slot, &arg);
    }
}

// Finds or adds the kind of an event. Events of the same name share a kind while the kind has room
// for all their fields.
static int legacy_kind(struct import *im, struct ftrace *ftrace, const struct wire_field *name,
                       const struct arg *args, size_t n, uint8_t slots[ARGS_MAX], uint32_t *ret)
{
    struct ftrace_rows *rows = &ftrace->rows;
    uint32_t id = strset_add(&im->strings, field_text(name), name->size);
    uint64_t *known = id == STRSET_NONE ? NULL : map64_find(&ftrace->legacy_kinds, id);
    bool fits = known != NULL;
    for (size_t i = 0; i < n && fits; i++) {
        slots[i] = (uint8_t)ftrace_slot_of(rows, (uint32_t)*known, args[i].key, args[i].type);
        fits = slots[i] < ARG_SLOTS_MAX;
    }
    if (fits) {
        *ret = (uint32_t)*known;
        return 0;
    }
    const char *text = strset_text(&im->strings, id);
    uint32_t kind = ftrace_kind_add(rows, text ? text : "", text ? name->size : 0);
    for (size_t i = 0; i < n; i++)
        slots[i] = (uint8_t)ftrace_slot_of(rows, kind, args[i].key, args[i].type);
    int r = map64_set(&ftrace->legacy_kinds, id, kind);
    if (r == 0)
        *ret = kind;
    return r;
}

// Writes an event in the format of older Perfetto versions: each event contains the names of its
// fields.
static void legacy_generic_write(struct import *im, struct ftrace *ftrace,
                                 const struct ftrace_event *event, int64_t utid)
{
    struct wire_field name = {0}, field;
    struct arg args[ARGS_MAX];
    uint8_t slots[ARGS_MAX];
    size_t n = 0;
    bool is_cut = false;
    struct wire_reader reader = wire_sub(&event->message);
    wire_foreach(&reader, &field) {
        if (field.number == PB_GenericFtraceEvent_event_name)
            name = field;
        if (field.number != PB_GenericFtraceEvent_field)
            continue;
        if (n == ARGS_MAX) {
            is_cut = true;
            continue;
        }
        MESSAGE(part, GenericFtraceEvent_Field, &field);
        const char *key = string_keep(im, &part.name);
        const struct wire_field *text = &part.str_value;
        const struct wire_field *number = &part.int_value;
        if (!field_present(number))
            number = &part.uint_value;
        if (key && field_present(number))
            args[n++] = arg_int(key, field_i64(number));
        else if (key && field_present(text))
            args[n++] = arg_text(key, text->data, text->size);
    }
    if (is_cut)
        stats_add(&im->stats, STAT_mmsql_args_left_out, 1);
    uint32_t kind = 0;
    int r = legacy_kind(im, ftrace, &name, args, n, slots, &kind);
    if (r < 0) {
        import_fail(im, r);
        return;
    }
    struct cell *row = row_add(im, ftrace, kind, event->ts, event->cpu, utid);
    for (size_t i = 0; i < n; i++)
        ftrace_row_set(&ftrace->rows, row, slots[i], &args[i]);
}

// Applies the forms of an event.
static void event_apply(struct import *im, const struct ftrace_machine *machine,
                        struct ftrace_event *event, const struct bound *bound)
{
    const struct forms *forms = &machine->all->forms;
    const struct form *form = &forms->items.items[bound->first_form - 1];
    const struct form *end = forms->items.items + forms->items.n;
    event->own = machine->own[bound->subject];
    do {
        event->detail = form->row->detail;
        if (form->row->handle)
            form->row->handle(im, event);
        else
            form_apply(im, forms, form, event);
    } while (++form < end && !*form->row->event);
}

static bool pid_is_needed(const struct ftrace *ftrace, uint32_t number)
{
    const struct bound *bound = number < TYPES_MAX ? &ftrace->bound[number] : NULL;
    return !bound || !bound->first_form || !ftrace_subjects[bound->subject]->without_pid;
}

static void event_handle(struct import *im, const struct ftrace_machine *machine,
                         const struct bundle_event *record)
{
    struct ftrace *ftrace = machine->all;
    struct ftrace_event event = {
        .ts = record->ts, .cpu = record->cpu, .state = record->state, .values = &ftrace->values};
    struct wire_reader reader = record->run->event;
    struct wire_field field;
    bool has_pid = false;
    while (wire_next_hot(&reader, &field)) {
        if (field.number == PB_FtraceEvent_pid) {
            event.pid = (uint32_t)field.value;
            has_pid = true;
        } else if (field.type == WIRE_BYTES && !event.message.number) {
            event.message = field;
        }
    }
    if (!event.message.number) {
        stats_add(&im->stats, STAT_ftrace_missing_event_id, 1);
        return;
    }
    if (reader.error || (!has_pid && pid_is_needed(ftrace, event.message.number))) {
        stats_add(&im->stats, STAT_ftrace_bundle_tokenizer_errors, 1);
        return;
    }
    uint32_t number = event.message.number;
    event.type = number < TYPES_MAX ? ftrace->types[number] : NULL;
    const struct bound *bound = event.type ? &ftrace->bound[number] : NULL;
    if (bound && (!bound->first_form || record->ts < machine->rows_before))
        bound = NULL;
    ftrace->values.is_read = false;
    if (bound && bound->before_row)
        event_apply(im, machine, &event, bound);
    int64_t utid = processes_thread(&im->processes, event.pid);
    if (number == PB_FtraceEvent_generic)
        legacy_generic_write(im, ftrace, &event, utid);
    else if (event.type)
        typed_write(im, ftrace, &event, utid);
    else
        generic_write(im, ftrace, &event, utid);
    if (bound && !bound->before_row)
        event_apply(im, machine, &event, bound);
}

static void ftrace_event(struct import *im, void *state, const struct bundle_event *record)
{
    const struct ftrace_machine *machine = state;
    bool row_only = record->ts < machine->rows_before;
    if (record->ts < machine->drop_before)
        stats_add(&im->stats, STAT_ftrace_packet_before_tracing_start, 1);
    else if (record->kind == RUN_EVENTS)
        event_handle(im, machine, record);
    else if (record->kind == RUN_SWITCH)
        ftrace_compact_switch(im, record, row_only);
    else
        ftrace_compact_waking(im, record, row_only);
}

const struct ftrace_event_type *ftrace_type(const struct import *im, uint32_t number)
{
    return number < TYPES_MAX ? machine_of(im)->all->types[number] : NULL;
}

static void all_free(struct ftrace *all)
{
    if (!all)
        return;
    forms_done(&all->forms);
    ftrace_rows_done(&all->rows);
    for (size_t i = 0; i < TYPES_MAX; i++)
        free(all->layouts[i]);
    map64_done(&all->generic_by_number);
    map64_done(&all->legacy_kinds);
    generic_event_vec_done(&all->generic);
    free(all);
}

static void ftrace_done(void *state)
{
    struct ftrace_machine *machine = state;
    own_free(machine->own);
    map64_done(&machine->told);
    map64_done(&machine->cpu_places);
    map64_done(&machine->cpus_shown);
    ftrace_cpu_vec_done(&machine->cpus);
    if (machine->owns_all)
        all_free(machine->all);
}

const struct importer importer_ftrace = {
    .field = PB_TracePacket_ftrace_events,
    .event = ftrace_event,
    .describe = ftrace_describe,
    .complete = ftrace_complete,
    .indexed = ftrace_indexed,
    .state_size = sizeof(struct ftrace_machine),
    .start = ftrace_start,
    .done = ftrace_done,
};
