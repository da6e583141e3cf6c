// SPDX-License-Identifier: Apache-2.0
//
// The log of samples: the definitions that were made, and the unwritten lines. Thread-safe: one
// short lock per call, which is never held while the VM is asked for anything.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sample_log;

// The identity of a frame: the method and the place in it, which is 0 if lines are not wanted.
struct sample_frame {
    uint64_t method;
    int64_t place;
};

#define SAMPLE_FRAMES_MAX 512
#define SAMPLE_TEXT_MAX   2048

// thread and type are numbers of sample_log_intern(). Frames are innermost first.
struct sample {
    uint64_t thread, type;
    int64_t size_bytes;
    uint64_t n_frames;
    struct sample_frame frames[SAMPLE_FRAMES_MAX];
};

// Names a frame that is new to the log. Called without the lock. Writes a text without its end of
// line, cut to `size`, and returns its length.
typedef size_t (*sample_frame_fn)(void *userdata, const struct sample_frame *frame, char *text,
                                  size_t size);

// Opens and empties the file; a link of any kind is refused. *ret is never freed, because callbacks
// of the VM may run until the process ends. Returns 0 or a negative errno.
int sample_log_open(const char *path, struct sample_log **ret);

// Adds a sample; *ret_key is the key of its stack. Returns 0; -ENOMEM if the sample is lost; -EIO
// if the log is closed or can no longer be written; or -ESTALE if its thread or type was forgotten:
// intern them again.
int sample_log_add(struct sample_log *log, const struct sample *sample, sample_frame_fn name,
                   void *userdata, uint64_t *ret_key);

// Writes the added lines. Returns false if the log is closed.
bool sample_log_flush(struct sample_log *log);

// Flushes and closes the log, which ends on a whole line.
void sample_log_close(struct sample_log *log);

// Returns a number for a text: the same number for the same bytes until it is forgotten, and never
// used for another text. 0: memory ran out. Control characters become '?'.
uint64_t sample_log_intern(struct sample_log *log, char *text, size_t size);

// Returns whether the number still stands for its text.
bool sample_log_knows(const struct sample_log *log, uint64_t number);
