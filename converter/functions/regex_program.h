// SPDX-License-Identifier: Apache-2.0
//
// The program of a pattern, for regex_compile.c and regex.c. Each step takes a character or
// continues at another step. Targets are relative, so a run of steps can be moved and copied.
#pragma once

#include <stdint.h>

#include "common/vec.h"

#define RUNE_MAX 0x10ffff
#define RAW_BYTE 0x110000 // RAW_BYTE + byte: a byte that is not UTF-8
#define N_SPANS  4        // begin and end of the match, and of the first group

enum operation {
    STEP_CHARACTER, // takes the character x or y
    STEP_ANY,       // takes any character but a line's end
    STEP_ALL,
    STEP_SET,   // x: the set
    STEP_SPLIT, // continues x steps from here, or, as second choice, y steps
    STEP_JUMP,  // continues x steps from here
    STEP_SAVE,  // keeps the place as span x
    STEP_BEGIN,
    STEP_END,
    STEP_LINE_BEGIN,
    STEP_LINE_END,
    STEP_WORD_EDGE,
    STEP_NO_WORD_EDGE,
    STEP_FOUND,
};

struct step {
    enum operation operation;
    int32_t x, y;
};
VEC_DEFINE(step_vec, struct step);

struct range {
    uint32_t first, last;
};
VEC_DEFINE(range_vec, struct range);

// A set of characters: ASCII characters as bits, all other characters as ranges.
struct set {
    uint32_t ascii[4];
    bool is_negative;        // holds for the ranges only; the bits are inverted already
    struct range_vec ranges; // owned
};
VEC_DEFINE(set_vec, struct set);

// A thread: its step in the program, and the places in the text that it has saved.
struct thread {
    int32_t step;
    size_t saved[N_SPANS];
};

struct threads {
    struct thread *items; // owned
    int32_t n;
};

struct regex {
    struct step_vec steps;
    struct set_vec sets;
    int n_groups;
    char *literal; // owned; the text that each match begins with, or NULL
    size_t literal_size;
    bool is_literal; // the pattern has only the literal
    bool is_anchored;
    struct threads now, then;
    uint32_t *marks; // owned; by step: `mark` of the place at which a thread was last added
    uint32_t mark;
    struct thread *stack; // owned
};

// Reads a character of UTF-8, and moves `at` past it.
static inline uint32_t rune_read(const char **at, const char *end)
{
    const unsigned char *p = (const unsigned char *)*at;
    uint32_t c = *p;
    int more = c < 0x80                ? 0
               : c >= 0xc2 && c < 0xe0 ? 1
               : c >= 0xe0 && c < 0xf0 ? 2
               : c >= 0xf0 && c < 0xf5 ? 3
                                       : -1;
    (*at)++;
    if (more == 0)
        return c;
    if (more < 0 || end - *at < more)
        return RAW_BYTE + c;
    c &= 0x3fu >> more;
    for (int i = 1; i <= more; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return RAW_BYTE + *p;
        c = c << 6 | (p[i] & 0x3f);
    }
    *at += more;
    return c;
}

static inline bool is_letter(uint32_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static inline bool is_word(uint32_t c)
{
    return is_letter(c) || (c >= '0' && c <= '9') || c == '_';
}
