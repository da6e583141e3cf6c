// SPDX-License-Identifier: Apache-2.0
//
// Chrome's JSON: an object with `traceEvents`, or only the array of events. Each event becomes a
// packet with the values of its keys; the importer (converter/import/json) gives the packet a
// meaning. The text is read from front to back. Only texts that are pids or tids stay in memory.
//
// The kernel's text in `systemTraceEvents` becomes the same packets as ftrace text.
//
// An event with wrong syntax ends at its closing brace, so only this event is lost. If the text
// ends too early, all complete events are kept.
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/elements.h"
#include "common/map.h"
#include "common/nsec.h"
#include "converter/ground/json_reader.h"
#include "converter/translate/ftrace_lines.h"
#include "converter/translate/translate.h"
#include "protos/fields.h"

// The number of the first text that is a pid or tid; the kernel's pids are below 1 << 22.
#define TEXT_IDS_FROM (UINT32_C(1) << 30)
#define TIME_MAX      9.2e18 // ns, as a floating-point number that fits into 64 bits

// The values of an event, numbers or texts. The type JSON_END means that the value is absent.
struct event {
    char phase;
    struct json_token category, name, pid, tid, id, bind_id, local_id, global_id, args;
    bool has_ts, has_dur, has_tts, has_tdur, has_scope, flow_in, flow_out, binds_enclosing;
    int64_t ts, dur, tts, tdur;
    char scope;
    bool is_empty;
    bool is_wrong; // the value of a time other than `ts` is not a time
};

struct json {
    struct translation *translation;
    struct json_reader reader;
    const char *start;
    struct strset ids;  // texts that are pids or tids
    struct strbuf text; // text of the value that is being written
    bool has_events;    // an array of events was found
    uint64_t n_wrong, n_time_units, n_samples;
    size_t first_wrong; // offset
};

// Converts a time in microseconds to ns. A whole number stays exact.
static bool time_of(const struct json_token *token, int64_t *ret)
{
    struct json_token inner = *token;
    int64_t whole;
    double real;
    if (token->type == JSON_STRING)
        inner.type = JSON_NUMBER;
    if (json_int(&inner, &whole))
        return !__builtin_mul_overflow(whole, (int64_t)NSEC_PER_USEC, ret);
    if (!json_double(&inner, &real) || !(fabs(real) * (double)NSEC_PER_USEC < TIME_MAX))
        return false;
    *ret = real == trunc(real) ? (int64_t)real * (int64_t)NSEC_PER_USEC
                               : (int64_t)llround(real * (double)NSEC_PER_USEC);
    return true;
}

static char letter_of(const struct json_token *token)
{
    return token->type == JSON_STRING && token->size ? *token->start : '\0';
}

static void id2_read(struct event *event, const struct json_token *object)
{
    struct json_reader reader = json_reader_over(object->start, object->size);
    struct json_token key = {0}, token = json_next(&reader);
    while (token.type != JSON_END && token.type != JSON_BAD && token.type != JSON_CUT) {
        if (token.type == JSON_KEY)
            key = token;
        else if (reader.depth == 1 && key.start && json_is(&key, "local"))
            event->local_id = token;
        else if (reader.depth == 1 && key.start && json_is(&key, "global"))
            event->global_id = token;
        token = json_next(&reader);
    }
}

static void field_read(struct event *event, const struct json_token *key, struct json_token value)
{
    static const struct {
        const char *key;
        size_t at;
    } tokens[] = {
        {"name", offsetof(struct event, name)},       {"cat", offsetof(struct event, category)},
        {"pid", offsetof(struct event, pid)},         {"tid", offsetof(struct event, tid)},
        {"id", offsetof(struct event, id)},           {"args", offsetof(struct event, args)},
        {"bind_id", offsetof(struct event, bind_id)},
    };
    static const struct {
        const char *key;
        size_t has, at;
    } times[] = {
        {"ts", offsetof(struct event, has_ts), offsetof(struct event, ts)},
        {"dur", offsetof(struct event, has_dur), offsetof(struct event, dur)},
        {"tts", offsetof(struct event, has_tts), offsetof(struct event, tts)},
        {"tdur", offsetof(struct event, has_tdur), offsetof(struct event, tdur)},
    };
    char *of = (char *)event;
    for (size_t i = 0; i < ELEMENTS(tokens); i++)
        if (json_is(key, tokens[i].key))
            *(struct json_token *)(void *)(of + tokens[i].at) = value;
    for (size_t i = 0; i < ELEMENTS(times); i++)
        if (json_is(key, times[i].key)) {
            bool *has = (bool *)(of + times[i].has);
            *has = time_of(&value, (int64_t *)(void *)(of + times[i].at));
            event->is_wrong |= !*has && of + times[i].has != (char *)&event->has_ts;
        }
    if (json_is(key, "ph"))
        event->phase = letter_of(&value);
    else if (json_is(key, "flow_in"))
        event->flow_in = value.type == JSON_TRUE;
    else if (json_is(key, "flow_out"))
        event->flow_out = value.type == JSON_TRUE;
    else if (json_is(key, "bp"))
        event->binds_enclosing = value.type == JSON_STRING && json_is(&value, "e");
    else if (json_is(key, "id2") && value.type == JSON_OBJECT)
        id2_read(event, &value);
    else if (json_is(key, "s") && value.type == JSON_STRING) {
        event->has_scope = true;
        event->scope = value.size == 1 ? *value.start : '\0';
    }
}

