// SPDX-License-Identifier: Apache-2.0
//
// Call stacks with weights, merged into a tree with the outermost frames at the root. A tree is
// written as folded text, or as an SVG picture with its own script.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/map.h"
#include "common/vec.h"

#define FLAME_NONE UINT32_MAX

struct flame_node {
    uint32_t name; // in names
    uint32_t parent, first_child, next_sibling;
    uint32_t depth;        // the root's is 0
    int64_t before, after; // including all children; set by flame_finish()
    int64_t self_before, self_after;
    int64_t width; // of the box: each stack counts with the larger of `before` and `after`
};
VEC_DEFINE(flame_node_vec, struct flame_node);

// All zero is an empty tree.
struct flame {
    struct flame_node_vec nodes; // parents before children; the first is the root
    struct strset names;
    struct map64 children; // parent and name -> node
    bool is_diff;          // `before` counts, too
};

struct flame_look {
    const char *title, *unit; // borrowed
    double min_share;         // frames with less than this part of the whole are left out
};

// Adds a stack, outermost frame first. Returns 0 or -ENOMEM.
int flame_add(struct flame *flame, const char *const *frames, size_t n, int64_t before,
              int64_t after);

// Adds all stacks of another tree. Their weights `after` (of flame_add()) become `before` here if
// `is_before` is set, otherwise `after`. Returns 0 or -ENOMEM.
int flame_add_tree(struct flame *flame, const struct flame *other, bool is_before);

// Sums up the weights. Called after the last flame_add().
void flame_finish(struct flame *flame);
void flame_done(struct flame *flame);

// Writes a line for each stack: frames joined by ';', a blank, and the weight (both weights of a
// difference). ';' and control characters in names become '?'.
void flame_folded(const struct flame *flame, FILE *out);

// Writes a title into `ret`: "WHAT: 5.8 MiB, 6,120,288 bytes", or both weights of a difference.
// Only the unit "bytes" gets MiB.
void flame_title(char *ret, size_t size, const struct flame *flame, const char *what,
                 const char *unit);
int flame_svg(const struct flame *flame, const struct flame_look *look, FILE *out);
