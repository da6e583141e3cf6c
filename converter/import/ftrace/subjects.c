// SPDX-License-Identifier: Apache-2.0
//
// Subjects name events, the schema numbers them: the names are looked up once, at the start. A
// name that the schema lacks, and an event that two subjects claim, are mistakes in the tables, so
// they end the conversion.
#include "converter/import/ftrace/subjects.h"

#include <errno.h>
#include <stdlib.h>

#include "common/memory.h"

static size_t subjects_n(void)
{
    size_t n = 0;
    while (ftrace_subjects[n])
        n++;
    return n;
}

// NULL: the name is wrong, or the event belongs to another subject; `err` says which.
static struct ftrace_bound *bound_of(struct subjects *subjects, size_t subject, const char *name,
                                     const struct ftrace_event_type **ret, struct err *err)
{
    const struct ftrace_event_type *type = ftrace_event_type_by_name(name);
    if (!type || type->number >= FTRACE_TYPES_MAX || type->n_fields > FTRACE_FIELDS_MAX) {
        err_set(err, -EINVAL, "ftrace event %s is not in protos/ftrace_events.csv", name);
        return NULL;
    }
    struct ftrace_bound *bound = &subjects->bound[type->number];
    if (bound->handler || bound->n_forms) {
        err_set(err, -EINVAL, "ftrace event %s stands in two tables", name);
        return NULL;
    }
    bound->subject = (uint8_t)subject;
    *ret = type;
    return bound;
}

static int forms_bind(struct subjects *subjects, size_t subject, const struct ftrace_form *row,
                      struct strset *strings, struct err *err)
{
    const struct ftrace_event_type *type = NULL;
    struct ftrace_bound *bound = NULL;
    for (; row && row->event; row++) {
        if (*row->event) {
            bound = bound_of(subjects, subject, row->event, &type, err);
            if (!bound)
                return -EINVAL;
            bound->first_form = (uint16_t)subjects->forms.items.n;
        }
        if (!bound)
            return err_set(err, -EINVAL, "the first form of a table has no ftrace event");
        int r = forms_add(&subjects->forms, row, type, strings, err);
        if (r < 0)
            return r;
        bound->n_forms++;
    }
    return 0;
}

int subjects_bind(struct subjects *subjects, struct strset *strings, struct err *err)
{
    int r = 0;
    for (size_t i = 0; ftrace_subjects[i] && r == 0; i++) {
        const struct ftrace_handler *handler = ftrace_subjects[i]->handlers;
        const struct ftrace_event_type *type;
        for (; handler && handler->event; handler++) {
            struct ftrace_bound *bound = bound_of(subjects, i, handler->event, &type, err);
            if (!bound)
                return -EINVAL;
            bound->handler = handler;
        }
        r = forms_bind(subjects, i, ftrace_subjects[i]->forms, strings, err);
    }
    return r;
}

void subject_states_free(void **states)
{
    for (size_t i = 0; states && ftrace_subjects[i]; i++) {
        if (states[i] && ftrace_subjects[i]->done)
            ftrace_subjects[i]->done(states[i]);
        free(states[i]);
    }
    free(states);
}

void **subject_states_make(void)
{
    void **states = memory_calloc(subjects_n(), sizeof(*states));
    for (size_t i = 0; states && ftrace_subjects[i]; i++) {
        states[i] = memory_calloc(1, ftrace_subjects[i]->state_size + 1);
        if (!states[i]) {
            subject_states_free(states);
            return NULL;
        }
    }
    return states;
}

size_t subject_index(const struct ftrace_subject *subject)
{
    size_t i = 0;
    while (ftrace_subjects[i] && ftrace_subjects[i] != subject)
        i++;
    return i;
}

void subjects_finish(struct import *im, void **states)
{
    for (size_t i = 0; ftrace_subjects[i]; i++)
        if (ftrace_subjects[i]->finish)
            ftrace_subjects[i]->finish(im, states[i]);
}

void subjects_done(struct subjects *subjects)
{
    forms_done(&subjects->forms);
}
