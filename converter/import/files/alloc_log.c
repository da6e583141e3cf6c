// SPDX-License-Identifier: Apache-2.0
//
// Logs of tiallocsample: `+KEY,...` defines a record (thread, type and size) or a frame,
// `=KEY,RECORD;FRAME;...` defines a stack with its frames, outermost first, and a bare KEY is one
// sample of that stack. All kinds share one sequence of keys.
//
// Samples are only counted, so memory depends on the definitions alone. Records and frames are
// written at once. A redefined key has the new meaning in later lines.
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/map.h"
#include "common/vec.h"
#include "converter/ground/lines.h"
#include "converter/import/files/file_format.h"
#include "converter/tables/rows.h"

#define LINES_LOOKED_AT 8
#define ASK_LINES       2048
#define FRAMES_MAX      65536
#define GAP_MAX         1024 // undefined keys that `dense` may skip at once
#define SHORT_DIGITS    18   // any number of 18 digits fits in 64 bits

enum kind { KIND_RECORD = 1, KIND_FRAME, KIND_STACK };
#define KIND_BITS 2

struct stack {
    uint64_t key, n_samples;
    uint32_t record, n_frames; // record: row of the record, counted from the log's first record
};
VEC_DEFINE(stack_vec, struct stack);
VEC_DEFINE(frame_id_vec, int64_t);
VEC_DEFINE(key_vec, uint64_t);

// Indexes of file_format_alloc_log.tables.
enum { LOGS, FRAMES, RECORDS, STACKS, STACK_FRAMES, N_ROWS };

struct alloc_log {
    struct file_import *in;
    int64_t id, n_samples, first_record, first_stack_frame; // rows
    struct rows rows[N_ROWS];
    struct key_vec dense;    // key -> value of key_find(); 0: undefined
    struct map64 sparse;     // like `dense`, for keys far above the earlier keys
    struct stack_vec items;  // stacks, written at the end
    struct frame_id_vec ids; // of the current stack
    uint64_t n_definitions;
};

static bool text_find_last(struct span text, const char *what, struct span *ret)
{
    size_t n = strlen(what);
    for (const char *at = text.end; (size_t)(at - text.at) >= n; at--)
        if (memcmp(at - n, what, n) == 0) {
            *ret = (struct span){at - n, at};
            return true;
        }
    return false;
}

struct record {
    struct span thread, type, file;
    uint64_t size;
};

// Reads jthread[NAME], jclass[SIGNATURE file: FILE], size[N, hex: 0xN]. A thread's name may be any
// text.
static bool record_read(struct span text, struct record *ret)
{
    static const char head[] = "jthread[", file_mark[] = " file: ";
    struct span class_mark, size_mark;
    struct record record;
    if (text_size(text) < sizeof(head) || memcmp(text.at, head, sizeof(head) - 1) != 0 ||
        !text_find_last(text, "], size[", &size_mark) ||
        !text_find_last((struct span){text.at, size_mark.at}, "], jclass[", &class_mark))
        return false;
    record.thread = (struct span){text.at + sizeof(head) - 1, class_mark.at};
    record.type = (struct span){class_mark.end, size_mark.at};
    record.file = (struct span){NULL, NULL};
    const char *file = memmem(record.type.at, text_size(record.type), file_mark, strlen(file_mark));
    if (file) {
        record.file = (struct span){file + strlen(file_mark), record.type.end};
        record.type.end = file;
        if (text_is(record.file, "<UNKNOWN_FILE>"))
            record.file = (struct span){NULL, NULL};
    }
    struct span size = {size_mark.end, size_mark.end};
    while (size.end < text.end && is_digit(*size.end))
        size.end++;
    if (size.end == text.end || (*size.end != ',' && *size.end != ']') ||
        !text_decimal(size, &record.size) || record.size > INT64_MAX)
        return false;
    *ret = record;
    return true;
}

// Returns id << KIND_BITS | kind, or 0 if the key is undefined. The id of a stack is its index in
// `items`.
static uint64_t key_find(const struct alloc_log *log, uint64_t key)
{
    if (key < log->dense.n && log->dense.items[key])
        return log->dense.items[key];
    const uint64_t *value = log->sparse.n ? map64_find(&log->sparse, key) : NULL;
    return value ? *value : 0;
}

