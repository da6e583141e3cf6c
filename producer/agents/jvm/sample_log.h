// SPDX-License-Identifier: Apache-2.0
//
// The log of samples: what was defined, and the lines that are not written yet. Any thread may
// call; one short lock per call, never held while the VM is asked for anything.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sample_log;

// A frame is what tells it from others: the method and the place in it, which is 0 where lines are
// not wanted.
struct sample_frame {
    uint64_t method;
    int64_t place;
};

#define SAMPLE_FRAMES_MAX 512
#define SAMPLE_TEXT_MAX   2048

// thread and type are numbers of sample_log_intern(). Frames are from the innermost out.
struct sample {
    uint64_t thread, type;
    int64_t size_bytes;
    uint64_t n_frames;
    struct sample_frame frames[SAMPLE_FRAMES_MAX];
};

// The name of a frame that the log has not seen yet. Called without the lock; writes a text
// without its end of line, cut to size; returns its length.
typedef size_t (*sample_frame_fn)(void *userdata, const struct sample_frame *frame, char *text,
                                  size_t size);

// Replaces the file; a symbolic link is refused. *ret is never freed: callbacks of the VM may be
// under way until the process ends. 0 or negative errno.
int sample_log_open(const char *path, struct sample_log **ret);

// One more sample; the key of its stack goes to *ret_key. -ENOMEM: lost. -EIO: the log cannot be
// written (any more), or is closed. -ESTALE: its thread or type was forgotten; intern them again.
int sample_log_add(struct sample_log *log, const struct sample *sample, sample_frame_fn name,
                   void *userdata, uint64_t *ret_key);

// What was added goes to the file. False: the log is closed.
bool sample_log_flush(struct sample_log *log);

// Flushes; the file ends on a whole line.
void sample_log_close(struct sample_log *log);

// A number for a text, the same for the same bytes until it is forgotten, and nobody else's ever;
// 0: out of memory. Control characters become '?'.
uint64_t sample_log_intern(struct sample_log *log, char *text, size_t size);

// Whether the number still stands for its text.
bool sample_log_knows(const struct sample_log *log, uint64_t number);