// Reads the event whose brace was read. Returns JSON_OBJECT_END, JSON_BAD or JSON_CUT.
static enum json_type event_read(struct json *json, struct event *event)
{
    struct json_reader *reader = &json->reader;
    unsigned depth = reader->depth;
    struct json_token key, value;
    event->is_empty = true;
    for (;;) {
        key = json_next(reader);
        if (key.type != JSON_KEY)
            return key.type == JSON_OBJECT_END || key.type == JSON_CUT ? key.type : JSON_BAD;
        value = json_next(reader);
        event->is_empty = false;
        if (value.type == JSON_BAD || value.type == JSON_CUT)
            return value.type;
        if (reader->depth > depth && !json_skip(reader, &value))
            return JSON_CUT;
        field_read(event, &key, value);
    }
}

static void text_write(struct json *json, struct wire_writer *w, uint32_t field,
                       const struct json_token *token)
{
    if (token->type != JSON_STRING)
        return;
    strbuf_clear(&json->text);
    json_text_add(token, &json->text);
    wire_text(w, field, json->text.text ? json->text.text : "", json->text.size);
}

static void id_write(struct json *json, struct wire_writer *w, uint32_t text_field,
                     uint32_t number_field, const struct json_token *token)
{
    int64_t number;
    text_write(json, w, text_field, token);
    if (json_int(token, &number))
        wire_uint(w, number_field, (uint64_t)number);
}

// Sets *ret to the pid or tid, or to 0 for a number that does not fit into 32 bits. Returns false
// if the value is absent. A lack of memory sets json->text.failed.
static bool task_id(struct json *json, const struct json_token *token, uint32_t *ret)
{
    double real;
    int64_t whole;
    *ret = 0;
    if (token->type == JSON_STRING) {
        strbuf_clear(&json->text);
        json_text_add(token, &json->text);
        uint32_t id =
            strset_add(&json->ids, json->text.text ? json->text.text : "", json->text.size);
        json->text.failed |= id == STRSET_NONE;
        *ret = TEXT_IDS_FROM + (id == STRSET_NONE ? 0 : id);
        return true;
    }
    if (json_int(token, &whole)) {
        *ret = whole >= 0 && whole <= UINT32_MAX ? (uint32_t)whole : 0;
        return true;
    }
    if (!json_double(token, &real))
        return false;
    *ret = real >= 0 && real <= (double)UINT32_MAX ? (uint32_t)real : 0;
    return true;
}

static void tasks_write(struct json *json, struct wire_writer *w, const struct event *event)
{
    uint32_t pid, tid;
    bool has_pid = task_id(json, &event->pid, &pid), has_tid = task_id(json, &event->tid, &tid);
    if (has_pid)
        wire_uint(w, PB_JsonEvent_pid, pid);
    if (has_tid)
        wire_uint(w, PB_JsonEvent_tid, tid);
    text_write(json, w, PB_JsonEvent_pid_text, &event->pid);
    text_write(json, w, PB_JsonEvent_tid_text, &event->tid);
}

static bool event_write(struct json *json, const struct event *event)
{
    struct packets *packets = &json->translation->packets;
    struct wire_writer *w = packets_begin(packets, event->has_ts ? event->ts : 0);
    size_t mark = wire_begin(w, PB_TracePacket_json_event);
    wire_uint(w, PB_JsonEvent_phase, (uint8_t)event->phase);
    text_write(json, w, PB_JsonEvent_category, &event->category);
    text_write(json, w, PB_JsonEvent_name, &event->name);
    tasks_write(json, w, event);
    if (event->has_dur)
        wire_int(w, PB_JsonEvent_dur, event->dur);
    if (event->has_tts)
        wire_int(w, PB_JsonEvent_tts, event->tts);
    if (event->has_tdur)
        wire_int(w, PB_JsonEvent_tdur, event->tdur);
    id_write(json, w, PB_JsonEvent_id_text, PB_JsonEvent_id_number, &event->id);
    id_write(json, w, PB_JsonEvent_bind_id_text, PB_JsonEvent_bind_id_number, &event->bind_id);
    id_write(json, w, PB_JsonEvent_local_id_text, PB_JsonEvent_local_id_number, &event->local_id);
    id_write(json, w, PB_JsonEvent_global_id_text, PB_JsonEvent_global_id_number,
             &event->global_id);
    if (event->has_scope)
        wire_uint(w, PB_JsonEvent_scope, (uint8_t)event->scope);
    if (event->flow_in)
        wire_uint(w, PB_JsonEvent_flow_in, 1);
    if (event->flow_out)
        wire_uint(w, PB_JsonEvent_flow_out, 1);
    if (event->binds_enclosing)
        wire_uint(w, PB_JsonEvent_binds_enclosing, 1);
    if (event->args.type == JSON_OBJECT)
        wire_bytes(w, PB_JsonEvent_args, event->args.start, event->args.size);
    wire_end(w, mark);
    return packets_end(packets);
}