static int key_define(struct alloc_log *log, uint64_t number, uint64_t key, int64_t id,
                      enum kind kind)
{
    uint64_t value = (uint64_t)id << KIND_BITS | kind;
    if (key_find(log, key))
        file_bad(log->in, number, "key %" PRIu64 " is defined again; the new meaning holds", key);
    if (key >= log->dense.n && key - log->dense.n > GAP_MAX)
        return map64_set(&log->sparse, key, value);
    int r = 0;
    while (key >= log->dense.n && r == 0)
        r = key_vec_push(&log->dense, 0);
    if (r == 0)
        log->dense.items[key] = value;
    return r;
}

static int definition_import(struct alloc_log *log, uint64_t number, uint64_t key, struct span text)
{
    static const char head[] = "jthread[";
    struct record record;
    if (text_size(text) < strlen(head) || memcmp(text.at, head, strlen(head)) != 0) {
        rows_int(&log->rows[FRAMES], COL_alloc_log_frame_alloc_log_id, log->id);
        rows_int(&log->rows[FRAMES], COL_alloc_log_frame_key, (int64_t)key);
        rows_text(&log->rows[FRAMES], COL_alloc_log_frame_name, text.at, text_size(text));
        return key_define(log, number, key, rows_put(&log->rows[FRAMES]), KIND_FRAME);
    }
    if (!record_read(text, &record)) {
        file_bad(log->in, number, "a record of thread, type and size that cannot be read");
        return 0;
    }
    struct rows *rows = &log->rows[RECORDS];
    rows_int(rows, COL_alloc_log_record_alloc_log_id, log->id);
    rows_int(rows, COL_alloc_log_record_key, (int64_t)key);
    rows_text(rows, COL_alloc_log_record_thread_name, record.thread.at, text_size(record.thread));
    rows_text(rows, COL_alloc_log_record_type, record.type.at, text_size(record.type));
    if (record.file.at)
        rows_text(rows, COL_alloc_log_record_file, record.file.at, text_size(record.file));
    rows_int(rows, COL_alloc_log_record_size_bytes, (int64_t)record.size);
    int64_t id = rows_put(rows);
    return id - log->first_record > UINT32_MAX ? -EFBIG
                                               : key_define(log, number, key, id, KIND_RECORD);
}

// Returns the leading digits of a text, and their value if there are at most SHORT_DIGITS.
static struct span digits_take(struct span text, uint64_t *ret)
{
    struct span digits = {text.at, text.at};
    uint64_t value = 0;
    unsigned int digit;
    for (; digits.end < text.end && (digit = (unsigned int)*digits.end - '0') <= 9; digits.end++)
        value = value * 10 + digit;
    *ret = value;
    return digits;
}

// Takes the next number of a list. False: not a number. *ret_last: the list ends here.
static bool list_next(struct span *list, uint64_t *ret, bool *ret_last)
{
    struct span item = digits_take(*list, ret);
    *ret_last = item.end == list->end;
    list->at = item.end + !*ret_last;
    size_t n = text_size(item);
    return n > 0 && (*ret_last || *item.end == ';') &&
           (n <= SHORT_DIGITS || text_decimal(item, ret));
}

// Reads the ids of a stack's frames into log->ids. Returns NULL or an error text.
static const char *stack_read(struct alloc_log *log, struct span list, int64_t *ret_record)
{
    uint64_t key;
    bool last, has_record = false;
    frame_id_vec_clear(&log->ids);
    do {
        if (!list_next(&list, &key, &last))
            return "a stack with something other than keys in it";
        uint64_t value = key_find(log, key);
        if (!value)
            return "a stack with a key that is not defined";
        enum kind kind = value & ((1 << KIND_BITS) - 1);
        int64_t id = (int64_t)(value >> KIND_BITS);
        if (kind != (has_record ? KIND_FRAME : KIND_RECORD))
            return has_record ? "a stack with a key in it that is not a frame"
                              : "a stack that does not begin with a record";
        if (!has_record)
            *ret_record = id;
        else if (log->ids.n == FRAMES_MAX)
            return "a stack of more than 65536 frames";
        else if (frame_id_vec_push(&log->ids, id) < 0)
            return "no memory";
        has_record = true;
    } while (!last);
    return NULL;
}

