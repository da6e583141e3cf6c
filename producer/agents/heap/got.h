// SPDX-License-Identifier: Apache-2.0
//
// Calls between objects go through tables of addresses (GOT). Here the entries of some functions
// are exchanged in all loaded objects, and put back. No memory is allocated, and nothing is kept
// from one walk to the next: what is there says what was done.
#pragma once

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct got_hook {
    const char *name;
    void *hook;
    void *real; // NULL: the process does not have this function
};

struct got_walk {
    const struct got_hook *hooks;
    size_t n_hooks;
    bool install; // false: put back what was there
    // Objects that contain one of these addresses are left as they are.
    const void *const *spared;
    size_t n_spared;
    // Called for every loaded object, also for the spared. May be NULL.
    void (*seen)(void *userdata, const struct dl_phdr_info *info);
    void *userdata;
    uint32_t n_changed, n_refused; // entries; counted here
};

// One object alone: takes no lock, and may be called in a signal handler.
void got_walk_object(struct got_walk *walk, const struct dl_phdr_info *info);

// Not in two threads at once. The loader's list is locked meanwhile.
void got_walk_objects(struct got_walk *walk);
