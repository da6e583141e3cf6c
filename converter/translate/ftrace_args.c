// SPDX-License-Identifier: Apache-2.0
//
// Most events print KEY=VALUE with the names of their fields. The schema has the numbers and types
// of the fields. The tables here have the exceptions: other names, and values in words.
#include "converter/translate/ftrace_args.h"

#include <stdio.h>

#include "common/elements.h"
#include "common/text.h"
#include "protos/fields.h"

#define EVENT_NAME_MAX 96
#define SYMBOLS_MAX    (1u << 20)

enum reading {
    READ_PLAIN, // by the type of the field
    READ_HEX,   // hexadecimal without 0x
    READ_STATE, // state of a thread, in letters
    READ_WORDS, // the number of a word
};

struct word_number {
    const char *word; // the value begins with this word; NULL: the end
    int64_t number;
};

static const struct word_number handled_words[] = {{"handled", 1}, {"unhandled", 0}, {0}};
static const struct word_number sync_words[] = {{"sync", 1}, {"async", 0}, {0}};
static const struct word_number member_words[] = {
    {"MM_FILEPAGES", 0}, {"MM_ANONPAGES", 1}, {"MM_SWAPENTS", 2}, {"MM_SHMEMPAGES", 3}, {0},
};

// A field whose text differs from the schema.
struct spelling {
    const char *event, *key, *field;
    enum reading reading;
    const struct word_number *words;
};

static const struct spelling spellings[] = {
    {"binder_transaction", "dest_node", "target_node"},
    {"binder_transaction", "dest_proc", "to_proc"},
    {"binder_transaction", "dest_thread", "to_thread"},
    {"binder_transaction", "transaction", "debug_id"},
    {"binder_transaction_alloc_buf", "transaction", "debug_id"},
    {"binder_transaction_received", "transaction", "debug_id"},
    {"cpu_frequency_limits", "max", "max_freq"},
    {"cpu_frequency_limits", "min", "min_freq"},
    {"irq_handler_exit", "ret", "ret", READ_WORDS, handled_words},
    {"mm_compaction_begin", "mode", "sync", READ_WORDS, sync_words},
    {"mm_compaction_end", "mode", "sync", READ_WORDS, sync_words},
    {"rss_stat", "type", "member", READ_WORDS, member_words},
    {"sched_blocked_reason", "iowait", "io_wait"},
    {"sched_process_fork", "comm", "parent_comm"},
    {"sched_process_fork", "pid", "parent_pid"},
    {"sched_switch", "prev_state", "prev_state", READ_STATE},
    {"task_newtask", "clone_flags", "clone_flags", READ_HEX},
};

// Converts state letters to the bits of a sched_switch of Linux 4.4. The importer assumes this
// version for a trace without a version.
static int64_t state_read(struct span text)
{
    static const struct {
        char letter;
        int bits;
    } letters[] = {
        {'R', 0},    {'S', 1},    {'D', 2},     {'T', 4},     {'t', 8},     {'X', 16},    {'Z', 32},
        {'x', 0x40}, {'K', 0x80}, {'W', 0x100}, {'P', 0x200}, {'N', 0x400}, {'I', 0x402},
    };
    enum { PREEMPTED = 0x800, INVALID = 0xffff };
    int64_t bits = 0;
    struct span word = word_take(&text);
    for (; word.at < word.end; word.at++) {
        size_t i = 0;
        if (*word.at == '|')
            continue;
        if (*word.at == '+')
            return PREEMPTED;
        while (i < ELEMENTS(letters) && letters[i].letter != *word.at)
            i++;
        if (i == ELEMENTS(letters))
            return INVALID;
        bits |= letters[i].bits;
    }
    return bits;
}

bool ftrace_number_read(struct span text, bool is_hex, int64_t *ret)
{
    bool negative = text.at < text.end && *text.at == '-';
    text.at += negative;
    if (text_size(text) > 2 && text.at[0] == '0' && (text.at[1] | 0x20) == 'x') {
        is_hex = true;
        text.at += 2;
    }
    uint64_t value = 0;
    const char *start = text.at;
    for (; text.at < text.end; text.at++) {
        int digit = hex_digit(*text.at);
        if (digit < 0 || (digit > 9 && !is_hex))
            break;
        value = value * (is_hex ? 16 : 10) + (unsigned)digit;
    }
    if (text.at == start)
        return false;
    *ret = (int64_t)(negative ? 0 - value : value);
    return true;
}

static bool is_key_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' ||
           c == '-' || c == '.';
}

