// SPDX-License-Identifier: Apache-2.0
//
// A sample whose stack was seen before costs a hash look-up and a few digits in a buffer. Only new
// frames get names. The names are made without the lock, because the VM may block; two threads may
// make the same names at the same time, and the second finds them known.
//
// If the tables take too much memory, all entries are dropped, and get new keys when they come
// again. The log keeps its meaning, and a VM with endless stacks, classes or threads does not grow.
// The number of a text shows whether the text was dropped.
#include "producer/agents/jvm/sample_log.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "producer/agents/jvm/byte_table.h"
#include "producer/agents/jvm/line_file.h"

#define MEMORY_MAX   (64 * 1024 * 1024)
#define KEY_TEXT_MAX 24

struct sample_log {
    pthread_mutex_t lock;
    struct line_file file;
    uint64_t next_key;
    struct byte_table stacks, frames, texts, definitions;
    const char **text_of; // owned array by number - n_forgotten - 1; texts borrowed
    size_t n_texts, text_capacity;
    _Atomic uint64_t n_forgotten; // texts
};

static char *number_put(char *at, uint64_t number)
{
    char digits[KEY_TEXT_MAX], *digit = digits;
    do
        *digit++ = (char)('0' + number % 10);
    while (number /= 10);
    while (digit > digits)
        *at++ = *--digit;
    return at;
}

static int sample_put(struct sample_log *log, uint64_t key)
{
    char *at = line_begin(&log->file, KEY_TEXT_MAX);
    if (!at)
        return -EIO;
    line_end(&log->file, number_put(at, key));
    return 0;
}

// Finds the key of a text. Writes a definition of the text if the log has none.
static int definition_put(struct sample_log *log, const char *text, size_t size, uint64_t *ret)
{
    const struct byte_entry *known = byte_table_find(&log->definitions, text, size);
    if (known) {
        *ret = known->number;
        return 0;
    }
    char *at = line_begin(&log->file, KEY_TEXT_MAX + size);
    if (!at)
        return -EIO;
    if (!byte_table_add(&log->definitions, text, size, log->next_key))
        return -ENOMEM;
    *ret = log->next_key++;
    *at++ = '+';
    at = number_put(at, *ret);
    *at++ = ',';
    memcpy(at, text, size);
    line_end(&log->file, at + size);
    return 0;
}

bool sample_log_knows(const struct sample_log *log, uint64_t number)
{
    return number > atomic_load_explicit(&log->n_forgotten, memory_order_relaxed);
}

static const char *text_find(const struct sample_log *log, uint64_t number)
{
    return log->text_of[number - log->n_forgotten - 1];
}

static int record_put(struct sample_log *log, const struct sample *sample, uint64_t *ret)
{
    char text[SAMPLE_TEXT_MAX * 3];
    if (!sample_log_knows(log, sample->thread) || !sample_log_knows(log, sample->type))
        return -ESTALE;
    int n = snprintf(text, sizeof(text),
                     "jthread[%s], jclass[%s], size[%" PRId64 ", hex: 0x%" PRIx64 "]",
                     text_find(log, sample->thread), text_find(log, sample->type),
                     sample->size_bytes, (uint64_t)sample->size_bytes);
    return definition_put(log, text, (size_t)n, ret);
}

// Writes the frames, outermost first. Returns -EAGAIN if another thread made the log forget frames.
static int stack_put(struct sample_log *log, const struct sample *sample, uint64_t record,
                     uint64_t *ret)
{
    uint64_t keys[SAMPLE_FRAMES_MAX];
    for (size_t i = 0; i < sample->n_frames; i++) {
        const struct byte_entry *frame =
            byte_table_find(&log->frames, &sample->frames[i], sizeof(sample->frames[i]));
        if (!frame)
            return -EAGAIN;
        keys[i] = frame->number;
    }
    char *at = line_begin(&log->file, (sample->n_frames + 2) * KEY_TEXT_MAX);
    if (!at)
        return -EIO;
    *ret = log->next_key++;
    *at++ = '=';
    at = number_put(at, *ret);
    *at++ = ',';
    at = number_put(at, record);
    for (size_t i = sample->n_frames; i-- > 0;) {
        *at++ = ';';
        at = number_put(at, keys[i]);
    }
    line_end(&log->file, at);
    return 0;
}

static int frame_define(struct sample_log *log, const struct sample_frame *frame, char *text,
                        size_t size)
{
    uint64_t key = 0;
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
            text[i] = '?';
    int r = definition_put(log, text, size, &key);
    if (r == 0 && !byte_table_find(&log->frames, frame, sizeof(*frame)) &&
        !byte_table_add(&log->frames, frame, sizeof(*frame), key))
        r = -ENOMEM;
    return r;
}

