// SPDX-License-Identifier: Apache-2.0
//
// A search follows all ways through the program at the same time, character by character. Each way
// is a thread; preferred threads come first. At each step is at most one thread, so each character
// takes limited time.
#include "converter/functions/regex.h"
#include "converter/functions/regex_program.h"

#include <stdlib.h>
#include <string.h>

int regex_n_groups(const struct regex *regex)
{
    return regex->n_groups;
}

void regex_free(void *userdata)
{
    struct regex *regex = userdata;
    if (!regex)
        return;
    vec_foreach(&regex->sets, set)
        range_vec_done(&set->ranges);
    set_vec_done(&regex->sets);
    step_vec_done(&regex->steps);
    free(regex->literal);
    free(regex->now.items);
    free(regex->then.items);
    free(regex->marks);
    free(regex->stack);
    free(regex);
}

static bool set_has(const struct set *set, uint32_t c)
{
    if (c < 128)
        return set->ascii[c / 32] >> (c % 32) & 1;
    bool found = false;
    vec_foreach(&set->ranges, range)
        found |= c >= range->first && c <= range->last;
    return found != set->is_negative;
}

struct place {
    const char *text, *at, *end;
};

static bool word_edge(const struct place *place)
{
    bool before = place->at > place->text && is_word((unsigned char)place->at[-1]);
    bool after = place->at < place->end && is_word((unsigned char)*place->at);
    return before != after;
}

static bool place_fits(enum operation operation, const struct place *place)
{
    bool is_begin = place->at == place->text, is_end = place->at == place->end;
    switch (operation) {
    case STEP_BEGIN:
        return is_begin;
    case STEP_END:
        return is_end;
    case STEP_LINE_BEGIN:
        return is_begin || place->at[-1] == '\n';
    case STEP_LINE_END:
        return is_end || *place->at == '\n';
    case STEP_WORD_EDGE:
        return word_edge(place);
    default:
        return !word_edge(place);
    }
}

// Adds the threads that `thread` becomes before it needs a character, preferred threads first. A
// step that another thread has reached is left out: the other thread is preferred.
static void thread_add(struct regex *regex, struct threads *to, struct thread thread,
                       const struct place *place)
{
    size_t n = 0;
    regex->stack[n++] = thread;
    while (n > 0) {
        thread = regex->stack[--n];
        for (bool goes_on = true; goes_on && regex->marks[thread.step] != regex->mark;) {
            const struct step *step = &regex->steps.items[thread.step];
            regex->marks[thread.step] = regex->mark;
            switch (step->operation) {
            case STEP_SPLIT:
                // Each step is pushed at most once, because its mark is set first.
                regex->stack[n] = thread;
                regex->stack[n++].step += step->y;
                thread.step += step->x;
                break;
            case STEP_JUMP:
                thread.step += step->x;
                break;
            case STEP_SAVE:
                thread.saved[step->x] = (size_t)(place->at - place->text);
                thread.step++;
                break;
            case STEP_CHARACTER:
            case STEP_ANY:
            case STEP_ALL:
            case STEP_SET:
            case STEP_FOUND:
                to->items[to->n++] = thread;
                goes_on = false;
                break;
            default:
                goes_on = place_fits(step->operation, place);
                thread.step++;
            }
        }
    }
}

static bool step_takes(const struct regex *regex, const struct step *step, uint32_t c)
{
    switch (step->operation) {
    case STEP_CHARACTER:
        return c == (uint32_t)step->x || c == (uint32_t)step->y;
    case STEP_ANY:
        return c != '\n';
    case STEP_ALL:
        return true;
    default:
        return set_has(&regex->sets.items[step->x], c);
    }
}

// Begins a new place: no step has been reached there.
static void marks_clear(struct regex *regex)
{
    if (++regex->mark)
        return;
    memset(regex->marks, 0, regex->steps.n * sizeof(*regex->marks));
    regex->mark = 1;
}

// Begins a thread at the place. Returns false if no match can begin here or later.
static bool thread_begin(struct regex *regex, struct place *place)
{
    struct thread thread = {.saved = {0, 0, SIZE_MAX, SIZE_MAX}};
    if (regex->is_anchored && place->at > place->text)
        return regex->now.n > 0;
    if (regex->literal && regex->now.n == 0) {
        const char *found = memmem(place->at, (size_t)(place->end - place->at), regex->literal,
                                   regex->literal_size);
        if (!found)
            return false;
        if (found > place->at)
            marks_clear(regex);
        place->at = found;
    }
    thread.saved[0] = (size_t)(place->at - place->text);
    thread_add(regex, &regex->now, thread, place);
    return true;
}

// Moves all threads over the character at the place. A match ends the threads after it. Returns
// true if there was a match.
static bool threads_step(struct regex *regex, const struct place *here, struct place *next,
                         struct thread *ret)
{
    bool is_end = here->at == here->end;
    uint32_t c = is_end ? 0 : rune_read(&next->at, here->end);
    marks_clear(regex);
    regex->then.n = 0;
    for (int32_t i = 0; i < regex->now.n; i++) {
        struct thread thread = regex->now.items[i];
        const struct step *step = &regex->steps.items[thread.step];
        if (step->operation == STEP_FOUND) {
            *ret = thread;
            ret->saved[1] = (size_t)(here->at - here->text);
            return true;
        }
        if (!is_end && step_takes(regex, step, c)) {
            thread.step++;
            thread_add(regex, &regex->then, thread, next);
        }
    }
    return false;
}

static bool find(struct regex *regex, struct place here, struct thread *ret, bool anyone)
{
    bool found = false;
    regex->now.n = 0;
    marks_clear(regex);
    for (;;) {
        // The newest thread is the least preferred.
        if (!found && !thread_begin(regex, &here))
            return false;
        if (regex->now.n == 0 && (found || here.at == here.end))
            return found;
        struct place next = here;
        found |= threads_step(regex, &here, &next, ret);
        struct threads swap = regex->now;
        regex->now = regex->then;
        regex->then = swap;
        if (here.at == here.end || (found && anyone))
            return found;
        here = next;
    }
}

bool regex_find(struct regex *regex, const char *text, size_t size, size_t from,
                struct regex_span ret[2])
{
    if (regex->is_literal && !ret)
        return memmem(text + from, size - from, regex->literal ? regex->literal : "",
                      regex->literal_size);
    struct place place = {text, text + from, text + size};
    struct thread thread;
    if (!find(regex, place, &thread, !ret))
        return false;
    if (!ret)
        return true;
    ret[0] = (struct regex_span){thread.saved[0], thread.saved[1]};
    ret[1] = (struct regex_span){thread.saved[2], thread.saved[3]};
    if (ret[1].end == SIZE_MAX)
        ret[1].begin = SIZE_MAX;
    return true;
}