// Finds the next `KEY=` whose key is at `from` or after a blank. Returns false if there is none.
static bool key_find(struct span text, const char *from, struct span *ret)
{
    const char *at = from;
    while (at < text.end && (at = memchr(at, '=', (size_t)(text.end - at))) != NULL) {
        const char *start = at;
        while (start > from && is_key_char(start[-1]))
            start--;
        bool is_equation = at + 1 < text.end && at[1] == '=';
        if (start < at && !is_equation && (start == text.at || is_blank(start[-1]))) {
            *ret = (struct span){start, at};
            return true;
        }
        at++;
    }
    return false;
}

bool ftrace_pair_next(struct span *rest, struct span *key, struct span *value, struct span *words)
{
    struct span next;
    if (!key_find(*rest, rest->at, key)) {
        if (words)
            *words = *rest;
        rest->at = rest->end;
        return false;
    }
    if (words)
        *words = text_trim_end((struct span){rest->at, key->at});
    const char *start = key->end + 1;
    *value = (struct span){start, rest->end};
    if (key_find(*rest, start, &next))
        value->end = next.at;
    rest->at = value->end;
    *value = text_trim_end(*value);
    return true;
}

static uint64_t symbol_number(struct ftrace_symbols *symbols, struct span name)
{
    uint32_t id = symbols->names.n < SYMBOLS_MAX
                      ? strset_add(&symbols->names, name.at, text_size(name))
                      : strset_find(&symbols->names, name.at, text_size(name));
    symbols->is_full |= id == STRSET_NONE;
    return id == STRSET_NONE ? 0 : (uint64_t)id + 1;
}

static bool words_read(const struct word_number *words, struct span value, int64_t *ret)
{
    struct span word = word_take(&value);
    for (; words->word; words++)
        if (text_is(word, words->word)) {
            *ret = words->number;
            return true;
        }
    return false;
}

// Writes a field. Returns false if the value does not have the field's type.
static bool field_write(struct wire_writer *w, const struct ftrace_field_type *field,
                        const struct spelling *spelling, struct span value,
                        struct ftrace_symbols *symbols)
{
    enum reading reading = spelling ? spelling->reading : READ_PLAIN;
    int64_t number;
    if (field->kind == FTRACE_KIND_MESSAGE)
        return false;
    if (field->kind == FTRACE_KIND_STRING || field->kind == FTRACE_KIND_BYTES) {
        wire_text(w, field->number, value.at, text_size(value));
        return true;
    }
    if (field->is_symbol) {
        wire_uint(w, field->number, symbol_number(symbols, value));
        return true;
    }
    if (reading == READ_STATE)
        number = state_read(value);
    else if (reading == READ_WORDS ? !words_read(spelling->words, value, &number)
                                   : !ftrace_number_read(value, reading == READ_HEX, &number))
        return false;
    if (field->bits == 32)
        number =
            field->kind == FTRACE_KIND_INT ? (int64_t)(int32_t)number : (int64_t)(uint32_t)number;
    wire_int(w, field->number, number);
    return true;
}

static const struct spelling *spelling_find(const char *event, struct span key)
{
    for (size_t i = 0; i < ELEMENTS(spellings); i++)
        if (strcmp(spellings[i].event, event) == 0 && text_is(key, spellings[i].key))
            return &spellings[i];
    return NULL;
}

static const struct ftrace_field_type *field_find(const struct ftrace_event_type *type,
                                                  const struct spelling *spelling, struct span key)
{
    char name[EVENT_NAME_MAX];
    if (spelling)
        return ftrace_field_type_by_name(type, spelling->field);
    if (text_size(key) >= sizeof(name))
        return NULL;
    memcpy(name, key.at, text_size(key));
    name[text_size(key)] = '\0';
    return ftrace_field_type_by_name(type, name);
}

static size_t pairs_write(struct wire_writer *w, const struct ftrace_event_type *type,
                          struct span args, struct ftrace_symbols *symbols)
{
    struct span rest = args, key, value, words, first = {0};
    size_t n = 0;
    bool has_first = false;
    for (bool more = true; more;) {
        more = ftrace_pair_next(&rest, &key, &value, &words);
        if (!has_first && words.at < words.end)
            first = words;
        has_first = true;
        if (!more)
            break;
        const struct spelling *spelling = spelling_find(type->name, key);
        const struct ftrace_field_type *field = field_find(type, spelling, key);
        n += field && field_write(w, field, spelling, value, symbols);
    }
    const struct ftrace_field_type *name =
        first.at < first.end ? ftrace_field_type_by_name(type, "name") : NULL;
    if (name && name->kind == FTRACE_KIND_STRING)
        n += field_write(w, name, NULL, word_take(&first), symbols);
    return n;
}

