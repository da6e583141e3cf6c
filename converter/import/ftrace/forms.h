// SPDX-License-Identifier: Apache-2.0
//
// Effects of events, as rows of a table. A row has an event and an action. Most rows add a slice or
// a value of a counter. Small languages describe the track, the name, the arguments and the value:
//
//   value      a field's name, @cpu, @pid, @event (the event's name) or a number. FIELD-FIELD and
//              FIELD-NUMBER subtract. A colon and a shape change the value: :u its low 32 bits, :i
//              signed, :k divided by 1024, :x hexadecimal, :b true or false, :f the name of the
//              kernel function, :thread and :process the utid and upid of the number. A choice,
//              FIELD?A,B,C;D, is A, B or C for 0, 1 and 2, and D for other numbers; if D is #, the
//              number itself
//   template   text with values in braces: "Cpu {cpu_id} Max Freq Limit"
//   condition  FIELD (is not 0), !FIELD (is 0), or FIELD, one of < <= = != >= > and a number
//   list       NAME=VALUE or NAME='template', separated by a comma and a space; a field without a
//              name is its own name
//
// A table is read once, when the conversion starts. A row with an unknown event or field ends the
// conversion. An event causes no parsing, and no allocation except for new texts.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/map.h"
#include "common/vec.h"
#include "protos/ftrace_table.h"

struct ftrace_event;
struct import;

// FORM_ARGS adds args to the open slice of the category and name, FORM_FUNCTION calls `handle`.
enum form_action { FORM_BEGIN, FORM_END, FORM_MOMENT, FORM_ARGS, FORM_COUNTER, FORM_FUNCTION };

#define FORM_CALL(function) FORM_FUNCTION, .handle = (function)

// Members that are NULL do not apply.
struct ftrace_form {
    const char *event; // "": the event of the row above; rows of an event apply in order
    enum form_action action;
    void (*handle)(struct import *im, const struct ftrace_event *event);
    const void *detail; // parameter of `handle` (event->detail)
    bool before_row;    // applied before the row of ftrace_event is written, not after
    const char *when;   // condition
    const char *ts;     // value: the time (ns); NULL: the event's time
    // The track. Without a type: the track of the event's thread or, with a `key`, of the tid in
    // `key`.
    const char *type;
    const char *key;    // list: dimensions of the track
    const char *track;  // template: its name
    const char *cookie; // value: cookie of the slice in a group of tracks; see async_tracks.h
    const char *dur;    // value: duration (ns) of a FORM_MOMENT, which also uses a group of tracks
    bool counts;        // a track of slices that is listed as a counter, as in Perfetto
    const char *category; // template, of a slice
    const char *name;     // template, of a slice
    const char *value;    // value, of a counter
    const char *args;     // list
};

// Source and shape of a value.
struct form_value {
    const struct ftrace_field_type *type; // NULL: no field of the message
    uint16_t slot;
    uint8_t source, shape;
    int64_t number;                       // the number, or the number that is subtracted
    const struct ftrace_field_type *less; // field that is subtracted; NULL: none
    uint32_t first_choice, n_choices;     // the last choice is for all other numbers
};

struct form_text {
    const char *text; // borrowed, before the value
    size_t size;
    struct form_value value;
};
VEC_DEFINE(form_text_vec, struct form_text);

struct form_part {
    uint32_t first, n;
};

struct form_item {
    const char *name; // borrowed, in strings
    struct form_value value;
    struct form_part text; // instead of the value if it is not empty
};
VEC_DEFINE(form_item_vec, struct form_item);

struct form {
    const struct ftrace_form *row; // borrowed
    struct form_value condition, ts, value, cookie, dur;
    uint8_t comparison; // of the condition's value with `compared`
    int64_t compared;
    struct form_part key, args;             // of items
    struct form_part track, category, name; // of texts
};
VEC_DEFINE(form_vec, struct form);

struct form_choice {
    const char *text; // borrowed
    size_t size;
};
VEC_DEFINE(form_choice_vec, struct form_choice);

// All zero is empty.
struct forms {
    struct form_vec items;
    struct form_text_vec texts;
    struct form_item_vec lists;
    struct form_choice_vec choices;
};

// Appends the row to forms->items. `strings` keeps names. Returns 0, -ENOMEM, or -EINVAL and *err.
int forms_add(struct forms *forms, const struct ftrace_form *row,
              const struct ftrace_event_type *type, struct strset *strings, struct err *err);

void form_apply(struct import *im, const struct forms *forms, const struct form *form,
                const struct ftrace_event *event);

void forms_done(struct forms *forms);
