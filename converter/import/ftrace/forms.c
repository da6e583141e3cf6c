// SPDX-License-Identifier: Apache-2.0
//
// See forms.h for the tables. A row is bound to slots: the indexes of its fields in the event's
// type. For an event, values are read from their slots and texts are assembled. A text without
// values is used unchanged, like a value that is a text. The name of a track is built once, with
// the track.
#include "converter/import/ftrace/forms.h"

#include <errno.h>
#include <stdio.h>

#include "common/elements.h"
#include "common/str.h"
#include "common/text.h"
#include "converter/import/ftrace/ftrace_event.h"

#define NAME_MAX_BYTES 255 // of a slice
#define ARGS_MAX       16
#define WORD_MAX       64

enum source { FROM_NOTHING, FROM_FIELD, FROM_CPU, FROM_PID, FROM_NAME, FROM_NUMBER };
enum shape { PLAIN, LOW, SIGNED, KIB, HEX, TRUTH, FUNCTION, THREAD, PROCESS, CHOICE };
enum comparison { LESS = 1, EQUAL = 2, GREATER = 4 }; // bits

// The state of reading a row.
struct reading {
    struct forms *forms;
    const struct ftrace_form *row;
    const struct ftrace_event_type *type;
    struct strset *strings;
    struct err *err;
};

static int wrong(const struct reading *reading, const char *what, const char *at, size_t size)
{
    return err_set(reading->err, -EINVAL, "form of ftrace event %s: %s: %.*s", reading->type->name,
                   what, (int)size, at);
}

static int shape_read(const struct reading *reading, const char *at, size_t size,
                      struct form_value *ret)
{
    static const struct {
        const char *name;
        enum shape shape;
    } shapes[] = {
        {"u", LOW},   {"i", SIGNED},   {"k", KIB},         {"x", HEX},
        {"b", TRUTH}, {"f", FUNCTION}, {"thread", THREAD}, {"process", PROCESS},
    };
    for (size_t i = 0; i < ELEMENTS(shapes); i++)
        if (strlen(shapes[i].name) == size && memcmp(shapes[i].name, at, size) == 0) {
            ret->shape = shapes[i].shape;
            return 0;
        }
    return wrong(reading, "no such shape", at, size);
}

static bool is_text(const struct form_value *value)
{
    return value->source == FROM_NAME || value->shape == FUNCTION || value->shape == CHOICE ||
           (value->type &&
            (value->type->kind == FTRACE_KIND_STRING || value->type->kind == FTRACE_KIND_BYTES));
}

static int choices_read(struct reading *reading, const char *at, size_t size,
                        struct form_value *ret)
{
    ret->shape = CHOICE;
    ret->first_choice = (uint32_t)reading->forms->choices.n;
    for (const char *end = at + size;; ret->n_choices++) {
        const char *stop = at;
        while (stop < end && *stop != ',' && *stop != ';')
            stop++;
        struct form_choice choice = {at, (size_t)(stop - at)};
        int r = form_choice_vec_push(&reading->forms->choices, choice);
        if (r < 0)
            return r;
        at = stop + 1;
        if (stop >= end)
            break;
    }
    ret->n_choices++;
    return 0;
}

static int field_find(const struct reading *reading, const char *name,
                      const struct ftrace_field_type **ret)
{
    const struct ftrace_field_type *type = ftrace_field_type_by_name(reading->type, name);
    if (!type)
        return wrong(reading, "no such field", name, strlen(name));
    *ret = type;
    return 0;
}