static bool put_int(struct wire_writer *w, const struct ftrace_event_type *type, const char *name,
                    int64_t value)
{
    const struct ftrace_field_type *field = ftrace_field_type_by_name(type, name);
    if (field)
        wire_int(w, field->number, value);
    return field != NULL;
}

static bool put_text(struct wire_writer *w, const struct ftrace_event_type *type, const char *name,
                     struct span text)
{
    const struct ftrace_field_type *field = ftrace_field_type_by_name(type, name);
    if (field)
        wire_text(w, field->number, text.at, text_size(text));
    return field != NULL;
}

static const char *find(struct span text, struct text needle)
{
    return text.at < text.end ? memmem(text.at, text_size(text), needle.at, needle.size) : NULL;
}

static void assignment_skip(struct span *text)
{
    while (text->at < text->end && (is_blank(*text->at) || *text->at == '='))
        text->at++;
}

// Writes the fields of `work struct ADDRESS: function NAME`; the function may be missing.
static bool work_write(struct wire_writer *w, const struct ftrace_event_type *type,
                       struct span args, struct ftrace_symbols *symbols)
{
    static const struct text struct_word = TEXT("work struct"), function_word = TEXT("function"),
                             queue_word = TEXT("workqueue=");
    const char *work = find(args, struct_word), *name = find(args, function_word);
    const struct ftrace_field_type *field = ftrace_field_type_by_name(type, "function");
    int64_t address;
    if (!work)
        return false;
    struct span number = {work + struct_word.size, args.end};
    assignment_skip(&number);
    if (ftrace_number_read(number, true, &address))
        put_int(w, type, "work", address);
    if (name && field) {
        struct span symbol = {name + function_word.size, args.end};
        assignment_skip(&symbol);
        wire_uint(w, field->number, symbol_number(symbols, word_take(&symbol)));
    }
    const char *queue = find(args, queue_word);
    if (queue) {
        struct span rest = {queue + queue_word.size, args.end};
        put_text(w, type, "workqueue", word_take(&rest));
    }
    return true;
}

// Writes the fields of `NR ID (ARGS)` or `NR ID = RETURN`.
static bool syscall_write(struct wire_writer *w, const struct ftrace_event_type *type,
                          struct span args, struct ftrace_symbols *symbols)
{
    (void)symbols;
    struct span word = word_take(&args);
    int64_t id, ret;
    if (!text_is(word, "NR") || !ftrace_number_read(word_take(&args), false, &id))
        return false;
    put_int(w, type, "id", id);
    if (text_is(word_take(&args), "=") && ftrace_number_read(args, false, &ret))
        put_int(w, type, "ret", ret);
    return true;
}

// Writes the fields of `ACTION[VALUE] begin` or `ACTION[VALUE] end`.
static bool suspend_write(struct wire_writer *w, const struct ftrace_event_type *type,
                          struct span args, struct ftrace_symbols *symbols)
{
    (void)symbols;
    struct span word = word_take(&args);
    const char *bracket = text_size(word) ? memchr(word.at, '[', text_size(word)) : NULL;
    int64_t value;
    if (!bracket || !ftrace_number_read((struct span){bracket + 1, word.end}, false, &value))
        return false;
    put_text(w, type, "action", (struct span){word.at, bracket});
    put_int(w, type, "val", value);
    put_int(w, type, "start", text_is(word_take(&args), "begin"));
    return true;
}

// Takes `COMM:PID [PRIO]`, trace-cmd's form of a task.
static bool task_take(struct span *text, struct span *comm, int64_t *pid, int64_t *prio)
{
    const char *bracket = find(*text, TEXT(" ["));
    if (!bracket)
        return false;
    struct span task = {text->at, bracket};
    const char *colon = task.end;
    while (colon > task.at && colon[-1] != ':')
        colon--;
    if (colon == task.at || !ftrace_number_read((struct span){colon, task.end}, false, pid) ||
        !ftrace_number_read((struct span){bracket + 2, text->end}, false, prio))
        return false;
    const char *end = memchr(bracket, ']', (size_t)(text->end - bracket));
    if (!end)
        return false;
    *comm = (struct span){task.at, colon - 1};
    *text = text_trim_start((struct span){end + 1, text->end});
    return true;
}

// Writes the fields of `COMM:PID [PRIO] STATE ==> COMM:PID [PRIO]`.
static bool switch_write(struct wire_writer *w, const struct ftrace_event_type *type,
                         struct span args, struct ftrace_symbols *symbols)
{
    (void)symbols;
    struct span prev, next;
    int64_t prev_pid, prev_prio, next_pid, next_prio;
    if (find(args, TEXT("prev_pid=")) || !task_take(&args, &prev, &prev_pid, &prev_prio))
        return false;
    struct span state = word_take(&args);
    if (!text_is(word_take(&args), "==>") || !task_take(&args, &next, &next_pid, &next_prio))
        return false;
    put_text(w, type, "prev_comm", prev);
    put_int(w, type, "prev_pid", prev_pid);
    put_int(w, type, "prev_prio", prev_prio);
    put_int(w, type, "prev_state", state_read(state));
    put_text(w, type, "next_comm", next);
    put_int(w, type, "next_pid", next_pid);
    put_int(w, type, "next_prio", next_prio);
    return true;
}