static void wrong_note(struct json *json, const char *at)
{
    if (!json->n_wrong++)
        json->first_wrong = (size_t)(at - json->start);
}

static void event_take(struct json *json, const struct event *event, const char *at)
{
    bool needs_ts = event->phase != 'M';
    if (event->is_empty)
        return;
    if (event->phase == 'P')
        json->n_samples++;
    else if (!event->phase || event->is_wrong || (needs_ts && !event->has_ts) ||
             !event_write(json, event))
        wrong_note(json, at);
}

// Records that the text ends too early, or breaks.
static void cut_note(struct json *json, const char *what)
{
    translation_damage(json->translation, "the JSON %s at offset %zu", what,
                       (size_t)(json->reader.at - json->start));
}

// Reads the array of events after its bracket. Returns false if no more text can be read.
static bool events_read(struct json *json, int *ret_failure)
{
    struct json_reader *reader = &json->reader;
    json->has_events = true;
    for (;;) {
        struct json_token token = json_next(reader);
        const char *start = token.start;
        struct event event = {0};
        if (token.type == JSON_ARRAY_END)
            return true;
        if (token.type == JSON_CUT && reader->at == reader->end && reader->depth == 1)
            return false; // Chrome leaves out the bracket at the end of an array
        if (token.type == JSON_CUT || token.type == JSON_BAD) {
            cut_note(json, token.type == JSON_CUT ? "ends" : "breaks");
            return false;
        }
        if (token.type == JSON_OBJECT) {
            struct json_reader before = *reader;
            enum json_type end = event_read(json, &event);
            if (end == JSON_BAD) {
                *reader = before;
                wrong_note(json, start);
                end = json_skip(reader, &token) ? JSON_OBJECT_END : JSON_CUT;
            } else if (end == JSON_OBJECT_END) {
                event_take(json, &event, start);
            }
            if (end == JSON_CUT) {
                *reader = before;
                cut_note(json, "ends inside of the event");
                return false;
            }
        } else if (token.type == JSON_ARRAY && !json_skip(reader, &token)) {
            cut_note(json, "ends");
            return false;
        }
        *ret_failure = json->text.failed
                           ? -ENOMEM
                           : translation_step(json->translation, (size_t)(reader->at - start));
        if (*ret_failure < 0)
            return false;
    }
}

static void fact_write(struct json *json, const struct json_token *key,
                       const struct json_token *value)
{
    struct packets *packets = &json->translation->packets;
    struct wire_writer *w = packets_begin(packets, PACKETS_NO_TIME);
    size_t mark = wire_begin(w, PB_TracePacket_json_fact);
    struct json_token name = *key;
    int64_t whole;
    double real;
    char text[32];
    name.type = JSON_STRING;
    text_write(json, w, PB_JsonFact_name, &name);
    if (json_int(value, &whole)) {
        wire_int(w, PB_JsonFact_number, whole);
    } else if (json_double(value, &real) && real == trunc(real) && fabs(real) < TIME_MAX) {
        wire_int(w, PB_JsonFact_number, (int64_t)real);
    } else if (json_double(value, &real)) {
        snprintf(text, sizeof(text), "%g", real);
        wire_string(w, PB_JsonFact_text, text);
    } else if (value->type == JSON_TRUE || value->type == JSON_FALSE) {
        wire_int(w, PB_JsonFact_number, value->type == JSON_TRUE);
    } else if (value->type == JSON_STRING) {
        text_write(json, w, PB_JsonFact_text, value);
    } else {
        wire_text(w, PB_JsonFact_text, value->start, value->size);
    }
    wire_end(w, mark);
    packets_end(packets);
}

static void facts_read(struct json *json, const struct json_token *object)
{
    struct json_reader reader = json_reader_over(object->start, object->size);
    json_next(&reader);
    for (;;) {
        struct json_token key = json_next(&reader);
        if (key.type != JSON_KEY)
            return;
        struct json_token value = json_next(&reader);
        if (value.type == JSON_BAD || value.type == JSON_CUT ||
            (reader.depth > 1 && !json_skip(&reader, &value)))
            return;
        if (value.type != JSON_NULL)
            fact_write(json, &key, &value);
    }
}

