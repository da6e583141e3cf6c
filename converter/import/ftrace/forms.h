// SPDX-License-Identifier: Apache-2.0
//
// What follows from events, as rows of a table. A row names the event and what it does. Most rows
// make a slice or a value of a counter. They say in small languages where the track, the name, the
// arguments and the value come from:
//
//   value      a field's name, @cpu, @pid, @event (the event's name) or a number. A field may lose
//              another field or a number: FIELD-FIELD. Behind a colon the shape, if the plain value
//              will not do: :u its low 32 bits, :i signed, :k divided by 1024, :x hexadecimal, :b
//              true or false, :f the kernel function that the number stands for, :thread and
//              :process the utid and upid of the number. Or a choice: FIELD?A,B,C;D is A, B or C
//              for 0, 1 and 2, and D for other numbers; where D is #, the number
//   template   text with values in braces: "Cpu {cpu_id} Max Freq Limit"
//   condition  FIELD (is not 0), !FIELD (is 0), or FIELD, one of < <= = != >= > and a number
//   list       NAME=VALUE or NAME='template', divided by a comma and a space; a field alone gives
//              its name, too
//
// A table is read once, when the conversion starts: a row that names no event or no field of it
// ends the conversion. With an event, nothing is parsed and nothing allocated but new texts.
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

// FORM_ARGS adds args to the open slice of that category and name, FORM_FUNCTION calls `handle`.
enum form_action { FORM_BEGIN, FORM_END, FORM_MOMENT, FORM_ARGS, FORM_COUNTER, FORM_FUNCTION };

#define FORM_CALL(function) FORM_FUNCTION, .handle = (function)

// What is NULL does not apply.
struct ftrace_form {
    const char *event; // "": that of the row above; rows of an event apply in their order
    enum form_action action;
    void (*handle)(struct import *im, const struct ftrace_event *event);
    const void *detail; // what tells events of one function apart
    bool before_row;    // handled before the row of ftrace_event is written, not behind it
    const char *when;   // condition
    const char *ts;     // value: the time; NULL: when the event happened
    // The track. Without a type it is the thread's that the event happened in, or that of the tid
    // that `key` is the value of.
    const char *type;
    const char *key;      // list: what tells tracks of the type apart
    const char *track;    // template: its name
    const char *cookie;   // value: the track is one of a group, which the slice has to itself
    const char *dur;      // value: the same, of a FORM_MOMENT, which lasts so long (ns)
    bool counts;          // a track of slices that is listed as a counter, as Perfetto does
    const char *category; // template, of a slice
    const char *name;     // template, of a slice
    const char *value;    // value, of a counter
    const char *args;     // list
};

// What a value is taken from and made into.
struct form_value {
    const struct ftrace_field_type *type; // NULL: no field of the message
    uint16_t slot;
    uint8_t source, shape;
    int64_t number;                       // the number, or what the field loses
    const struct ftrace_field_type *less; // what the field loses, too; NULL: nothing
    uint32_t first_choice, n_choices;     // the last one is for all other numbers
};

struct form_text {
    const char *text; // borrowed, in front of the value
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

// Appends the row to forms->items. `strings` keeps names. 0, -ENOMEM or -EINVAL, and `err` says
// what is wrong with the row.
int forms_add(struct forms *forms, const struct ftrace_form *row,
              const struct ftrace_event_type *type, struct strset *strings, struct err *err);

void form_apply(struct import *im, const struct forms *forms, const struct form *form,
                const struct ftrace_event *event);

void forms_done(struct forms *forms);