static int value_read(struct reading *reading, const char *at, size_t size, struct form_value *ret)
{
    size_t name = 0;
    while (name < size && at[name] != ':' && at[name] != '?')
        name++;
    struct form_value value = {0};
    char word[WORD_MAX], *less;
    int r = 0;
    snprintf(word, sizeof(word), "%.*s", (int)name, at);
    if (str_parse_i64(word, &value.number) == 0) {
        value.source = FROM_NUMBER;
    } else if (*word != '@') {
        less = strchr(word, '-');
        if (less)
            *less++ = '\0';
        r = field_find(reading, word, &value.type);
        if (r == 0 && less && str_parse_i64(less, &value.number) < 0)
            r = field_find(reading, less, &value.less);
        if (r < 0)
            return r;
        value.source = FROM_FIELD;
        value.slot = (uint16_t)(value.type - reading->type->fields);
    } else if (str_eq(word, "@cpu") || str_eq(word, "@pid")) {
        value.source = str_eq(word, "@cpu") ? FROM_CPU : FROM_PID;
    } else if (str_eq(word, "@event")) {
        value.source = FROM_NAME;
    } else {
        return wrong(reading, "no such value", at, name);
    }
    if (name < size) {
        bool is_choice = at[name++] == '?';
        r = is_choice ? choices_read(reading, at + name, size - name, &value)
                      : shape_read(reading, at + name, size - name, &value);
    }
    if (r == 0)
        *ret = value;
    return r;
}

static int template_read(struct reading *reading, const char *at, size_t size,
                         struct form_part *ret)
{
    struct form_text_vec *texts = &reading->forms->texts;
    uint32_t first = (uint32_t)texts->n;
    const char *end = at + size;
    do {
        const char *open = memchr(at, '{', (size_t)(end - at));
        struct form_text text = {.text = at, .size = (size_t)((open ? open : end) - at)};
        const char *close = open ? memchr(open, '}', (size_t)(end - open)) : NULL;
        if (open && !close)
            return wrong(reading, "no end of", open, (size_t)(end - open));
        int r = 0;
        if (open)
            r = value_read(reading, open + 1, (size_t)(close - open - 1), &text.value);
        if (r == 0)
            r = form_text_vec_push(texts, text);
        if (r < 0)
            return r;
        at = open ? close + 1 : end;
    } while (at < end);
    *ret = (struct form_part){.first = first, .n = (uint32_t)texts->n - first};
    return 0;
}

static int item_read(struct reading *reading, const char *at, size_t size, struct form_item *ret)
{
    const char *equals = memchr(at, '=', size);
    size_t name = equals ? (size_t)(equals - at) : 0;
    const char *value = at + name + (equals != NULL);
    size -= (size_t)(value - at);
    bool is_template = size >= 2 && *value == '\'' && value[size - 1] == '\'';
    int r = is_template ? template_read(reading, value + 1, size - 2, &ret->text)
                        : value_read(reading, value, size, &ret->value);
    if (r < 0)
        return r;
    if (!equals && !ret->value.type)
        return wrong(reading, "no name for", at, size);
    if (!equals) {
        ret->name = ret->value.type->name;
        return 0;
    }
    uint32_t id = strset_add(reading->strings, at, name);
    ret->name = strset_text(reading->strings, id);
    return ret->name ? 0 : -ENOMEM;
}

static int list_read(struct reading *reading, const char *at, struct form_part *ret, size_t max)
{
    struct form_item_vec *lists = &reading->forms->lists;
    const char *list = at;
    struct form_part part = {.first = (uint32_t)lists->n};
    for (; at && *at; part.n++) {
        struct form_item item = {0};
        const char *stop = strstr(at, ", ");
        size_t size = stop ? (size_t)(stop - at) : strlen(at);
        int r = item_read(reading, at, size, &item);
        if (r == 0)
            r = form_item_vec_push(lists, item);
        if (r < 0)
            return r;
        at = stop ? stop + 2 : NULL;
    }
    if (part.n > max)
        return wrong(reading, "too long", list, strlen(list));
    *ret = part;
    return 0;
}

static int condition_read(struct reading *reading, const char *at, struct form *form)
{
    static const struct {
        const char *sign;
        uint8_t comparison;
    } signs[] = {
        {"<=", LESS | EQUAL}, {">=", GREATER | EQUAL}, {"!=", LESS | GREATER}, {"<", LESS},
        {"=", EQUAL},         {">", GREATER},
    };
    bool is_not = *at == '!';
    size_t size = strcspn(at + is_not, "<=>!");
    const char *sign = at + is_not + size;
    int r = value_read(reading, at + is_not, size, &form->condition);
    if (r < 0)
        return r;
    form->comparison = is_not ? EQUAL : LESS | GREATER;
    if (!*sign)
        return 0;
    for (size_t i = 0; i < ELEMENTS(signs); i++)
        if (str_starts_with(sign, signs[i].sign)) {
            form->comparison = signs[i].comparison;
            sign += strlen(signs[i].sign);
            break;
        }
    return str_parse_i64(sign, &form->compared) < 0
               ? wrong(reading, "no number", sign, strlen(sign))
               : 0;
}