static int stack_import(struct alloc_log *log, uint64_t number, uint64_t key, struct span list)
{
    int64_t record = 0;
    const char *wrong = stack_read(log, list, &record);
    if (wrong) {
        file_bad(log->in, number, "%s", wrong);
        return 0;
    }
    struct stack stack = {.key = key,
                          .record = (uint32_t)(record - log->first_record),
                          .n_frames = (uint32_t)log->ids.n};
    size_t index = log->items.n;
    rows_put_numbers(&log->rows[STACK_FRAMES], COL__alloc_log_stack_frame_frame_id, log->ids.items,
                     log->ids.n);
    int r = stack_vec_push(&log->items, stack);
    return r < 0 ? r : key_define(log, number, key, (int64_t)index, KIND_STACK);
}

static void sample_import(struct alloc_log *log, uint64_t number, struct span line)
{
    uint64_t key;
    if (!text_decimal(line, &key)) {
        file_bad(log->in, number, "no definition and no key of a stack");
        return;
    }
    uint64_t value = key_find(log, key);
    if ((value & ((1 << KIND_BITS) - 1)) != KIND_STACK) {
        file_bad(log->in, number, "key %" PRIu64 " is not a stack", key);
        return;
    }
    log->items.items[value >> KIND_BITS].n_samples++;
    log->n_samples++;
}

// Imports a line. A last line without a newline is cut. A cut definition is left out: in a complete
// log, a sample follows a definition. A cut sample is used if the sample is valid.
static int line_import(struct alloc_log *log, uint64_t number, struct span line, bool is_cut)
{
    if (text_size(line) > LINE_MAX_BYTES) {
        file_bad(log->in, number, "the line is longer than 1 MiB");
        return 0;
    }
    if (*line.at != '+' && *line.at != '=') {
        sample_import(log, number, line);
        return 0;
    }
    if (is_cut || memchr(line.at, 0, text_size(line))) {
        file_bad(log->in, number, "%s",
                 is_cut ? "the last line is cut" : "binary data in a definition");
        return 0;
    }
    bool is_stack = *line.at == '=';
    const char *comma = memchr(line.at, ',', text_size(line));
    struct span number_text = {line.at + 1, comma ? comma : line.end};
    uint64_t key;
    if (!comma || !text_decimal(number_text, &key) || key > INT64_MAX) {
        file_bad(log->in, number, "no key after '%c'", *line.at);
        return 0;
    }
    struct span rest = {comma + 1, line.end};
    log->n_definitions++;
    return is_stack ? stack_import(log, number, key, rest)
                    : definition_import(log, number, key, rest);
}

static bool alloc_log_recognise(const char *path, const uint8_t *bytes, size_t size)
{
    (void)path;
    struct lines lines = lines_over(bytes, size);
    struct span line;
    while (lines.number < LINES_LOOKED_AT && lines_next(&lines, &line)) {
        struct span key = {line.at + 1, line.at + 1};
        uint64_t value;
        if (line.at == line.end)
            continue;
        while (key.end < line.end && *key.end != ',')
            key.end++;
        return *line.at == '+' && key.end < line.end && text_decimal(key, &value);
    }
    return false;
}

static int stacks_write(struct alloc_log *log, struct err *err)
{
    int64_t first_frame = log->first_stack_frame;
    vec_foreach(&log->items, stack) {
        rows_int(&log->rows[STACKS], COL_alloc_log_stack_alloc_log_id, log->id);
        rows_int(&log->rows[STACKS], COL_alloc_log_stack_key, (int64_t)stack->key);
        rows_int(&log->rows[STACKS], COL_alloc_log_stack_record_id,
                 log->first_record + stack->record);
        rows_int(&log->rows[STACKS], COL_alloc_log_stack_first_frame, first_frame);
        rows_int(&log->rows[STACKS], COL_alloc_log_stack_n_frames, stack->n_frames);
        rows_int(&log->rows[STACKS], COL_alloc_log_stack_n_samples, (int64_t)stack->n_samples);
        first_frame += stack->n_frames;
        rows_put(&log->rows[STACKS]);
    }
    return rows_error(&log->rows[STACKS], err);
}