// Called with the lock, which is released while names are made.
static int frames_define(struct sample_log *log, const struct sample *sample, sample_frame_fn name,
                         void *userdata)
{
    char text[SAMPLE_TEXT_MAX];
    int r = 0;
    for (size_t i = 0; r == 0 && i < sample->n_frames; i++) {
        const struct sample_frame *frame = &sample->frames[i];
        if (byte_table_find(&log->frames, frame, sizeof(*frame)))
            continue;
        pthread_mutex_unlock(&log->lock);
        size_t size = name(userdata, frame, text, sizeof(text));
        pthread_mutex_lock(&log->lock);
        r = frame_define(log, frame, text, size);
    }
    return r;
}

// Clears all tables, because stacks refer to all kinds.
static void tables_clear(struct sample_log *log)
{
    byte_table_clear(&log->stacks);
    byte_table_clear(&log->definitions);
    byte_table_clear(&log->frames);
    byte_table_clear(&log->texts);
    atomic_fetch_add_explicit(&log->n_forgotten, log->n_texts, memory_order_relaxed);
    log->n_texts = 0;
}

static void memory_bound(struct sample_log *log)
{
    if (log->stacks.n_bytes + log->definitions.n_bytes + log->frames.n_bytes + log->texts.n_bytes >=
        MEMORY_MAX)
        tables_clear(log);
}

static int stack_define(struct sample_log *log, const struct sample *sample, size_t size,
                        sample_frame_fn name, void *userdata, uint64_t *ret)
{
    uint64_t record, key;
    int r;
    do {
        r = record_put(log, sample, &record);
        if (r == 0)
            r = frames_define(log, sample, name, userdata);
        if (r < 0)
            return r;
        const struct byte_entry *known = byte_table_find(&log->stacks, sample, size);
        if (known) {
            *ret = known->number;
            return 0;
        }
        r = stack_put(log, sample, record, &key);
    } while (r == -EAGAIN);
    if (r == 0)
        memory_bound(log);
    if (r == 0 && !byte_table_add(&log->stacks, sample, size, key))
        r = -ENOMEM;
    if (r == 0)
        *ret = key;
    return r;
}

int sample_log_add(struct sample_log *log, const struct sample *sample, sample_frame_fn name,
                   void *userdata, uint64_t *ret_key)
{
    uint64_t key = 0;
    size_t size = offsetof(struct sample, frames) + sample->n_frames * sizeof(sample->frames[0]);
    int r = 0;
    if (sample->thread == 0 || sample->type == 0)
        return -ENOMEM;
    pthread_mutex_lock(&log->lock);
    const struct byte_entry *known = byte_table_find(&log->stacks, sample, size);
    if (log->file.fd < 0)
        r = -EIO;
    else if (known)
        key = known->number;
    else
        r = stack_define(log, sample, size, name, userdata, &key);
    if (r == 0)
        r = sample_put(log, key);
    pthread_mutex_unlock(&log->lock);
    if (r == 0)
        *ret_key = key;
    return r;
}

int sample_log_open(const char *path, struct sample_log **ret)
{
    struct sample_log *log = calloc(1, sizeof(*log));
    if (!log)
        return -ENOMEM;
    int r = line_file_open(&log->file, path);
    if (r < 0) {
        free(log);
        return r;
    }
    pthread_mutex_init(&log->lock, NULL);
    *ret = log;
    return 0;
}

bool sample_log_flush(struct sample_log *log)
{
    pthread_mutex_lock(&log->lock);
    bool open = line_file_flush(&log->file);
    pthread_mutex_unlock(&log->lock);
    return open;
}

void sample_log_close(struct sample_log *log)
{
    pthread_mutex_lock(&log->lock);
    line_file_close(&log->file);
    tables_clear(log);
    free(log->text_of);
    log->text_of = NULL;
    log->text_capacity = 0;
    pthread_mutex_unlock(&log->lock);
}

static uint64_t text_add(struct sample_log *log, const char *text, size_t size)
{
    if (log->n_texts == log->text_capacity) {
        size_t capacity = log->text_capacity ? log->text_capacity * 2 : 256;
        const char **grown = realloc(log->text_of, capacity * sizeof(*grown));
        if (!grown)
            return 0;
        log->text_of = grown;
        log->text_capacity = capacity;
    }
    uint64_t number = log->n_forgotten + log->n_texts + 1;
    const char *copy = byte_table_add(&log->texts, text, size, number);
    if (!copy)
        return 0;
    log->text_of[log->n_texts++] = copy;
    return number;
}

uint64_t sample_log_intern(struct sample_log *log, char *text, size_t size)
{
    size = size < SAMPLE_TEXT_MAX ? size : SAMPLE_TEXT_MAX;
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
            text[i] = '?';
    pthread_mutex_lock(&log->lock);
    const struct byte_entry *known = byte_table_find(&log->texts, text, size);
    uint64_t number = known ? known->number : log->file.fd >= 0 ? text_add(log, text, size) : 0;
    pthread_mutex_unlock(&log->lock);
    return number;
}