static int row_read(struct reading *reading, struct form *form)
{
    const struct ftrace_form *row = reading->row;
    const struct {
        const char *text;
        struct form_part *part;
    } templates[] = {
        {row->track, &form->track}, {row->category, &form->category}, {row->name, &form->name}};
    const struct {
        const char *text;
        struct form_value *value;
    } values[] = {{row->ts, &form->ts},
                  {row->value, &form->value},
                  {row->cookie, &form->cookie},
                  {row->dur, &form->dur}};
    bool is_counter = row->action == FORM_COUNTER;
    if (is_counter && (!row->type || !row->value))
        return wrong(reading, row->type ? "a counter without a value" : "a counter without a type",
                     "", 0);
    int r = row->when ? condition_read(reading, row->when, form) : 0;
    for (size_t i = 0; i < ELEMENTS(values) && r == 0; i++)
        if (values[i].text)
            r = value_read(reading, values[i].text, strlen(values[i].text), values[i].value);
    for (size_t i = 0; i < ELEMENTS(templates) && r == 0; i++)
        if (templates[i].text)
            r = template_read(reading, templates[i].text, strlen(templates[i].text),
                              templates[i].part);
    if (r == 0)
        r = list_read(reading, row->key, &form->key, TRACK_DIMENSIONS_MAX);
    return r < 0 ? r : list_read(reading, row->args, &form->args, ARGS_MAX);
}

int forms_add(struct forms *forms, const struct ftrace_form *row,
              const struct ftrace_event_type *type, struct strset *strings, struct err *err)
{
    struct reading reading = {forms, row, type, strings, err};
    struct form form = {.row = row};
    int r = row_read(&reading, &form);
    return r < 0 ? r : form_vec_push(&forms->items, form);
}

static int64_t number_of(const struct form_value *value, const struct ftrace_event *event)
{
    if (value->source == FROM_CPU)
        return event->cpu;
    if (value->source == FROM_PID)
        return event->pid;
    if (value->source == FROM_NUMBER)
        return value->number;
    const struct wire_field *fields = ftrace_values(event);
    uint64_t number = (uint64_t)ftrace_number(value->type, &fields[value->slot]);
    number -= (uint64_t)value->number;
    if (value->less)
        number -= (uint64_t)ftrace_number(value->less, &fields[value->less - event->type->fields]);
    if (value->shape == LOW)
        return (uint32_t)number;
    return value->shape == KIB ? (int64_t)number / 1024 : (int64_t)number;
}

// Returns the text of a value. The text lives as long as cells do.
static struct slice_name text_of(struct import *im, const struct forms *forms,
                                 const struct form_value *value, const struct ftrace_event *event)
{
    if (value->source == FROM_NAME)
        return slice_name(event->type->name);
    if (value->shape == FUNCTION)
        return ftrace_function(im, event, value->type->name);
    if (value->shape == CHOICE) {
        uint64_t number = (uint64_t)number_of(value, event), last = value->n_choices - 1;
        const struct form_choice *choice =
            &forms->choices.items[value->first_choice + (number < last ? number : last)];
        if (choice->size == 1 && *choice->text == '#')
            return import_text(im, "%u", (uint32_t)number);
        return (struct slice_name){choice->text, choice->size};
    }
    const struct wire_field *field = &ftrace_values(event)[value->slot];
    return (struct slice_name){field_text(field), field->size};
}

struct line {
    size_t size, capacity;
    char *text;
};

static void line_add(struct line *line, const char *text, size_t size)
{
    size_t room = line->capacity - line->size;
    if (size > room)
        size = room;
    memcpy(line->text + line->size, text, size);
    line->size += size;
}