// Reads the lines of ftrace text in a string. Returns 0 or a negative errno with text.
static int system_lines_read(struct json *json, const struct json_token *text)
{
    struct ftrace_lines lines;
    const char *at = text->start, *end = at + text->size;
    uint64_t number = 0;
    int r = 0;
    ftrace_lines_begin(&lines, json->translation);
    while (r == 0 && at < end) {
        const char *stop = at;
        while (stop < end && !(stop[0] == '\\' && stop[1] == 'n'))
            stop += *stop == '\\' ? 2 : 1;
        const struct json_token token = {
            .start = at, .size = (size_t)(stop - at), .has_escapes = true};
        strbuf_clear(&json->text);
        json_text_add(&token, &json->text);
        struct lines one = lines_over((const uint8_t *)json->text.text, json->text.size);
        struct span line;
        number++;
        if (lines_next(&one, &line))
            r = ftrace_lines_take(&lines, number, line);
        at = stop < end ? stop + strlen("\\n") : end;
        if (r == 0)
            r = translation_step(json->translation, token.size);
    }
    ftrace_lines_end(&lines, " of systemTraceEvents");
    return r;
}

static int member_read(struct json *json, const struct json_token *key,
                       const struct json_token *value)
{
    if (json_is(key, "metadata") && value->type == JSON_OBJECT)
        facts_read(json, value);
    else if (json_is(key, "displayTimeUnit"))
        json->n_time_units++;
    else if (json_is(key, "systemTraceEvents") && value->type == JSON_STRING)
        return system_lines_read(json, value);
    return translation_step(json->translation, value->size);
}

static int object_read(struct json *json)
{
    struct json_reader *reader = &json->reader;
    int failure = 0;
    for (;;) {
        struct json_token key = json_next(reader), value;
        if (key.type == JSON_OBJECT_END)
            return 0;
        value = key.type == JSON_KEY ? json_next(reader) : key;
        if (key.type == JSON_KEY && value.type == JSON_ARRAY && json_is(&key, "traceEvents")) {
            if (!events_read(json, &failure))
                return failure;
            continue;
        }
        bool is_inner = value.type == JSON_OBJECT || value.type == JSON_ARRAY;
        if (key.type != JSON_KEY || value.type == JSON_CUT || value.type == JSON_BAD ||
            (is_inner && !json_skip(reader, &value))) {
            cut_note(json, key.type == JSON_BAD || value.type == JSON_BAD ? "breaks" : "ends");
            return 0;
        }
        failure = member_read(json, &key, &value);
        if (failure < 0)
            return failure;
    }
}

static void problems_write(struct json *json)
{
    struct translation *translation = json->translation;
    if (json->n_wrong)
        translation_damage(translation,
                           "the event at offset %zu of the JSON cannot be read; events left out: "
                           "%" PRIu64,
                           json->first_wrong, json->n_wrong);
    if (json->n_samples)
        translation_note(translation, "samples of V8's profiler are not converted: %" PRIu64,
                         json->n_samples);
    struct wire_writer *w = packets_begin(&translation->packets, PACKETS_NO_TIME);
    size_t mark = wire_begin(w, PB_TracePacket_translation_problems);
    wire_uint(w, PB_TranslationProblems_json_events, json->n_wrong);
    wire_uint(w, PB_TranslationProblems_json_time_units, json->n_time_units);
    wire_uint(w, PB_TranslationProblems_json_samples, json->n_samples);
    wire_end(w, mark);
    packets_end(&translation->packets);
}

static int json_run(struct translation *translation)
{
    const struct input *input = translation->input;
    const struct text mark = TEXT("\xef\xbb\xbf");
    struct text all = {(const char *)input_bytes(input), input_size(input)};
    size_t skipped = text_starts_with(all, mark) ? mark.size : 0;
    struct json json = {
        .translation = translation,
        .reader = json_reader_over(all.at + skipped, all.size - skipped),
        .start = all.at,
    };
    int r = 0;
    struct json_token first = json_next(&json.reader);
    if (first.type == JSON_ARRAY)
        events_read(&json, &r);
    else if (first.type == JSON_OBJECT)
        r = object_read(&json);
    if (r == 0 && !json.has_events) {
        err_set(translation->err, -EBADMSG, "JSON, but no Chrome trace");
        r = err_hint(translation->err, -EBADMSG, "it has no traceEvents");
    }
    if (r == 0)
        problems_write(&json);
    if (r == 0 && json.text.failed)
        r = -ENOMEM;
    strset_done(&json.ids);
    strbuf_done(&json.text);
    return r == -ENOMEM ? err_errno(translation->err, r, "JSON") : r;
}

const struct translator translator_chrome_json = {.type = "json", .run = json_run};
