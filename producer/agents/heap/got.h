// SPDX-License-Identifier: Apache-2.0
//
// Calls between objects go through tables of addresses (GOT). This module exchanges the entries of
// some functions in all loaded objects, and puts them back. It allocates no memory and keeps no
// state between walks: the entries themselves show what was done.
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
    bool install; // false: put the original entries back
    // Objects that contain one of these addresses are left as they are.
    const void *const *spared;
    size_t n_spared;
    // Called for every loaded object, spared ones included. May be NULL.
    void (*seen)(void *userdata, const struct dl_phdr_info *info);
    void *userdata;
    uint32_t n_changed, n_refused; // counts of entries
};

// Walks over one object. Takes no lock and is safe in a signal handler.
void got_walk_object(struct got_walk *walk, const struct dl_phdr_info *info);

// Walks over all objects, with the loader's list locked. Not in two threads at once.
void got_walk_objects(struct got_walk *walk);
