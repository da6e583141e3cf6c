// SPDX-License-Identifier: Apache-2.0
//
// Runs one data source over a fake /proc and /sys in a temporary directory, into a real packet
// buffer, and hands out the packets.
#pragma once

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/str.h"
#include "common/wire.h"
#include "producer/foreign/helper.h"
#include "producer/ground/loop.h"
#include "producer/sources/source.h"
#include "producer/trace/packet_buffer.h"
#include "producer/trace/packet_writer.h"
#include "protos/fields.h"
#include "tests/unit/grid_span.h"
#include "tests/unit/temp_folder.h"

struct source_fixture {
    char root[64], proc[80], sys[80];
    struct source_roots roots;
    struct loop *loop;
    struct foreign *foreign;
    struct foreign_helper *helper;
    struct packet_buffer *buffer;
    struct packet_writer writer;
    struct pid_feed pids;
    struct strbuf log_text; // everything that was logged
    struct log log;
    struct source_env env;
    const struct source_class *class;
    struct source *source;
};

static inline void fixture_log(void *userdata, enum log_level level, const char *line)
{
    (void)level;
    strbuf_addf(userdata, "%s\n", line);
}

static inline void fixture_init(struct source_fixture *f, const char *class_name,
                                size_t buffer_bytes)
{
    memset(f, 0, sizeof(*f));
    temp_folder_make(f->root);
    snprintf(f->proc, sizeof(f->proc), "%s/proc", f->root);
    snprintf(f->sys, sizeof(f->sys), "%s/sys", f->root);
    assert_int_equal(mkdir(f->proc, 0755), 0);
    assert_int_equal(mkdir(f->sys, 0755), 0);
    f->roots = (struct source_roots){.proc = f->proc, .sys = f->sys};
    assert_int_equal(loop_new(&f->loop), 0);
    assert_int_equal(packet_buffer_new(buffer_bytes, PACKET_BUFFER_RING, &f->buffer, NULL), 0);
    f->writer = packet_writer_over(f->buffer, 2);
    f->log = (struct log){.max_level = LOG_LEVEL_INFO, .write = fixture_log};
    f->log.userdata = &f->log_text;
    f->env = (struct source_env){.loop = f->loop,
                                 .writer = &f->writer,
                                 .log = &f->log,
                                 .roots = &f->roots,
                                 .pids = &f->pids};
    struct foreign_options options = {.loop = f->loop, .log = &f->log, .proc = f->proc};
    assert_int_equal(foreign_new(&options, &f->foreign), 0);
    assert_int_equal(foreign_helper_new(f->foreign, &f->helper), 0);
    f->env.helper = f->helper;
    f->class = source_class_find(class_name);
    if (!f->class)
        fail_msg("no source has the name %s: see data_sources in producer/sources/meson.build, and "
                 ".name of the class",
                 class_name);
}

static inline void fixture_done(struct source_fixture *f)
{
    f->source = f->class->close(f->source);
    assert_null(f->source);
    foreign_helper_free(f->helper);
    foreign_free(f->foreign);
    packet_buffer_free(f->buffer);
    loop_free(f->loop);
    strbuf_done(&f->log_text);
    temp_folder_remove(f->root);
}

// Writes `size` bytes as ROOT/path ("proc/vmstat"); directories are made as needed.
static inline void fixture_write(const struct source_fixture *f, const char *path,
                                 const void *bytes, size_t size)
{
    temp_file_write(f->root, path, bytes, size);
}

static inline void fixture_text(const struct source_fixture *f, const char *path, const char *text)
{
    fixture_write(f, path, text, strlen(text));
}

static inline void fixture_start(struct source_fixture *f, const Pb__DataSourceConfig *config)
{
    struct err err = {0};
    int r = f->class->open(&f->env, config, &f->source, &err);
    if (r < 0)
        print_error("open: %s\n", err.text);
    assert_int_equal(r, 0);
    assert_int_equal(f->class->start(f->source, &err), 0);
}

// Runs the loop for at least `duration`. All work due by then has been done, however late.
static inline void fixture_run(struct source_fixture *f, nsec_t duration)
{
    nsec_t end = nsec_now(CLOCK_BOOTTIME) + duration;
    for (nsec_t now; (now = nsec_now(CLOCK_BOOTTIME)) < end;)
        assert_true(loop_run_once(f->loop, end - now) >= 0);
    assert_true(loop_run_once(f->loop, 0) >= 0);
    assert_true(foreign_helper_settle(f->helper, nsec_now(CLOCK_MONOTONIC) + HANG_AFTER));
}

static inline void fixture_run_until_events(struct source_fixture *f, uint64_t n_events)
{
    nsec_t end = nsec_now(CLOCK_BOOTTIME) + HANG_AFTER;
    struct source_counts counts;
    while (f->class->counts(f->source, &counts), counts.events < n_events) {
        nsec_t now = nsec_now(CLOCK_BOOTTIME);
        assert_true(now < end);
        assert_true(loop_run_once(f->loop, end - now) >= 0);
    }
}

// Gets the first field `number` of a message. Returns false if the message lacks the field.
static inline bool message_field(const void *bytes, size_t size, uint32_t number,
                                 struct wire_field *ret)
{
    struct wire_reader reader = wire_reader_over(bytes, size);
    while (wire_next(&reader, ret))
        if (ret->number == number)
            return true;
    assert_false(reader.error);
    return false;
}

static inline uint64_t message_number(const void *bytes, size_t size, uint32_t number)
{
    struct wire_field field;
    return message_field(bytes, size, number, &field) ? field.value : 0;
}

static inline size_t message_count(const void *bytes, size_t size, uint32_t number)
{
    struct wire_reader reader = wire_reader_over(bytes, size);
    struct wire_field field;
    size_t n = 0;
    while (wire_next(&reader, &field))
        n += field.number == number;
    assert_false(reader.error);
    return n;
}

static inline bool field_is_text(const struct wire_field *field, const char *text)
{
    return field->size == strlen(text) && memcmp(field->data, text, field->size) == 0;
}