// Counts a run of samples, the bulk of a log. Stops at another kind of line, at a bad line, and
// when file_goes_on() is due.
static void samples_count(struct alloc_log *log, struct lines *lines)
{
    do {
        uint64_t key;
        struct span digits = digits_take((struct span){lines->at, lines->end}, &key);
        size_t n = text_size(digits);
        if (n == 0 || n > SHORT_DIGITS || digits.end == lines->end || *digits.end != '\n')
            return;
        uint64_t value = key_find(log, key);
        if ((value & ((1 << KIND_BITS) - 1)) != KIND_STACK)
            return;
        log->items.items[value >> KIND_BITS].n_samples++;
        log->n_samples++;
        lines->at = digits.end + 1;
        lines->number++;
    } while (lines->number % ASK_LINES);
}

static int lines_import(struct alloc_log *log, const uint8_t *bytes, size_t size, struct err *err)
{
    struct lines lines = lines_over(bytes, size);
    struct span line;
    while (lines.at < lines.end) {
        uint64_t number = lines.number;
        samples_count(log, &lines);
        if (lines.number == number && lines_next(&lines, &line)) {
            bool is_cut = lines.at == lines.end && bytes[size - 1] != '\n';
            int r = line.at < line.end ? line_import(log, lines.number, line, is_cut) : 0;
            if (r < 0)
                return err_errno(err, r, "%s", log->in->path);
        }
        if (lines.number % ASK_LINES)
            continue;
        if (!file_goes_on(log->in))
            return -ECANCELED;
    }
    if (!log->n_definitions)
        return err_set(err, -EBADMSG, "%s: not an allocation log: line %" PRIu64 ": %s",
                       log->in->path, log->in->first_bad,
                       log->in->n_bad ? log->in->first_why : "it is empty");
    int r = 0;
    for (size_t i = FRAMES; i < N_ROWS && r == 0; i++)
        r = rows_error(&log->rows[i], err);
    return r;
}

static void alloc_log_done(struct alloc_log *log)
{
    for (size_t i = 0; i < N_ROWS; i++)
        rows_close(&log->rows[i]);
    key_vec_done(&log->dense);
    map64_done(&log->sparse);
    stack_vec_done(&log->items);
    frame_id_vec_done(&log->ids);
}

const struct file_format file_format_alloc_log;

static int alloc_log_import(struct file_import *in, const uint8_t *bytes, size_t size,
                            struct err *err)
{
    CLEANUP(alloc_log_done) struct alloc_log log = {.in = in};
    struct rows *rows = &log.rows[LOGS];
    int r = 0;
    for (size_t i = 0; i < N_ROWS && r == 0; i++)
        r = rows_open_bulk(&log.rows[i], in->handle, in->bulk, file_format_alloc_log.tables[i],
                           err);
    log.id = rows->next_id;
    log.first_record = log.rows[RECORDS].next_id;
    log.first_stack_frame = log.rows[STACK_FRAMES].next_id;
    if (r == 0)
        r = lines_import(&log, bytes, size, err);
    if (r == 0)
        r = stacks_write(&log, err);
    if (r < 0)
        return r;
    rows_text(rows, COL_alloc_log_path, in->path, strlen(in->path));
    rows_int(rows, COL_alloc_log_n_samples, log.n_samples);
    rows_int(rows, COL_alloc_log_n_bad_lines, (int64_t)in->n_bad);
    rows_put(rows);
    return rows_error(rows, err);
}

const struct file_format file_format_alloc_log = {
    .name = "allocation log",
    .option = "alloc-log",
    .recognise = alloc_log_recognise,
    .import = alloc_log_import,
    .tables = {TABLE_alloc_log, TABLE_alloc_log_frame, TABLE_alloc_log_record,
               TABLE_alloc_log_stack, TABLE__alloc_log_stack_frame},
    .n_tables = N_ROWS,
};