static void line_add_number(struct line *line, uint64_t number, unsigned base)
{
    char digits[24];
    size_t at = sizeof(digits);
    do {
        digits[--at] = "0123456789abcdef"[number % base];
        number /= base;
    } while (number);
    line_add(line, digits + at, sizeof(digits) - at);
}

static void line_add_value(struct import *im, const struct forms *forms, struct line *line,
                           const struct form_value *value, const struct ftrace_event *event)
{
    if (is_text(value)) {
        struct slice_name text = text_of(im, forms, value, event);
        line_add(line, text.text, text.size);
        return;
    }
    int64_t number = number_of(value, event);
    const struct text prefix = TEXT("0x");
    bool is_signed = value->type && value->type->kind == FTRACE_KIND_INT &&
                     (value->shape == PLAIN || value->shape == KIB);
    if (is_signed && number < 0)
        line_add(line, "-", 1);
    if (value->shape == HEX && number)
        line_add(line, prefix.at, prefix.size);
    line_add_number(line, is_signed && number < 0 ? 0 - (uint64_t)number : (uint64_t)number,
                    value->shape == HEX ? 16 : 10);
}

static void line_fill(struct import *im, const struct forms *forms, struct line *line,
                      struct form_part part, const struct ftrace_event *event)
{
    for (uint32_t i = 0; i < part.n; i++) {
        const struct form_text *text = &forms->texts.items[part.first + i];
        line_add(line, text->text, text->size);
        if (text->value.source != FROM_NOTHING)
            line_add_value(im, forms, line, &text->value, event);
    }
}

// Builds a text, which lives as long as cells do.
static struct slice_name text_make(struct import *im, const struct forms *forms,
                                   struct form_part part, const struct ftrace_event *event)
{
    if (part.n == 0)
        return (struct slice_name){0};
    const struct form_text *first = &forms->texts.items[part.first];
    if (part.n == 1 && first->value.source == FROM_NOTHING)
        return (struct slice_name){first->text, first->size};
    if (part.n == 1 && !first->size && is_text(&first->value))
        return text_of(im, forms, &first->value, event);
    char text[NAME_MAX_BYTES];
    struct line line = {.text = text, .capacity = sizeof(text)};
    line_fill(im, forms, &line, part, event);
    return import_text_keep(im, line.text, line.size);
}

static int64_t thread_of(struct import *im, int64_t tid)
{
    return processes_thread(&im->processes, (uint32_t)tid);
}

// *ret: the text of an item. False: the item is a number.
static bool item_text(struct import *im, const struct forms *forms, const struct form_item *item,
                      const struct ftrace_event *event, struct slice_name *ret)
{
    if (item->text.n)
        *ret = text_make(im, forms, item->text, event);
    else if (is_text(&item->value))
        *ret = text_of(im, forms, &item->value, event);
    else
        return false;
    return true;
}

static struct track_dimension dimension_of(struct import *im, const struct forms *forms,
                                           const struct form_item *item,
                                           const struct ftrace_event *event)
{
    struct slice_name text;
    if (item_text(im, forms, item, event, &text))
        return dimension_text(item->name, text.text, text.size);
    int64_t number = number_of(&item->value, event);
    if (item->value.shape == THREAD)
        number = thread_of(im, number);
    else if (item->value.shape == PROCESS)
        number = processes_process(&im->processes, (uint32_t)number);
    return dimension_int(item->name, number);
}

static uint32_t group_track(struct import *im, const struct form *form,
                            const struct ftrace_event *event, int64_t ts,
                            const struct track_spec *spec)
{
    struct async_tracks *all = &im->async_tracks;
    if (form->row->dur)
        return async_track_span(all, spec, ts, number_of(&form->dur, event));
    int64_t cookie = number_of(&form->cookie, event);
    return form->row->action == FORM_END ? async_track_end(all, spec, cookie)
                                         : async_track_begin(all, spec, cookie, false);
}