// Writes the fields of `COMM:PID [PRIO] ... CPU:NUMBER`.
static bool wakeup_write(struct wire_writer *w, const struct ftrace_event_type *type,
                         struct span args, struct ftrace_symbols *symbols)
{
    (void)symbols;
    struct span comm;
    int64_t pid, prio, cpu;
    if (find(args, TEXT("pid=")) || !task_take(&args, &comm, &pid, &prio))
        return false;
    put_text(w, type, "comm", comm);
    put_int(w, type, "pid", pid);
    put_int(w, type, "prio", prio);
    const char *on = find(args, TEXT("CPU:"));
    if (on && ftrace_number_read((struct span){on + 4, args.end}, false, &cpu))
        put_int(w, type, "target_cpu", cpu);
    return true;
}

// Events that never or not always print KEY=VALUE.
static const struct {
    const char *event;
    bool (*write)(struct wire_writer *w, const struct ftrace_event_type *type, struct span args,
                  struct ftrace_symbols *symbols);
} forms[] = {
    {"sched_switch", switch_write},        {"sched_wakeup", wakeup_write},
    {"sched_wakeup_new", wakeup_write},    {"sched_waking", wakeup_write},
    {"suspend_resume", suspend_write},     {"sys_enter", syscall_write},
    {"sys_exit", syscall_write},           {"workqueue_activate_work", work_write},
    {"workqueue_execute_end", work_write}, {"workqueue_execute_start", work_write},
    {"workqueue_queue_work", work_write},
};

static size_t typed_write(struct wire_writer *w, const struct ftrace_event_type *type,
                          struct span args, struct ftrace_symbols *symbols)
{
    for (size_t i = 0; i < ELEMENTS(forms); i++)
        if (strcmp(forms[i].event, type->name) == 0 && forms[i].write(w, type, args, symbols))
            return 1;
    return pairs_write(w, type, args, symbols);
}

static void generic_field_write(struct wire_writer *w, struct span key, struct span value)
{
    struct span rest = value;
    int64_t number;
    size_t field = wire_begin(w, PB_GenericFtraceEvent_field);
    wire_text(w, PB_GenericFtraceEvent_Field_name, key.at, text_size(key));
    bool is_number = ftrace_number_read(value, false, &number) && *value.at != '0';
    is_number |= text_is(value, "0");
    for (const char *at = rest.at; at < rest.end && is_number; at++)
        is_number = is_digit(*at) || (*at == '-' && at == rest.at);
    if (is_number)
        wire_int(w, PB_GenericFtraceEvent_Field_int_value, number);
    else
        wire_text(w, PB_GenericFtraceEvent_Field_str_value, value.at, text_size(value));
    wire_end(w, field);
}

static void generic_write(struct wire_writer *w, struct span event, struct span args)
{
    struct span rest = args, key, value, words;
    static const char args_key[] = "args";
    struct span text_key = {args_key, strchr(args_key, '\0')};
    size_t message = wire_begin(w, PB_FtraceEvent_generic);
    wire_text(w, PB_GenericFtraceEvent_event_name, event.at, text_size(event));
    size_t n = 0;
    while (ftrace_pair_next(&rest, &key, &value, &words)) {
        if (n++ == 0 && words.at < words.end)
            generic_field_write(w, text_key, words);
        generic_field_write(w, key, value);
    }
    if (n == 0 && args.at < args.end)
        generic_field_write(w, text_key, args);
    wire_end(w, message);
}

void ftrace_args_write(struct wire_writer *w, struct span event, struct span args,
                       struct ftrace_symbols *symbols)
{
    char name[EVENT_NAME_MAX];
    const struct ftrace_event_type *type = NULL;
    if (text_size(event) < sizeof(name)) {
        memcpy(name, event.at, text_size(event));
        name[text_size(event)] = '\0';
        type = ftrace_event_type_by_name(name);
    }
    if (type && type->number != PB_FtraceEvent_generic) {
        size_t start = wire_checkpoint(w), message = wire_begin(w, type->number);
        size_t n = typed_write(w, type, args, symbols);
        wire_end(w, message);
        if (n || args.at == args.end || !type->n_fields)
            return;
        wire_rollback(w, start);
    }
    generic_write(w, event, args);
}