static uint32_t track_get(struct import *im, const struct forms *forms, const struct form *form,
                          const struct ftrace_event *event, int64_t ts)
{
    const struct form_item *key = &forms->lists.items[form->key.first];
    if (!form->row->type)
        return thread_track_get(
            im, thread_of(im, form->key.n ? number_of(&key->value, event) : event->pid));
    struct track_spec spec = {.type = form->row->type,
                              .counter = form->row->counts || form->row->action == FORM_COUNTER};
    for (uint32_t i = 0; i < form->key.n; i++)
        spec.dimensions[i] = dimension_of(im, forms, &key[i], event);
    char text[TRACK_TEXT_MAX + 1];
    struct line line = {.text = text, .capacity = sizeof(text)};
    if (form->row->cookie || form->row->dur) {
        line_fill(im, forms, &line, form->track, event);
        spec.name = (struct slice_name){line.text, line.size};
        return group_track(im, form, event, ts, &spec);
    }
    size_t n_known = im->tracks.items.n;
    uint32_t track = tracks_get(&im->tracks, &spec);
    if (im->tracks.items.n != n_known && form->track.n) {
        line_fill(im, forms, &line, form->track, event);
        tracks_name(&im->tracks, track, line.text, line.size);
    }
    return track;
}

static size_t args_make(struct import *im, const struct forms *forms, const struct form *form,
                        const struct ftrace_event *event, struct arg *args)
{
    const struct form_item *items = &forms->lists.items[form->args.first];
    for (uint32_t i = 0; i < form->args.n; i++) {
        const struct form_value *value = &items[i].value;
        struct slice_name text;
        if (item_text(im, forms, &items[i], event, &text)) {
            args[i] = arg_text(items[i].name, text.text, text.size);
            continue;
        }
        args[i] = arg_int(items[i].name, number_of(value, event));
        if (value->shape == TRUTH) {
            args[i].type = ARG_BOOL;
            args[i].integer = args[i].integer != 0;
        } else if (value->shape != SIGNED &&
                   !(value->type && value->type->kind == FTRACE_KIND_INT)) {
            args[i].type = ARG_UINT;
        }
    }
    return form->args.n;
}

static bool is_met(const struct form *form, const struct ftrace_event *event)
{
    if (form->condition.source == FROM_NOTHING)
        return true;
    int64_t number = number_of(&form->condition, event);
    int order = number < form->compared ? LESS : number == form->compared ? EQUAL : GREATER;
    return form->comparison & order;
}

static void counter_apply(struct import *im, const struct forms *forms, const struct form *form,
                          const struct ftrace_event *event, int64_t ts)
{
    struct arg args[ARGS_MAX];
    uint32_t track = track_get(im, forms, form, event, ts);
    int64_t number = number_of(&form->value, event);
    bool is_unsigned = form->value.type && form->value.type->kind == FTRACE_KIND_UINT;
    size_t n = args_make(im, forms, form, event, args);
    counter_push(im, ts, track, is_unsigned ? (double)(uint64_t)number : (double)number,
                 n ? args_add(&im->args, args, n) : ARG_SET_NONE);
}

void form_apply(struct import *im, const struct forms *forms, const struct form *form,
                const struct ftrace_event *event)
{
    if (!is_met(form, event))
        return;
    int64_t ts = form->row->ts ? number_of(&form->ts, event) : event->ts;
    if (form->row->action == FORM_COUNTER) {
        counter_apply(im, forms, form, event, ts);
        return;
    }
    struct arg args[ARGS_MAX];
    struct slice_spec spec = {
        .ts = ts,
        .dur = form->row->dur ? number_of(&form->dur, event) : 0,
        .track = track_get(im, forms, form, event, ts),
        .category = text_make(im, forms, form->category, event),
        .name = text_make(im, forms, form->name, event),
        .args = args,
        .n_args = args_make(im, forms, form, event, args),
    };
    if (form->row->action == FORM_BEGIN)
        slice_begin(&im->slices, &spec);
    else if (form->row->action == FORM_END)
        slice_end(&im->slices, &spec);
    else if (form->row->action == FORM_ARGS)
        slice_add_args(&im->slices, &spec);
    else
        slice_add(&im->slices, &spec);
}

void forms_done(struct forms *forms)
{
    form_vec_done(&forms->items);
    form_text_vec_done(&forms->texts);
    form_item_vec_done(&forms->lists);
    form_choice_vec_done(&forms->choices);
}
